"""`ariane guarantee`: the tables of the business guarantee, its resender, and what a person does with stubs."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import Enum
from getpass import getuser
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table
from sqlalchemy.engine import make_url
from sqlalchemy.exc import SQLAlchemyError

from ariane.cli.connection import DEFAULT_NAMESRV, check_name_servers
from ariane.cli.screen import console
from ariane.cli.serve import run as run_loop
from ariane.cli.serve import until_stopped
from ariane.errors import ArianeError, GuaranteeError
from ariane.guarantee import Guarantee, Inspection, Mail, Stub, StubStatus

app = typer.Typer(help="Keep messages from being lost or done twice.", no_args_is_help=True, add_completion=False)

NameServers = Annotated[
    str,
    typer.Option(
        "-n",
        "--namesrv",
        envvar="NAMESRV_ADDR",
        callback=check_name_servers,
        help="name servers: host:port;host:port",
    ),
]
Database = Annotated[
    str, typer.Option("-d", "--database", envvar="ARIANE_GUARANTEE_DATABASE", help="an SQLAlchemy URL")
]
MessageId = Annotated[str, typer.Argument(help="the message id, as in `ariane guarantee list`")]
Group = Annotated[str | None, typer.Option(help="only for this consumer group")]
Who = Annotated[str, typer.Option(default_factory=getuser, help="who decides", show_default="your login name")]
Reason = Annotated[str, typer.Option(help="why")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON, one object a line")]


class Status(Enum):
    """A stub's status, as the command line spells it."""

    unconfirmed = "unconfirmed"
    confirmed = "confirmed"
    void = "void"


@app.command()
def migrate(database: Database) -> None:
    """Create the tables, or bring them up to date."""
    with _opened(database, create=True) as guarantee:
        guarantee.migrate()
    console.print("the tables message_stub, message_log and message_decision are up to date")


@app.command("list")
def list_stubs(
    database: Database,
    attention: Annotated[bool, typer.Option("--attention", help="those that wait for a person")] = False,
    status: Annotated[Status | None, typer.Option(help="those of one status")] = None,
    topic: Annotated[str | None, typer.Option(help="those of one topic")] = None,
    limit: Annotated[int, typer.Option(min=1, help="at most so many")] = 100,
    as_json: AsJson = False,
) -> None:
    """List stubs, oldest first."""
    with _opened(database) as guarantee:
        wanted = None if status is None else StubStatus[status.name.upper()]
        stubs = guarantee.stubs(status=wanted, attention=attention, topic=topic, limit=limit)
    if as_json:
        for stub in stubs:
            print(json.dumps(_plain(stub)))
        return
    message = Column("message", no_wrap=True, min_width=32)  # whole, so that it can be copied
    table = Table(message, "group", "topic", "status", "sent", "created", "needs a person because", box=None)
    for stub in stubs:
        table.add_row(
            escape(stub.message_id),
            escape(stub.consumer_group),
            escape(stub.topic),
            stub.status.name.lower(),
            str(stub.count),
            _moment(stub.created),
            escape(stub.attention or ""),
        )
    console.print(table)


@app.command()
def show(message_id: MessageId, database: Database, group: Group = None, as_json: AsJson = False) -> None:
    """Show all that is known of one message."""
    with _opened(database) as guarantee:
        found = guarantee.inspect(message_id, group=group)
    if not found:
        raise GuaranteeError(f"there is no stub of message {message_id}: ariane guarantee list")
    for inspection in found:
        if as_json:
            print(json.dumps(_plain_inspection(inspection)))
        else:
            _print_inspection(inspection)


@app.command()
def resend(message_id: MessageId, database: Database, reason: Reason, who: Who, group: Group = None) -> None:
    """Have an unconfirmed message sent again by the next resend pass."""
    with _opened(database) as guarantee:
        groups = guarantee.resend(message_id, who=who, reason=reason, group=group)
    console.print(f"{message_id} will be sent again for {', '.join(groups)}")


@app.command()
def void(message_id: MessageId, database: Database, reason: Reason, who: Who, group: Group = None) -> None:
    """Settle an unconfirmed message without doing it."""
    with _opened(database) as guarantee:
        groups = guarantee.void(message_id, who=who, reason=reason, group=group)
    console.print(f"{message_id} is void for {', '.join(groups)}")


@app.command()
def sweep(
    database: Database, days: Annotated[float, typer.Option(min=0.0, help="keep settled stubs so long")] = 7.0
) -> None:
    """Delete old settled stubs and logs in small batches."""
    with _opened(database, retain=max(days, 1e-9) * 86400) as guarantee:
        swept = guarantee.sweep()
    console.print(f"deleted {swept.stubs} stubs and {swept.logs} logs")


@app.command()
def run(
    database: Database,
    namesrv: NameServers = DEFAULT_NAMESRV,
    max_sends: Annotated[int, typer.Option(min=1, help="sends before a person must decide")] = 8,
    resend_after: Annotated[float, typer.Option(min=0.001, help="seconds until the first resend; then doubled")] = 60.0,
    poll: Annotated[float, typer.Option(min=0.001, help="seconds between looks for due stubs")] = 5.0,
    smtp: Annotated[str | None, typer.Option(help="mail server for notices, host:port")] = None,
    mail_from: Annotated[str, typer.Option(help="sender of notices")] = "ariane@localhost",
    mail_to: Annotated[list[str] | None, typer.Option(help="receiver of notices; repeat it for more")] = None,
) -> None:
    """Run a resender until stopped; start as many as you like, on any machine."""
    notify: list[Any] = []
    if (smtp is None) != (not mail_to):
        raise GuaranteeError("notices by mail need both --smtp and --mail-to")
    if smtp is not None:
        host, _, port = smtp.partition(":")
        notify = [Mail(host=host, port=int(port or 25), sender=mail_from, to=mail_to or [])]
    options: dict[str, Any] = {
        "max_sends": max_sends,
        "resend_after": resend_after,
        "poll_interval": poll,
        "notify": notify,
    }
    with _opened(database, name_servers=namesrv, **options) as guarantee:
        run_loop(_resend(guarantee))


async def _resend(guarantee: Guarantee) -> None:
    await asyncio.to_thread(guarantee.start)
    console.print("resending; stop with Ctrl-C")
    await until_stopped()


def sqlite_file(database: str) -> Path | None:
    """The file of an SQLite database; None for other databases, and for one in memory."""
    url = make_url(database)
    named = url.database if url.get_backend_name() == "sqlite" else None
    return Path(named) if named and named != ":memory:" and not named.startswith("file:") else None


@contextmanager
def _opened(database: str, *, create: bool = False, **options: Any) -> Iterator[Guarantee]:
    try:
        file = sqlite_file(database)
        if file is not None and not create and not file.exists():  # SQLite would create an empty one
            raise GuaranteeError(f"there is no database {file}: `ariane guarantee migrate` creates it")
        guarantee = Guarantee(database, **options)
        try:
            yield guarantee
        finally:
            guarantee.close()
    except SQLAlchemyError as error:
        text = str(getattr(error, "orig", None) or error).splitlines()[0]
        hint = "; create the tables with `ariane guarantee migrate`" if "message_" in text else ""
        raise GuaranteeError(f"the database says: {text}{hint}") from error
    except ModuleNotFoundError as error:
        raise ArianeError(f"the database's driver {error.name} is not installed: pip install {error.name}") from error


def _plain(stub: Stub) -> dict[str, Any]:
    values = {name: getattr(stub, name) for name in type(stub).__slots__}
    return values | {"status": stub.status.name.lower(), "content": stub.content.decode(errors="replace")}


def _plain_inspection(inspection: Inspection) -> dict[str, Any]:
    received = inspection.received
    return {
        "stub": _plain(inspection.stub),
        "received": None if received is None else {name: getattr(received, name) for name in type(received).__slots__},
        "decisions": [{name: getattr(one, name) for name in type(one).__slots__} for one in inspection.decisions],
    }


def _print_inspection(inspection: Inspection) -> None:
    stub, received = inspection.stub, inspection.received
    facts = {
        "message": stub.message_id,
        "topic": stub.topic,
        "consumer group": stub.consumer_group,
        "status": stub.status.name.lower(),
        "tag": stub.tag,
        "keys": stub.keys,
        "sent": f"{stub.count} times",
        "last queue": None if stub.queue_id is None else f"{stub.broker_name} {stub.queue_id} at {stub.queue_offset}",
        "created": _moment(stub.created),
        "settled": _moment(stub.settled),
        "next resend": _moment(stub.resend_time),
        "leased until": _moment(stub.lease_until),
        "received": None if received is None else _moment(received.received),
        "needs a person": stub.attention,
        "notified": _moment(stub.notified),
        "last error": stub.last_error,
        "content": stub.content[:1000].decode(errors="replace"),
    }
    table = Table(box=None, show_header=False)
    for name, value in facts.items():
        if value:
            table.add_row(name, escape(value))
    for one in inspection.decisions:
        table.add_row("decision", escape(f"{_moment(one.decided)} {one.action} by {one.who}: {one.reason}"))
    console.print(table)


def _moment(millis: int | None) -> str:
    if millis is None:
        return ""
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (OverflowError, ValueError):  # a lease without end
        return "for ever"
