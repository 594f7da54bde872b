"""The audit log: one JSON object a line for every login and change, with who, what, before and after."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ariane.env import Clock

LARGEST: Final = 16 << 20  # bytes; then the file is renamed to `.1`, and that one is dropped
TAIL: Final = 1 << 20  # bytes that the page reads


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
        """Append an entry; it is on the disk when this returns."""
        entry = Entry(self._clock.now_ms(), user, address, what, cluster, subject, outcome, before, after)
        line = json.dumps(asdict(entry), ensure_ascii=True, default=str) + "\n"
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists() and self._path.stat().st_size > LARGEST:
            self._path.replace(self._path.with_suffix(".jsonl.1"))
        handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(handle, line.encode())
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
