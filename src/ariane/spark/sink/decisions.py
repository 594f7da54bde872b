"""The decisions about batches of an exactly-once write, kept in the query's checkpoint.

A batch is committed at the moment its decision is there, whole. It holds all that is needed to finish the batch after a
crash: which tries of its tasks count, where their half messages lie, and from where on their topics show what brokers
have done.
"""

import json
import os
import re
import socket
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from ariane.env import FileLock, SystemFiles
from ariane.spark.file_systems import is_remote, join, list_folder, read_small, remove, replace_file

FOLDER: Final = "ariane-sink"
_NAME: Final = re.compile(r"(\d+|write-[0-9a-f]+)\.json")
KEEP: Final = 20  # decisions older than this many batches of a stream are forgotten
_LOCKING: Final = threading.Lock()  # a lock of a file keeps other processes out; this is for threads


def name_of_write(write_id: str) -> str:
    """The decision's name for a batch write; a stream's decisions are named by batch number."""
    return f"write-{blake2b(write_id.encode(), digest_size=8).hexdigest()}"


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
    """A committed batch of a stream, or a batch write."""

    name: str
    write: str  # the id of the query, or of the batch write
    group: str
    tries: list[Try]
    ends: dict[str, dict[str, dict[str, int]]]  # of the topics' queues when the decision was made, as in checkpoints
    ordered: bool = False
    settled: bool = False

    @property
    def tokens(self) -> frozenset[str]:
        return frozenset(attempt.token for attempt in self.tries)

    @property
    def topics(self) -> set[str]:
        return {topic for attempt in self.tries for topic in attempt.topics}

    @property
    def brokers(self) -> set[str]:
        return {halves.broker_name for attempt in self.tries for halves in attempt.halves}


class Decisions:
    """The decisions in a checkpoint folder: local, mounted, or of any file system that Arrow opens."""

    def __init__(self, checkpoint: str) -> None:
        self._folder = join(checkpoint.removeprefix("file://").removeprefix("file:"), FOLDER)

    @property
    def can_lock(self) -> bool:
        """Object stores have no locks."""
        return not is_remote(self._folder)

    def lock(self) -> FileLock:
        """Lock the checkpoint against other committers; LockHeld if one has it. Released at the process's death."""
        folder = Path(self._folder)
        files = SystemFiles()
        files.make_folder(folder)
        with _LOCKING:
            return files.lock(folder / "lock", f"process {os.getpid()} on {socket.gethostname()}")

    def load(self, name: str) -> Decision | None:
        """The decision of a name; None while it is open."""
        if f"{name}.json" not in list_folder(self._folder):
            return None
        return _read(read_small(join(self._folder, f"{name}.json")))

    def save(self, decision: Decision) -> None:
        """Record a decision durably. After this the batch is committed."""
        replace_file(join(self._folder, f"{decision.name}.json"), json.dumps(asdict(decision)).encode())
        if decision.name.isdigit():
            self._forget(int(decision.name) - KEEP)

    def all(self) -> Iterable[Decision]:
        """Every decision that is kept, a stream's oldest first."""
        for name in sorted(self._names(), key=lambda name: (not name.isdigit(), name.zfill(20))):
            decision = self.load(name)
            if decision is not None:
                yield decision

    def _names(self) -> list[str]:
        return [name.removesuffix(".json") for name in list_folder(self._folder) if _NAME.fullmatch(name)]

    def _forget(self, before: int) -> None:
        for name in self._names():
            if name.isdigit() and int(name) < before:
                remove(join(self._folder, f"{name}.json"))


def _read(raw: bytes) -> Decision:
    data = {"write": ""} | json.loads(raw)
    tries = [_try(one) for one in data.pop("tries")]
    return Decision(tries=tries, **data)


def _try(one: dict[str, Any]) -> Try:
    return Try(one["token"], [Halves(**halves) for halves in one["halves"]], one["topics"])
