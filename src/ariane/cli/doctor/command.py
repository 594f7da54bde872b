"""The command and its output."""

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from ariane.access.signer import Signer
from ariane.broker.config import BrokerOptions
from ariane.cli.doctor.cluster import ClusterCheck
from ariane.cli.doctor.finding import Finding, Severity
from ariane.cli.doctor.local import look_at_machine, look_at_options, look_at_store, read_configuration
from ariane.cli.screen import console
from ariane.cli.servers.host import this_host
from ariane.env import Env
from ariane.remoting import Client, TlsClient
from ariane.remoting.tls_properties import tls_properties

_COLOURS = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.OK: "green"}


def doctor(
    config: Annotated[
        Path | None, typer.Option("-c", "--config", help="the broker's properties file", exists=True, dir_okay=False)
    ] = None,
    namesrv: Annotated[
        str | None, typer.Option("-n", "--namesrv", help="name servers of a running cluster: host:port;host:port")
    ] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="show what is fine too")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Look at a configuration, this machine and a running cluster, and say what is wrong.

    Ends with 1 when there are errors; warnings alone end with 0.
    """
    text = None if config is None else config.read_text(encoding="utf-8", errors="replace")
    found = asyncio.run(examine(text, str(config or ""), namesrv))
    if as_json:
        print(json.dumps([finding._asdict() for finding in found], indent=1))
    else:
        _print(found, verbose)
    if any(finding.severity is Severity.ERROR for finding in found):
        raise typer.Exit(1)


async def examine(text: str | None, file: str, namesrv: str | None) -> list[Finding]:
    """All findings, the worst first; `text` is that of the configuration file, if there is one."""
    env, found = Env(), list(look_at_machine())
    options: BrokerOptions | None = None
    if text is not None:
        options, problems = read_configuration(text, file, this_host())
        found += problems
        if options is not None:
            found += [*look_at_options(options), *look_at_store(options, env.files)]
    servers = namesrv or (options.namesrv_addr if options is not None else None) or this_host().namesrv_addr or ""
    addresses = [address.strip() for address in servers.split(";") if address.strip()]
    if addresses:
        client = _client(options, env)
        try:
            expected = None if options is None else options.broker_name
            found += await ClusterCheck(client, env.clock).look(addresses, expected)
        finally:
            await client.close()
    return sorted(found, key=lambda finding: list(Severity).index(finding.severity))


def _client(options: BrokerOptions | None, env: Env) -> Client:
    """A client that speaks as the configured broker does."""
    if options is None:
        return Client(clock=env.clock, connect_timeout=3.0)
    keys = options.broker_access_key, options.broker_secret_key
    hooks = [Signer(keys[0], keys[1], clock=env.clock)] if keys[0] and keys[1] else []
    tls = None
    if options.use_tls:
        values = {**tls_properties(options.settings.values, env.files), "tls.enable": True}
        tls = TlsClient.from_properties(values)
    return Client(clock=env.clock, connect_timeout=3.0, hooks=hooks, tls=tls)


def _print(found: list[Finding], verbose: bool) -> None:
    for finding in found:
        if finding.severity is Severity.OK and not verbose:
            continue
        colour = _COLOURS[finding.severity]
        console.print(f"[{colour}]{finding.severity:7}[/{colour}]  {finding.check}: ", end="")
        console.print(finding.text, markup=False)
        if finding.advice:
            console.print(f"         -> {finding.advice}", markup=False)
    counts = {severity: sum(finding.severity is severity for finding in found) for severity in Severity}
    console.print(
        f"{counts[Severity.ERROR]} errors, {counts[Severity.WARNING]} warnings, {counts[Severity.OK]} checks are fine"
    )
