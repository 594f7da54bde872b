"""`ariane acl`: check rules files of access control and ask them questions; accounts of running brokers."""

from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from ariane.access.accounts import PERMISSIONS
from ariane.access.explain import explain
from ariane.access.rules import Rules
from ariane.access.rules_file import read_rules
from ariane.cli.operate.account import delete_account, list_accounts, update_account
from ariane.message import retry_topic
from ariane.settings import ConfigError

app = typer.Typer(
    add_completion=False,
    help="Access control: rules files (plain_acl.yml), and the accounts of brokers.",
    no_args_is_help=True,
)
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)


class Right(StrEnum):
    """What an account may be asked about."""

    PUB = "PUB"
    SUB = "SUB"


@app.callback()
def _group() -> None: ...


app.command("list")(list_accounts)
app.command("update")(update_account)
app.command("delete")(delete_account)


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(help="rules files, those of conf/acl before plain_acl.yml")],
    account: Annotated[str, typer.Option(help="ask about this access key")] = "",
    may: Annotated[Right | None, typer.Option(help="whether it has this right")] = None,
    topic: Annotated[str, typer.Option(help="on this topic")] = "",
    group: Annotated[str, typer.Option(help="on this group (SUB)")] = "",
    address: Annotated[str, typer.Option("--from", help="when it asks from this address")] = "",
) -> None:
    """Check files, and answer whether an account may do something. Exit code: 0 yes, 1 no, 2 a mistake."""
    try:
        rules = Rules.join(read_rules(Path.read_bytes, file) for file in files)
        packed = ip_address(address).packed if address else None
    except ConfigError as error:
        err.print(f"[red]broken[/red]  {escape(str(error))}")
        raise typer.Exit(2) from None
    except ValueError as error:
        err.print(escape(f"--from: {error}"))
        raise typer.Exit(2) from None
    for warning in rules.warnings():
        err.print(f"[yellow]warning[/yellow]  {escape(warning)}")
    if not account:
        admins = sum(one.admin for one in rules.accounts.values())
        out.print(f"good: {len(rules.accounts)} accounts ({admins} administrators), {len(rules.white)} white addresses")
        if not admins:
            err.print("[yellow]warning[/yellow]  no account is an administrator: no client can create topics")
        return
    if may is None or bool(topic) == bool(group):
        err.print("ask for one thing: --account KEY --may PUB --topic NAME, or --may SUB --group NAME")
        raise typer.Exit(2)
    allowed, why = explain(rules, account, PERMISSIONS[may.value], topic or retry_topic(group), packed)
    out.print(f"{'yes' if allowed else 'no'}: {escape(why)}")
    raise typer.Exit(0 if allowed else 1)
