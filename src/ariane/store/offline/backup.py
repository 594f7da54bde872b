"""Backs up a store, also while a broker writes to it, and restores it.

A backup is what a `kill -9` at its beginning would have left, so opening it is an ordinary recovery. The broker is not
asked: what it acknowledged is in the page cache and seen by every process of the machine. The order keeps the parts
consistent, each part refers only to those copied after it:

1. `config/`: a committed offset copied here belongs to a message that is in the log by now;
2. the checkpoint, then queues and index: they hold what the checkpoint says is durable;
3. the log up to its end as found then. Entries of queues and index beyond that end are cut by the recovery.

Full log and index files do not change any more and are hard linked; the newest files, all queue files and small files
are copied. The end of the log is read again after a pause, until it is the same, so that no half written message is
copied. One thing changes full files: a log that diverges from its master's is cut. The manifest has the time of the
last change of each linked file, and a restore refuses files that changed since.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ariane.env import Env, Files
from ariane.errors import StoreError
from ariane.store.checkpoint import DurableEnd
from ariane.store.index.repair import index_names
from ariane.store.layout import Layout, file_name, log_names
from ariane.store.offline.reading import Progress, StoredLog, no_progress, stored_queues
from ariane.store.units.reading import NOTHING, kind_at

MANIFEST: Final = "backup.json"
PAUSE: Final = 0.1  # seconds; a broker copies a message into the log in microseconds
_ON_ITS_WAY: Final = 8 << 20  # bytes before the end of the log that one read of a socket may have appended
_TRIES: Final = 10  # to read a table and its journal while the table is replaced

Sleep = Callable[[float], None]


class BackupError(StoreError):
    """A backup cannot be made or used; the text says why and what to do."""


@dataclass
class Backup:
    """What a backup holds."""

    log_min: int = 0
    log_end: int = 0
    began_ms: int = 0
    linked: dict[str, int] = field(default_factory=dict)
    """Log and index files that share their blocks with the store, with the time of their last change in ms."""
    copied_bytes: int = 0
    log_files: list[str] = field(default_factory=list)


def back_up(
    env: Env, source: Layout, target: Path, *, sleep: Sleep, link: bool = True, progress: Progress = no_progress
) -> Backup:
    """Copy a store to a new folder. Until it is complete the folder is called `<target>.partial`."""
    files = env.files
    if files.exists(target):
        raise BackupError(f"{target} exists already: name a folder that does not")
    if any(name.startswith("dledger-") for name in files.list(source.root)):
        raise BackupError(
            f"{source.root} is a member of a DLedger group, whose copies are its other members: its term and vote must "
            "not go back in time. Replace a lost member by an empty one, which refills"
        )
    partial = target.with_name(target.name + ".partial")
    files.remove_folder(partial)
    try:
        made = _Copying(env, source, Layout(partial, partial / "commitlog"), link, progress).run(sleep)
    except BaseException:
        files.remove_folder(partial)
        raise
    files.rename(partial, target)
    files.sync_folder(target.parent)
    return made


class _Copying:
    """One backup on its way."""

    def __init__(self, env: Env, source: Layout, target: Layout, link: bool, progress: Progress) -> None:
        self._env = env
        self._files = env.files
        self._source = source
        self._target = target
        self._link = link
        self._progress = progress
        self._made = Backup(began_ms=env.clock.now_ms())

    def run(self, sleep: Sleep) -> Backup:
        files, source, target, made = self._files, self._source, self._target, self._made
        for folder in (target.root, target.commitlog, target.config, target.consumequeue, target.index):
            files.make_folder(folder)
        self._copy_config()
        for path in (source.checkpoint, source.deleted_topics):
            self._copy_small(path, target.root / path.name)
        for topic, number, folder in stored_queues(files, source):
            self._copy_queue(folder, target.queue(topic, number))
        self._copy_index()
        names, end = self._log_end(sleep)
        made.log_min, made.log_end, made.log_files = (int(names[0]) if names else 0), end, names
        self._copy_log(names, end)
        made.log_files = log_names(files, target.commitlog)  # the oldest may have expired meanwhile
        if made.log_files:
            made.log_min = int(made.log_files[0])
        DurableEnd(files, target.durable_end).save(end)
        files.replace(target.abort, b"")
        files.sync_all(target.root)
        files.replace(target.root / MANIFEST, json.dumps(vars(made), indent=1).encode())
        return made

    def _copy_config(self) -> None:
        """Copy the tables. A journal continues one text of its table: take both of the same moment."""
        for name in self._files.list(self._source.config):
            path = self._source.config / name
            if name.endswith((".tmp", ".journal")) or self._files.is_folder(path):
                continue
            self._copy_small(path, self._target.config / name)
            journal = path.with_suffix(".journal")
            for _ in range(_TRIES):
                changes = self._read(journal)
                if changes is not None and path.suffix == ".json":
                    self._files.replace(self._target.config / journal.name, changes)
                if self._read(path) == self._read(self._target.config / name):
                    break
                self._copy_small(path, self._target.config / name)

    def _copy_small(self, path: Path, target: Path) -> None:
        data = self._read(path)
        if data is not None:
            self._files.replace(target, data, secret=path.parent == self._source.config)
            self._made.copied_bytes += len(data)

    def _read(self, path: Path) -> bytes | None:
        try:
            return self._files.read(path) if self._files.exists(path) else None
        except FileNotFoundError:
            return None

    def _copy_queue(self, folder: Path, target: Path) -> None:
        self._files.make_folder(target)
        for name in log_names(self._files, folder):
            self._copy(folder / name, target / name)

    def _copy_index(self) -> None:
        """Link the files that are full; the last entries of the newest but one may still be on their way to it."""
        names = index_names(self._files, self._source.index)
        for number, name in enumerate(names):
            path, target = self._source.index / name, self._target.index / name
            if number >= len(names) - 2 or not self._linked(path, target):
                self._copy(path, target)

    def _copy_log(self, names: list[str], end: int) -> None:
        """Link all files but the newest, of which the part before `end` is copied."""
        for number, name in enumerate(names, 1):
            path, target = self._source.commitlog / name, self._target.commitlog / name
            if number == len(names):
                self._copy(path, target, end - int(name))
            elif not self._linked(path, target):
                self._copy(path, target)
            self._progress(number, len(names))

    def _linked(self, path: Path, target: Path) -> bool:
        """Link a file that does not change any more; False when it must be copied."""
        try:
            self._link = self._link and self._files.link(path, target)
            if not self._link:
                return False
        except FileNotFoundError:
            return True  # expired since it was listed
        self._made.linked[str(target.relative_to(self._target.root))] = self._files.modified_ms(target)
        return True

    def _copy(self, path: Path, target: Path, length: int | None = None) -> None:
        try:
            length = self._files.size(path) if length is None else length
            self._files.copy(path, target, length)
        except FileNotFoundError:
            return  # expired, or its topic was deleted, since it was listed
        self._made.copied_bytes += length

    def _log_end(self, sleep: Sleep) -> tuple[list[str], int]:
        """The log files that hold messages, and where the last whole message ends.

        A message on its way into the log may look whole before all its bytes are there: nothing protects its
        properties. So the end is taken when the bytes after the end found before have not changed in a pause.
        """
        log = StoredLog(self._files, self._source)
        used = list(log.segments)
        while len(used) > 1 and kind_at(used[-1].memory, 0) == NOTHING:
            used.pop()  # made ahead
        if not used:
            return [], 0
        newest = used[-1]
        _, end = log.tail(newest.base)
        end = min(end, newest.base + len(newest.memory))
        start = max(end - newest.base - _ON_ITS_WAY, 0)
        before, seen = b"", bytes(newest.memory[start : end - newest.base])
        while seen != before:
            sleep(PAUSE)
            before, seen = seen, bytes(newest.memory[start : end - newest.base])
        return [file_name(segment.base) for segment in used], end


def restore(files: Files, backup: Path, target: Layout, progress: Progress = no_progress) -> Backup:
    """Copy a backup into an empty store folder; the broker's next start recovers it. The backup stays as it is.

    Files are copied, never linked: a broker writes to the files of its store.
    """
    made = read_manifest(files, backup)
    for folder in (target.root, target.commitlog):
        if files.list(folder):
            raise BackupError(f"{folder} is not empty: name an empty folder, or move its content away")
    changed = [name for name, time in made.linked.items() if files.modified_ms(backup / name) != time]
    if changed:
        raise BackupError(
            f"{', '.join(sorted(changed))} changed after the backup: the store shared them by hard links, and cut its "
            "log when it followed another master. Use another backup; back up such a broker with --copy"
        )
    kept = _files_under(files, backup)
    total = sum(files.size(path) for path in kept)
    done = 0
    for path in kept:
        inside = path.relative_to(backup)
        goal = target.commitlog / path.name if inside.parts[0] == "commitlog" else target.root / inside
        files.make_folder(goal.parent)
        files.copy(path, goal, files.size(path))
        done += files.size(path)
        progress(done, total)
    files.sync_all(target.root)
    files.sync_all(target.commitlog)
    return made


def read_manifest(files: Files, backup: Path) -> Backup:
    """What a backup holds; BackupError when it is none, or not whole."""
    try:
        found: dict[str, Any] = json.loads(files.read(backup / MANIFEST))
        made = Backup(**found)
    except (OSError, ValueError, TypeError) as error:
        raise BackupError(f"{backup} is no backup made by `ariane store backup`: {error}") from None
    missing = [name for name in made.log_files if not files.exists(backup / "commitlog" / name)]
    if missing:
        raise BackupError(f"{backup} is not whole: the log files {', '.join(missing)} are missing")
    return made


def _files_under(files: Files, folder: Path) -> list[Path]:
    """All files of a backup but its manifest."""
    found: list[Path] = []
    for name in files.list(folder):
        path = folder / name
        if files.is_folder(path):
            found += _files_under(files, path)
        elif name != MANIFEST:
            found.append(path)
    return found
