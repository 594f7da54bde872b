"""The audit log: one JSON object a line for every login and change, with who, what, before and after."""

import errno
import json
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ariane.env import Clock
from ariane.errors import ArianeError

LARGEST: Final = 16 << 20  # bytes; then the file is renamed to `.1`, and that one is dropped
TAIL: Final = 1 << 20  # bytes that the page reads
ROOM: Final = 1 << 20  # bytes that must be free before a change is made


class AuditFailed(ArianeError):
    """The audit log cannot be written."""


@dataclass(frozen=True)
class Entry:
    """A login or a change."""

    time: int
    user: str
    address: str
    what: str
    cluster: str
    subject: str
    outcome: str
    """`done`, `refused` (the role may not), or the error."""
    before: Any = None
    after: Any = None


class AuditLog:
    """Appends entries, and reads the newest."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock

    def write(
        self,
        user: str,
        address: str,
        what: str,
        outcome: str,
        *,
        cluster: str = "",
        subject: str = "",
        before: Any = None,
        after: Any = None,
    ) -> None:
        """Append an entry; it is on the disk when this returns. AuditFailed when it cannot be written."""
        entry = Entry(self._clock.now_ms(), user, address, what, cluster, subject, outcome, before, after)
        line = json.dumps(asdict(entry), ensure_ascii=True, default=str) + "\n"
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            if self._path.exists() and self._path.stat().st_size > LARGEST:
                self._path.replace(self._path.with_suffix(".jsonl.1"))
            self._append(line.encode())
        except OSError as error:
            raise AuditFailed(f"the audit log cannot be written: {error}") from error

    def check(self) -> None:
        """Raise AuditFailed when the next entry could not be written: a change that cannot be noted is not made."""
        try:
            self._append(b"")
            free = shutil.disk_usage(self._path.parent).free
        except OSError as error:
            raise AuditFailed(f"nothing was changed, as the audit log cannot be written: {error}") from error
        if free < ROOM:
            raise AuditFailed(f"nothing was changed, as the audit log has no room: {free} bytes are free")

    def _append(self, content: bytes) -> None:
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            end = os.fstat(handle).st_size
            if content and end and os.pread(handle, 1, end - 1) != b"\n":  # a line that was torn: leave it alone
                content = b"\n" + content
            if os.write(handle, content) < len(content):
                os.ftruncate(handle, end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if content:
                os.fsync(handle)
        finally:
            os.close(handle)

    def newest(self, count: int = 500) -> list[Entry]:
        """The newest entries, newest first."""
        try:
            with self._path.open("rb") as file:
                file.seek(max(0, self._path.stat().st_size - TAIL))
                lines = file.read().split(b"\n")
        except FileNotFoundError:
            return []
        entries: list[Entry] = []
        for line in reversed(lines):
            try:
                entries.append(Entry(**json.loads(line)))
            except (ValueError, TypeError):
                continue  # the piece at which the read began
            if len(entries) >= count:
                break
        return entries
