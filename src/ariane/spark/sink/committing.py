"""Commit a batch of half messages. A later driver finishes what a crash interrupts at any point."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from ariane.env import FileLock, LockHeld
from ariane.errors import ArianeError, BrokerRefused, NameServersUnreachable, RemotingError, StoreError
from ariane.spark.cluster import Cluster
from ariane.spark.offsets import Offsets, to_json
from ariane.spark.sink.decisions import FOLDER, Decision, Decisions, Try
from ariane.spark.sink.end_transactions import Settlement

log = logging.getLogger("ariane.spark")

PAUSE: Final = 1.0  # seconds between tries
_AWAY: Final = (RemotingError, BrokerRefused, NameServersUnreachable)  # a server that may come back


class Committer:
    """Records the decision about a batch, then commits at the brokers, under a lock of the checkpoint.

    Others who might are a driver that is thought dead, a worker whom a broker asked, and `ariane pipeline settle`.
    """

    def __init__(self, settlement: Settlement, decisions: Decisions, cluster: Cluster, patience: float = 600) -> None:
        self._settlement = settlement
        self._decisions = decisions
        self._cluster = cluster
        self._patience = patience

    def commit(self, fresh: Decision | None, name: str) -> None:
        """Commit what the tasks sent, unless an earlier driver has committed this batch: then that one counts.

        A decision of another query does not count: its batch of this number had other rows.
        """
        with self._alone():
            before = self._decisions.load(name)
            if before is not None:
                if fresh is not None:
                    self._check_same_write(fresh, before)
                    self._settlement.roll_back(fresh)
                self._finish(before)
            elif fresh is not None:
                self._decide(fresh)

    def take_back(self, tried: Decision) -> None:
        """Roll back a failed write, unless its decision was recorded: then a later run finishes it."""
        with self._alone():
            decision = self._decisions.load(tried.name)
            if decision is None or tried.tokens.isdisjoint(decision.tokens):
                self._settlement.roll_back(tried)

    def finish(self, name: str, *, wait: bool = True) -> None:
        """Finish a batch that another driver decided. Without `wait`, LockHeld while another process is at it."""
        with self._alone(wait=wait):
            decision = self._decisions.load(name)
            if decision is not None:
                self._finish(decision)

    @contextmanager
    def _alone(self, *, wait: bool = True) -> Iterator[None]:
        lock = self._lock(wait) if self._decisions.can_lock else None
        try:
            yield
        finally:
            if lock is not None:
                lock.release()

    def _lock(self, wait: bool) -> FileLock:
        while True:
            try:
                return self._decisions.lock()
            except LockHeld as held:
                if not wait:
                    raise
                log.warning("waiting until no other commits to this checkpoint: %s", held)
            self._cluster.pause(PAUSE)

    def _check_same_write(self, fresh: Decision, before: Decision) -> None:
        if before.write != fresh.write:
            raise StoreError(
                f"batch {fresh.name} of this checkpoint was committed by another query ({before.write or 'unknown'}, "
                f"this one is {fresh.write}): its offsets, commits or metadata were deleted, but not the decisions of "
                f"the sink. Nothing of this batch is visible. Start with a new checkpointLocation, or delete the whole "
                f"old one, {FOLDER} included"
            )

    def _decide(self, fresh: Decision) -> None:
        decision = replace(fresh, ends=to_json(self._first_ends(fresh)))
        self.decided(decision)
        if self.tell(decision):
            self.settled(decision)
        else:
            self._finish(decision)

    def decided(self, decision: Decision) -> None:
        """Record the decision: from here on the batch is committed."""
        self._decisions.save(decision)

    def tell(self, decision: Decision) -> bool:
        """Commit each half message once."""
        return self._settlement.commit(decision)

    def settled(self, decision: Decision) -> None:
        """Record that all messages are visible; keep only the tokens of the committed tries."""
        tries = [Try(attempt.token, [], []) for attempt in decision.tries]
        self._decisions.save(replace(decision, tries=tries, settled=True))

    def _finish(self, decision: Decision) -> None:
        """Commit what is not visible, until everything is."""
        if decision.settled:
            return
        told: set[str] = set()
        failure: ArianeError | None = None
        for _ in self._tries():
            try:
                if self._settlement.finish(decision, told):
                    self.settled(decision)
                    return
            except _AWAY as error:
                failure = error
        raise RemotingError(
            f"batch {decision.name} is committed, but not every broker could be told within {self._patience:g} s "
            f"(commitTimeoutMs): start again later"
        ) from failure

    def _first_ends(self, fresh: Decision) -> Offsets:
        """The end offsets of the topics before the decision; wait for a broker that restarts."""
        for _ in self._tries():
            try:
                return self._settlement.ends(fresh)
            except _AWAY as error:
                failure: ArianeError = error
        raise failure

    def _tries(self) -> Iterator[None]:
        """One at once, then one each second until the time for a commit is used up."""
        deadline = self._cluster.monotonic() + self._patience
        yield
        while self._cluster.monotonic() < deadline:
            self._cluster.pause(PAUSE)
            yield
