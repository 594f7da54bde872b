"""`ariane offset`: reset, skip, clone."""

from typing import Annotated

import typer

from ariane.cli.operate.moments import parse_moment
from ariane.cli.operate.output import print_json, print_table
from ariane.cli.operate.session import DryRun, Json, Namesrv, Profile, Session, Yes, confirm, new_group
from ariane.client.admin import Admin
from ariane.client.admin.offsets import END, OffsetReset

app = new_group("Move the offsets of groups.")
Group = Annotated[str, typer.Argument(help="a consumer group")]
Topic = Annotated[str, typer.Argument(help="in this topic")]
To = Annotated[str, typer.Option("--to", help="earliest, latest, or a time: 30m (ago), 2026-01-31 07:00, milliseconds")]


@app.command("reset")
def reset(
    group: Group,
    topic: Topic,
    to: To,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Move a group to a time; its consumers may be running."""
    move(group, topic, to, dry_run, yes, as_json, Session(namesrv, profile))


@app.command("skip")
def skip(
    group: Group,
    topic: Topic,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Move a group to the end of a topic: the messages that wait are not delivered."""
    move(group, topic, "latest", dry_run, yes, as_json, Session(namesrv, profile))


def move(group: str, topic: str, to: str, dry_run: bool, yes: bool, as_json: bool, session: Session) -> None:
    """Show what a reset does, ask, and do it."""
    timestamp = {"earliest": 0, "latest": END}.get(to)
    if timestamp is None:
        timestamp = parse_moment(to)

    async def work(admin: Admin) -> None:
        plan = await admin.reset_offline(group, topic, timestamp, dry_run=True)
        if dry_run:
            _show(plan, as_json)
            return
        if not as_json and not yes:
            _show(plan, False)
        again = sum(max(0, one.messages) for one in plan)
        skipped = sum(max(0, -one.messages) for one in plan)
        confirm(f"Deliver {again} messages of {topic} to {group} again and skip {skipped}?", yes)
        _show(await admin.reset(group, topic, timestamp), as_json)

    session.run(work)


def _show(resets: list[OffsetReset], as_json: bool) -> None:
    if as_json:
        print_json(resets)
        return
    rows = [
        (one.queue.broker_name, one.queue.queue_id, one.broker_offset, one.before, one.after, -one.messages)
        for one in resets
    ]
    print_table(["broker", "queue", "end", "before", "after", "moved"], rows, "the topic has no queues")


@app.command("clone")
def clone(
    source: Annotated[str, typer.Argument(help="the group whose offsets are taken")],
    target: Annotated[str, typer.Argument(help="the group that gets them; its consumers must not be running")],
    topic: Annotated[str | None, typer.Argument(help="only in this topic")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    as_json: Json = False,
    namesrv: Namesrv = None,
    profile: Profile = None,
) -> None:
    """Give a group the offsets of another one."""
    if not dry_run:
        confirm(f"Replace the offsets of {target} by those of {source}?", yes)

    async def work(admin: Admin) -> None:
        offsets = await admin.clone_offsets(source, target, topic, dry_run=dry_run)
        rows = [(queue.topic, queue.broker_name, queue.queue_id, offset) for queue, offset in offsets.items()]
        if as_json:
            names = ("topic", "broker_name", "queue_id", "offset")
            print_json([dict(zip(names, row, strict=True)) for row in rows])
        else:
            print_table(["topic", "broker", "queue", "offset"], rows, f"{source} has no offsets")

    Session(namesrv, profile).run(work)
