"""Records deleted topics, so that recovery does not dispatch their messages again."""

import json
import logging
from pathlib import Path

from ariane.env import Files

log = logging.getLogger("ariane.store")


class DeletedTopics:
    """Maps each deleted topic to the log offset of its deletion: older messages of it are in no queue.

    A deleted topic may be created again, and its queues start over at 0. After a crash the log alone does not
    distinguish that from a message with a damaged queue offset.
    """

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._ends: dict[str, int] = {}

    def load(self) -> None:
        """Read the file; when it is missing or damaged, no topic was deleted."""
        self._ends = {}
        try:
            found = json.loads(self._files.read(self._path)) if self._files.exists(self._path) else {}
            self._ends = {str(topic): int(end) for topic, end in found.items()}
        except (ValueError, TypeError, AttributeError):
            log.warning("%s cannot be read: topics that were deleted may come back after a crash", self._path)

    def end_of(self, topic: str) -> int:
        """The offset at which a topic was last deleted; 0 when it was not."""
        return self._ends.get(topic, 0)

    def __bool__(self) -> bool:
        return bool(self._ends)

    def add(self, topics: set[str], end: int, log_min: int) -> None:
        """Record the deletion of topics at `end`; drop records of topics that have no message left in the log."""
        self._ends = {topic: at for topic, at in self._ends.items() if at > log_min}
        self._ends.update(dict.fromkeys(topics, end))
        self._save()

    def lower(self, end: int) -> None:
        """The log was truncated at `end`: messages appended there later are not deleted ones."""
        if any(at > end for at in self._ends.values()):
            self._ends = {topic: min(at, end) for topic, at in self._ends.items()}
            self._save()

    def _save(self) -> None:
        try:
            self._files.replace(self._path, json.dumps(self._ends).encode())
        except OSError as error:
            log.warning("%s cannot be written: %s; deleted topics may come back after a crash", self._path, error)
