"""What was decided about each batch of an exactly-once write, kept in the query's checkpoint.

A batch is committed at the moment its decision is there, whole. It holds all that is needed to finish the batch after a
crash: which tries of its tasks count, where their half messages lie, and from where on their topics show what brokers
have done.
"""

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from ariane.spark.log_files import file_system, is_remote, join, list_folder, read_small

FOLDER: Final = "ariane-sink"
KEEP: Final = 20  # decisions older than this many batches are forgotten


@dataclass(frozen=True)
class Halves:
    """Half messages of one task on one broker: their places in the half topic's queue and in the log."""

    broker_name: str
    queue_offsets: list[int]
    log_offsets: list[int]
    unique_keys: list[str]


@dataclass(frozen=True)
class Try:
    """What one try of one task sent. Only tries that Spark counts are ever committed."""

    token: str
    halves: list[Halves]
    topics: list[str]


@dataclass(frozen=True)
class Decision:
    """A committed batch."""

    batch: int
    group: str
    tries: list[Try]
    ends: dict[str, dict[str, dict[str, int]]]  # of the topics' queues when the decision was made, as in checkpoints
    ordered: bool = False
    settled: bool = False
    touched_ms: int = 0  # when the driver that tells the brokers was last at work

    @property
    def tokens(self) -> frozenset[str]:
        return frozenset(attempt.token for attempt in self.tries)


class Decisions:
    """The decisions in a checkpoint folder: local, mounted, or of any file system that Arrow opens."""

    def __init__(self, checkpoint: str) -> None:
        self._folder = join(checkpoint.removeprefix("file://").removeprefix("file:"), FOLDER)

    def load(self, batch: int) -> Decision | None:
        """The decision about a batch; none while it is open."""
        if f"{batch}.json" not in list_folder(self._folder):
            return None
        return _read(read_small(join(self._folder, f"{batch}.json")))

    def save(self, decision: Decision) -> None:
        """Decide. After this returns the batch is committed, whatever happens."""
        write_atomically(join(self._folder, f"{decision.batch}.json"), json.dumps(asdict(decision)).encode())
        self._forget(decision.batch - KEEP)

    def all(self) -> Iterable[Decision]:
        """Every decision that is kept, oldest first."""
        for batch in self._batches():
            decision = self.load(batch)
            if decision is not None:
                yield decision

    def _batches(self) -> list[int]:
        names = (name.removesuffix(".json") for name in list_folder(self._folder))
        return sorted(int(name) for name in names if name.isdigit())

    def _forget(self, before: int) -> None:
        for batch in self._batches():
            if batch < before:
                remove(join(self._folder, f"{batch}.json"))


def _read(raw: bytes) -> Decision:
    data = json.loads(raw)
    tries = [_try(one) for one in data.pop("tries")]
    return Decision(tries=tries, **data)


def _try(one: dict[str, Any]) -> Try:
    return Try(one["token"], [Halves(**halves) for halves in one["halves"]], one["topics"])


def write_atomically(path: str, data: bytes) -> None:
    """A crash leaves the old file or the new one. Object stores give that by themselves."""
    if is_remote(path):
        system, inner = file_system(path)
        system.create_dir(inner.rpartition("/")[0], recursive=True)
        with system.open_output_stream(inner) as stream:
            stream.write(data)
        return
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = target.with_name(f".{target.name}.tmp")
    with open(draft, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.replace(draft, target)
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove(path: str) -> None:
    """Remove one file."""
    if is_remote(path):
        system, inner = file_system(path)
        system.delete_file(inner)
    else:
        Path(path).unlink(missing_ok=True)
