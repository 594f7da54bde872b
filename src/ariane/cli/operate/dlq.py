"""`ariane dlq`: list, show, resend, export."""

import csv
import json
import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from ariane.cli.operate.moments import parse_moment, show_moment
from ariane.cli.operate.output import message_row, print_json, print_table
from ariane.cli.operate.session import DryRun, Json, Namesrv, Profile, Session, Yes, confirm, new_group
from ariane.client.admin import Admin
from ariane.client.admin.dead_letters import DeadLetter, Resent
from ariane.client.admin.requests import FOREVER

app = new_group("Dead letters: messages that a group failed on too often.")
Group = Annotated[str, typer.Argument(help="the group that failed on them")]
Since = Annotated[str, typer.Option("--since", help="dead since: 30m (ago), 2026-01-31 07:00")]
Until = Annotated[str | None, typer.Option("--until", help="dead until")]
Key = Annotated[str | None, typer.Option("-k", "--key", help="with this key or message id")]
ErrorText = Annotated[
    str | None, typer.Option("--error", help="with this text in a property named *error* or *exception*")
]
SHOWN = 60
EACH = 100  # letters between two reports of progress


class Format(StrEnum):
    """The form of an export."""

    JSONL = "jsonl"
    CSV = "csv"


@app.command("list")
def list_groups(as_json: Json = False, namesrv: Namesrv = None, profile: Profile = None) -> None:
    """List the groups that have dead letters."""

    async def work(admin: Admin) -> None:
        found = await admin.dead_letter_groups()
        if as_json:
            print_json(found)
        else:
            rows = [(one.group, one.count, show_moment(one.last_time)) for one in found]
            print_table(["group", "letters", "last one"], rows, "no group has dead letters")

    Session(namesrv, profile).run(work)


def letter_row(letter: DeadLetter) -> dict[str, Any]:
    """A letter for programs: the message, and where it came from."""
    own = {"letter_id": letter.letter_id, "group": letter.group, "original_topic": letter.topic}
    return own | {"origin_id": letter.origin_id} | message_row(letter.message)


@app.command("show")
def show(
    group: Group,
    since: Since = "0",
    until: Until = None,
    key: Key = None,
    error: ErrorText = None,
    limit: Annotated[int, typer.Option(min=1, help="at most so many")] = 100,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Show dead letters of a group."""
    begin, end = parse_moment(since), FOREVER if until is None else parse_moment(until)

    async def work(admin: Admin) -> None:
        letters = await admin.dead_letters(group, begin=begin, end=end, key=key, error=error, limit=limit)
        if as_json:
            print_json([letter_row(one) for one in letters])
            return
        rows = [
            (one.letter_id, one.message.message_id, one.topic, show_moment(one.message.store_time), one.attempts,
             " ".join(one.message.keys), one.message.body.decode(errors="replace")[:SHOWN])
            for one in letters
        ]  # fmt: skip
        head = ["letter", "message", "topic", "dead since", "attempts", "keys", "body"]
        print_table(head, rows, f"{group} has no such dead letters")

    Session(namesrv, profile).run(work)


@app.command("resend")
def resend(
    group: Group,
    letters: Annotated[list[str] | None, typer.Argument(help="ids of letters or messages; all without them")] = None,
    since: Since = "0",
    until: Until = None,
    key: Key = None,
    error: ErrorText = None,
    limit: Annotated[int | None, typer.Option(min=1, help="at most so many")] = None,
    rate: Annotated[float | None, typer.Option(min=0.01, help="so many in a second")] = None,
    log: Annotated[Path | None, typer.Option("--log", help="notes of the run; GROUP.resend.jsonl by default")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Send dead letters to their original topics again, each once.

    The notes in --log let an interrupted run go on where it stopped: a letter that they name as sent is passed over.
    The letters themselves stay in the dead-letter topic.
    """
    begin, end = parse_moment(since), FOREVER if until is None else parse_moment(until)
    notes = log or Path(f"{group.replace('/', '_').replace('%', '_')}.resend.jsonl")
    wanted = f"{len(letters)} dead letters" if letters else "all such dead letters"
    if not dry_run:
        confirm(f"Send {wanted} of {group} to their topics again, for all groups there?", yes)
    count = failed = 0

    def report(_: Resent) -> None:
        nonlocal count
        count += 1
        if sys.stderr.isatty() or count % EACH == 0:
            print(f"\r{count} letters", end="" if sys.stderr.isatty() else "\n", file=sys.stderr, flush=True)

    async def work(admin: Admin) -> None:
        nonlocal failed
        sent = await admin.resend_dead_letters(
            group, letters=letters or None, begin=begin, end=end, key=key, error=error, limit=limit, rate=rate,
            log=notes, dry_run=dry_run, progress=report,
        )  # fmt: skip
        if sys.stderr.isatty() and count:
            print(file=sys.stderr)
        for one in sent:
            if one.error is not None:
                failed += 1
                print(f"{one.letter.letter_id} was not sent: {one.error}", file=sys.stderr)
        if as_json:
            names = ("topic", "message_id", "skipped", "error")
            print_json(
                [{"letter_id": one.letter.letter_id} | {name: getattr(one, name) for name in names} for one in sent]
            )
            return
        if dry_run:
            rows_of = [(one.letter.letter_id, one.letter.message.message_id, one.topic) for one in sent]
            print_table(["letter", "message", "would go to"], rows_of, f"{group} has no such dead letters")
            return
        skipped = sum(one.skipped for one in sent)
        print(f"{len(sent) - skipped - failed} letters were sent again, {skipped} had been before (noted in {notes})")

    Session(namesrv, profile).run(work)
    if failed:
        sys.exit(1)


COLUMNS = [
    "letter_id", "group", "original_topic", "origin_id", "message_id", "store_time", "born_time", "born_host",
    "reconsume_times", "tags", "keys", "properties", "body", "body_base64",
]  # fmt: skip


@app.command("export")
def export(
    group: Group,
    file: Annotated[str, typer.Argument(help="a file; - is the standard output")] = "-",
    form: Annotated[Format | None, typer.Option("--format", help="by default what the file's name ends in")] = None,
    since: Since = "0",
    until: Until = None,
    key: Key = None,
    error: ErrorText = None,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Write dead letters to a file, as JSON lines or CSV."""
    begin, end = parse_moment(since), FOREVER if until is None else parse_moment(until)
    chosen = form or (Format.CSV if file.endswith(".csv") else Format.JSONL)
    target = sys.stdout if file == "-" else Path(file).open("w", encoding="utf-8", newline="")  # noqa: SIM115

    async def work(admin: Admin) -> None:
        table = csv.DictWriter(target, COLUMNS, extrasaction="ignore")
        if chosen is Format.CSV:
            table.writeheader()
        count = 0
        async for letter in admin.each_dead_letter(group, begin=begin, end=end, key=key, error=error):
            row = letter_row(letter)
            if chosen is Format.CSV:
                own = {"keys": " ".join(row["keys"]), "properties": json.dumps(row["properties"], ensure_ascii=False)}
                table.writerow(row | own)
            else:
                target.write(json.dumps(row, ensure_ascii=False) + "\n")
            count += 1
        target.flush()
        print(f"{count} letters", file=sys.stderr)

    try:
        Session(namesrv, profile).run(work)
    finally:
        if target is not sys.stdout:
            target.close()
