"""How far a broker is with what it was told.

Apache's broker puts decisions into a line before it acts on them, and messages into their queues a little after it has
stored them. Whoever wants to know what it did must wait for both.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ariane.errors import RemotingError
from ariane.spark.cluster import Cluster

GRACE: Final = 1.0  # for requests that are out of the line, or still on the wire of a connection that is lost
PAUSE: Final = 0.05


class Backlog:
    """Of what was stored when a broker was first asked: whether all of it is in its queues."""

    def __init__(self, figures: Mapping[str, str]) -> None:
        self._end = self._stored = _stored(figures)

    def is_done(self, figures: Mapping[str, str]) -> bool:
        """Look at newer figures. `_stored` is older than what they say of the rest, so this never says too much."""
        reached = self._stored - int(figures.get("dispatchBehindBytes", 0))
        self._stored = _stored(figures)
        return reached >= self._end


def _stored(figures: Mapping[str, str]) -> int:
    return int(figures.get("commitLogMaxOffset", 0))


def await_done(cluster: Cluster, brokers: Iterable[str], timeout: float) -> None:
    """Wait until brokers have done what they were told before, and show it; RemotingError when one does not."""
    names = sorted(brokers)
    patience = _Patience(cluster, timeout)
    for name in names:
        while int(cluster.figures(name).get("EndTransactionQueueSize", 0)):
            patience.spend(name)
    cluster.pause(GRACE)
    backlogs = {name: Backlog(cluster.figures(name)) for name in names}
    for name, backlog in backlogs.items():
        while not backlog.is_done(cluster.figures(name)):
            patience.spend(name)


class _Patience:
    def __init__(self, cluster: Cluster, timeout: float) -> None:
        self._cluster = cluster
        self._end = cluster.monotonic() + timeout

    def spend(self, broker_name: str) -> None:
        """Wait a little, if there is time left."""
        if self._cluster.monotonic() > self._end:
            raise RemotingError(f"broker {broker_name} is behind with what it was told")
        self._cluster.pause(PAUSE)
