"""The commit of a batch of half messages, which a crash may interrupt at any point and a later driver finishes."""

from dataclasses import replace
from typing import Final

from ariane.errors import RemotingError
from ariane.spark.cluster import Cluster
from ariane.spark.decisions import Decision, Decisions, Try
from ariane.spark.offsets import to_json
from ariane.spark.settling import Settlement

TRIES: Final = 10
PAUSE: Final = 1.0  # a request whose answer was lost is done with by then, one way or the other


class Committer:
    """Decides batches and tells brokers, in that order."""

    def __init__(self, settlement: Settlement, decisions: Decisions, cluster: Cluster) -> None:
        self._settlement = settlement
        self._decisions = decisions
        self._cluster = cluster

    def commit(self, fresh: Decision | None, name: str) -> None:
        """Commit what the tasks sent, unless an earlier driver has committed this batch: then that one counts."""
        before = self._decisions.load(name)
        if before is not None:
            if fresh is not None:
                self._settlement.roll_back(fresh)
            self.finish(before)
        elif fresh is not None:
            self._decide(fresh)

    def _decide(self, fresh: Decision) -> None:
        ends = self._settlement.ends({topic for attempt in fresh.tries for topic in attempt.topics})
        decision = replace(fresh, ends=to_json(ends), touched_ms=self._cluster.now_ms())
        self.decided(decision)
        if self.tell(decision):
            self.settled(decision)
        else:
            self.finish(decision)

    def decided(self, decision: Decision) -> None:
        """The moment of the commit."""
        self._decisions.save(decision)

    def tell(self, decision: Decision) -> bool:
        """Tell the brokers, each half message once."""
        return self._settlement.commit(decision)

    def settled(self, decision: Decision) -> None:
        """All is visible; only which tries counted is kept."""
        tries = [Try(attempt.token, [], []) for attempt in decision.tries]
        self._decisions.save(replace(decision, tries=tries, settled=True))

    def finish(self, decision: Decision) -> None:
        """Tell the brokers what they have not heard, until they have heard all."""
        if decision.settled:
            return
        for _ in range(TRIES):
            self._decisions.save(replace(decision, touched_ms=self._cluster.now_ms()))
            self._cluster.pause(PAUSE)
            if self._finished(decision):
                self.settled(decision)
                return
        raise RemotingError(
            f"batch {decision.name} is committed, but not every broker could be told: start again later"
        )

    def _finished(self, decision: Decision) -> bool:
        try:
            return self._settlement.finish(decision)
        except RemotingError:
            return False
