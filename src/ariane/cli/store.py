"""`ariane store`: look into a store, check it, take messages out of it, rebuild, back up and restore it."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from ariane.cli.operate.output import print_table
from ariane.env import Env, LockHeld
from ariane.store.layout import Layout, log_names
from ariane.store.offline import (
    Damage,
    Inspection,
    StoredLog,
    Wanted,
    back_up,
    dump,
    inspect,
    read_manifest,
    rebuild,
    restore,
    verify,
)
from ariane.store.offline import Progress as Told

app = typer.Typer(
    add_completion=False,
    help="Look into a store that no broker uses: what is in it, is it whole, what do messages say; back up any store.",
)
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True, highlight=False)

Root = Annotated[Path, typer.Argument(help="the store folder, storePathRootDir", exists=True, file_okay=False)]
Log = Annotated[Path | None, typer.Option("--commitlog", help="its log, if storePathCommitLog is another folder")]
Slots = Annotated[int, typer.Option(help="maxHashSlotNum, for index files that do not tell")]
Entries = Annotated[int, typer.Option(help="maxIndexNum, for index files that do not tell")]


def _layout(root: Path, commitlog: Path | None) -> Layout:
    layout = Layout(root, commitlog or root / "commitlog")
    for ledger in sorted(root.glob("dledger-*/data")):
        if log_names(Env().files, ledger):
            err.print(
                f"{root} is the store of a DLedger member: its messages are in {ledger}, which these commands do not "
                "read. The other members of its group have copies; ariane dledger status shows them"
            )
            raise typer.Exit(2)
    if not layout.commitlog.is_dir():
        err.print(f"{root} is no store: there is no folder {layout.commitlog}")
        raise typer.Exit(2)
    return layout


@contextmanager
def _alone(env: Env, layout: Layout, *, required: bool) -> Iterator[None]:
    """Lock the store against brokers. Reading beside one works, but the end of the log may look torn."""
    try:
        lock = env.files.lock(layout.lock, "lock held by ariane store")
    except LockHeld as held:
        holder = held.holder.removeprefix("lock").strip() or "held by a broker"
        err.print(f"The store is in use: {holder}.")
        if required:
            raise typer.Exit(2) from None
        err.print("It is read nevertheless; messages that arrive meanwhile may look incomplete.")
        yield
        return
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _bar(what: str) -> Iterator[Told]:
    """A progress bar on the error output, so that results can be piped."""
    columns = TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn()
    with Progress(*columns, TimeRemainingColumn(), console=err, transient=True) as progress:
        task = progress.add_task(what, total=None)

        def told(done: int, total: int) -> None:
            progress.update(task, completed=done, total=total)

        yield told


def _time(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000).isoformat(" ", "milliseconds") if ms else "-"


@app.command("inspect")
def inspect_store(
    root: Root, commitlog: Log = None, as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False
) -> None:
    """Files, ranges, topics, counts and times."""
    env = Env()
    layout = _layout(root, commitlog)
    with _alone(env, layout, required=False):
        found = inspect(env.files, layout)
    if as_json:
        sys.stdout.write(json.dumps(found, default=_plain, indent=1) + "\n")
    else:
        _show(found)


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else vars(value) if hasattr(value, "__dict__") else repr(value)


def _show(found: Inspection) -> None:
    stop = "cleanly" if found.clean else "not cleanly, or in use: the next start recovers it"
    out.print(
        f"[bold]{escape(str(found.root))}[/]: {found.messages:,} messages in {len(found.queues)} queues; stopped {stop}"
    )
    times = found.checkpoint
    out.print(
        f"checkpoint: log {_time(times.log_time)}, queues {_time(times.queue_time)}, index {_time(times.index_time)}"
    )
    waiting = f"; its last {found.waiting:,} messages are in no queue yet" if found.waiting else ""
    out.print(f"log: {found.log_min:,} to {found.log_end:,}{waiting}")
    for file in found.log:
        out.print(f"  {file.name}  {file.size:>13,} bytes, begins {_time(file.first_time)}")
    _show_queues(found)
    for index in found.index:
        span = f"{_time(index.begin_time)} to {_time(index.end_time)}"
        out.print(
            f"index {index.name}: {index.entries:,} keys, {span}, log {index.begin_offset:,} to {index.end_offset:,}"
        )
    out.print(f"config: {', '.join(found.config) or 'none'}")


def _show_queues(found: Inspection) -> None:
    """Print the queues: names are never cut, however narrow the terminal is."""
    rows = [
        (one.topic, one.queue_id, one.first, one.end, one.count, one.files, _time(one.first_time), _time(one.last_time))
        for one in found.queues
    ]
    head = ["topic", "queue", "first", "end", "messages", "files", "first stored", "last stored"]
    print_table(head, rows, "no queues")


@app.command("verify")
def verify_store(root: Root, commitlog: Log = None, slots: Slots = 5_000_000, entries: Entries = 20_000_000) -> None:
    """Check every message, every queue entry against its message, every chain of the index. Exits with 1 when wrong."""
    env = Env()
    layout = _layout(root, commitlog)
    with _alone(env, layout, required=False), _bar("verify") as told:
        found = verify(env.files, layout, slots, entries, told)
    for problem in found.problems:
        out.print(problem, markup=False)
    if found.problem_count > len(found.problems):
        out.print(f"... and {found.problem_count - len(found.problems):,} more")
    out.print(
        f"{found.messages:,} messages up to {found.log_end:,}, {found.entries:,} queue entries, "
        f"{found.index_entries:,} index entries: {'all is well' if found.ok else f'{found.problem_count:,} problems'}"
    )
    for text in found.waiting:
        out.print(text, markup=False)
    if found.waiting:
        out.print(
            "That is no damage: the store runs or was not stopped, and its next start completes queues and index."
        )
    raise typer.Exit(0 if found.ok else 1)


@app.command("dump")
def dump_store(
    root: Root,
    commitlog: Log = None,
    topic: Annotated[str | None, typer.Option(help="only this topic")] = None,
    queue: Annotated[int | None, typer.Option(help="only this queue")] = None,
    key: Annotated[str | None, typer.Option(help="only messages with this key or unique key")] = None,
    begin: Annotated[datetime | None, typer.Option(help="stored then or later")] = None,
    end: Annotated[datetime | None, typer.Option(help="stored then or before")] = None,
    limit: Annotated[int | None, typer.Option(help="so many at most")] = None,
) -> None:
    """Messages as JSON lines, in the order of the log."""
    env = Env()
    wanted = Wanted(topic, queue, key, _ms(begin, 0), _ms(end, 1 << 62))
    with _bar("dump") as told:
        for number, message in enumerate(dump(env.files, _layout(root, commitlog), wanted, told)):
            if limit is not None and number >= limit:
                break
            sys.stdout.write(json.dumps(message, ensure_ascii=False) + "\n")


def _ms(moment: datetime | None, otherwise: int) -> int:
    return otherwise if moment is None else int(moment.timestamp() * 1000)


@app.command("rebuild")
def rebuild_store(
    root: Root,
    commitlog: Log = None,
    slots: Slots = 5_000_000,
    entries: Entries = 20_000_000,
    queue_entries: Annotated[int, typer.Option(help="entries of a queue file, if there is none to tell")] = 300_000,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask")] = False,
) -> None:
    """Rebuild queues and index from the log, which is not changed. Deleted topics come back."""
    env = Env()
    layout = _layout(root, commitlog)
    with _alone(env, layout, required=True):
        if not yes:
            typer.confirm(
                f"Replace {layout.consumequeue} and {layout.index} by what the log says?", abort=True, err=True
            )
        with _bar("rebuild") as told:
            made = rebuild(env, layout, file_entries=queue_entries, slots=slots, index_entries=entries, progress=told)
    out.print(f"{made.messages:,} messages in {made.queues} queues and {made.index_files} index files")
    for damage in made.damage or []:
        out.print(f"left out: the log from {damage.start:,} to {damage.end:,} holds no whole message")


@app.command("backup")
def backup_store(
    root: Root,
    target: Annotated[Path, typer.Argument(help="a folder that does not exist yet")],
    commitlog: Log = None,
    copy: Annotated[
        bool, typer.Option("--copy", help="share nothing by hard links: for a slave, or a disk that will be removed")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="for programs")] = False,
) -> None:
    """Copy a store, also while its broker runs: all that was acknowledged before this begins is in the copy.

    Full log files are hard linked where the target is on the same file system, so they take no room until the store
    deletes them. Run it as the user of the broker, on its machine.
    """
    with _bar("backup") as told:
        made = back_up(
            Env(), _layout(root, commitlog), target.absolute(), sleep=time.sleep, link=not copy, progress=told
        )
    if as_json:
        sys.stdout.write(json.dumps({"folder": str(target.absolute()), **vars(made)}) + "\n")
        return
    out.print(
        f"{target}: the log from {made.log_min:,} to {made.log_end:,} in {len(made.log_files)} files; "
        f"{len(made.linked)} files linked, {made.copied_bytes:,} bytes copied",
        markup=False,
    )


@app.command("restore")
def restore_store(
    source: Annotated[Path, typer.Argument(help="the folder of a backup", exists=True, file_okay=False)],
    root: Annotated[Path, typer.Argument(help="the store folder, storePathRootDir; new or empty")],
    commitlog: Log = None,
    check: Annotated[bool, typer.Option(help="check every message of the backup first")] = True,
) -> None:
    """Copy a backup into an empty store folder; the next start of the broker recovers it.

    Its log files expire `fileReservedTime` after the restore.
    """
    env = Env()
    read_manifest(env.files, source)
    if check:
        _check_log(env, source)
    with _bar("restore") as told:
        made = restore(env.files, source, Layout(root, commitlog or root / "commitlog"), told)
    taken = _time(made.began_ms)
    out.print(f"{root}: the store as of {taken}, log up to {made.log_end:,}; start the broker on it", markup=False)


def _check_log(env: Env, source: Path) -> None:
    """Read every message; a damaged log is told before anything is written."""
    with _bar("check") as told:
        log = StoredLog(env.files, Layout(source, source / "commitlog"))
        damaged = [found for found in log.walk(told) if isinstance(found, Damage)]
    for damage in damaged:
        err.print(f"The log is damaged from {damage.start:,} to {damage.end:,}.")
    if damaged:
        err.print("Restore another backup, or this one with --no-check: its damaged messages are lost.")
        raise typer.Exit(1)
