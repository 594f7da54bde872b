"""`ariane transaction`: list, commit, rollback."""

import time
from typing import Annotated

import typer

from ariane.cli.operate.moments import show_span
from ariane.cli.operate.output import message_row, print_json, print_table
from ariane.cli.operate.session import Json, Namesrv, Profile, Session, Yes, confirm, new_group
from ariane.client.admin import Admin

app = new_group("Half messages whose transaction is open.")
Id = Annotated[str, typer.Argument(help="the id of the message")]


@app.command("list")
def list_transactions(
    limit: Annotated[int, typer.Option(min=1, help="at most so many of each broker")] = 1000,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """List half messages that wait for their producer to commit or roll back."""

    async def work(admin: Admin) -> None:
        found = await admin.half_messages(limit=limit)
        if as_json:
            rows = [
                message_row(one.message)
                | {"topic": one.topic, "producer_group": one.producer_group, "checks": one.checks}
                for one in found
            ]
            print_json(rows)
            return
        now = int(time.time() * 1000)
        table = [
            (one.message.message_id, one.topic, one.producer_group, one.broker_name, one.checks,
             show_span(max(0, now - one.message.born_time)))
            for one in found
        ]  # fmt: skip
        print_table(["id", "topic", "producer group", "broker", "checks", "open for"], table, "no transaction is open")

    Session(namesrv, profile).run(work)


@app.command("commit")
def commit(message_id: Id, yes: Yes = False, namesrv: Namesrv = None, profile: Profile = None) -> None:
    """Commit a half message by hand: consumers get it."""
    _end(message_id, True, yes, Session(namesrv, profile))


@app.command("rollback")
def rollback(message_id: Id, yes: Yes = False, namesrv: Namesrv = None, profile: Profile = None) -> None:
    """Roll back a half message by hand: no consumer ever gets it."""
    _end(message_id, False, yes, Session(namesrv, profile))


def _end(message_id: str, commit: bool, yes: bool, session: Session) -> None:
    confirm(f"{'Commit' if commit else 'Roll back'} {message_id} instead of its producer?", yes)

    async def work(admin: Admin) -> None:
        half = await admin.end_transaction(message_id, commit=commit)
        print(f"{message_id} of {half.topic} is {'committed' if commit else 'rolled back'}")

    session.run(work)
