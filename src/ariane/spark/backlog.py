"""Wait until a broker has processed what it received.

Apache's broker puts decisions into a line before it acts on them, and messages into their queues a little after it has
stored them. Whoever wants to know what it did must wait for both.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from ariane.errors import RemotingError
from ariane.spark.cluster import Cluster

GRACE: Final = 1.0  # for requests taken from the queue, or still in a broken connection
PAUSE: Final = 0.05


class Backlog:
    """Tells whether everything stored at the first sample is dispatched to its queues."""

    def __init__(self, figures: Mapping[str, str]) -> None:
        self._end = self._stored = _stored(figures)

    def is_done(self, figures: Mapping[str, str]) -> bool:
        """Check newer figures. `_stored` is older than their backlog, so this errs on the safe side."""
        reached = self._stored - int(figures.get("dispatchBehindBytes", 0))
        self._stored = _stored(figures)
        return reached >= self._end


def _stored(figures: Mapping[str, str]) -> int:
    return int(figures.get("commitLogMaxOffset", 0))


def await_done(cluster: Cluster, brokers: Iterable[str], timeout: float) -> None:
    """Wait until brokers have processed and dispatched all they received; RemotingError when one does not."""
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
        """Pause, if time is left."""
        if self._cluster.monotonic() > self._end:
            raise RemotingError(f"broker {broker_name} is behind with what it was told")
        self._cluster.pause(PAUSE)
