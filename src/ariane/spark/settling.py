"""Half messages made visible, or taken back.

A broker that is told twice to commit a half message shows it twice (Apache's does). So each is told once; and when
nobody knows whether a broker heard it, the topic itself is read from where it ended before: what is there, was heard.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ariane.errors import ArianeError, RemotingError
from ariane.message import UNIQUE_KEY, MessageQueue
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import EndTransactionRequest
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ariane.spark.blocking import BlockingConnection
from ariane.spark.cluster import Cluster
from ariane.spark.decisions import Decision, Halves
from ariane.spark.offsets import Offsets, from_json
from ariane.spark.property_columns import PropertyTable
from ariane.spark.pulling import QueueSlice, SlicePuller
from ariane.spark.scan import hop
from ariane.spark.sink_options import SinkOptions
from ariane.spark.topic_options import TopicOptions
from ariane.spark.unit_table import UnitTable

WINDOW: Final = 128


@dataclass(frozen=True)
class Half:
    """One half message."""

    queue_offset: int
    log_offset: int
    unique_key: str


def halves_of(halves: Halves) -> list[Half]:
    return [Half(*one) for one in zip(halves.queue_offsets, halves.log_offsets, halves.unique_keys, strict=True)]


class Settlement:
    """Tells the brokers of a cluster what became of half messages."""

    def __init__(self, cluster: Cluster, options: SinkOptions) -> None:
        self._cluster = cluster
        self._options = options
        cluster.find_brokers()

    def ends(self, topics: set[str]) -> Offsets:
        """Where the queues of the topics end now."""
        return self._cluster.ends(self._cluster.queues(topics, required=False))

    def commit(self, decision: Decision) -> bool:
        """Tell all; whether every broker answered that it heard."""
        return all(self._end(broker, halves, TRANSACTION_COMMIT, decision) for broker, halves in _by_broker(decision))

    def roll_back(self, tries: Decision) -> None:
        """Take back what will never be committed. A broker that does not hear it asks, and drops it in the end."""
        for broker, halves in _by_broker(tries):
            self._end(broker, halves, TRANSACTION_ROLLBACK, tries)

    def finish(self, decision: Decision) -> bool:
        """After a crash or a lost answer: tell only what brokers have not done yet."""
        visible = self._visible(decision)
        good = True
        for broker, halves in _by_broker(decision):
            hidden = [half for half in halves if half.unique_key.encode() not in visible]
            good = self._end(broker, hidden, TRANSACTION_COMMIT, decision) and good
        return good

    def _visible(self, decision: Decision) -> set[bytes]:
        """The keys of all messages that came to the topics since the decision was made."""
        start = from_json(decision.ends)
        ends = self.ends({topic for attempt in decision.tries for topic in attempt.topics})
        missing = {halves.broker_name for attempt in decision.tries for halves in attempt.halves}
        missing -= {queue.broker_name for queue in ends}
        if missing:
            raise RemotingError(f"brokers {', '.join(sorted(missing))} do not answer")
        keys: set[bytes] = set()
        for queue, end in ends.items():
            keys |= self._keys(queue, start.get(queue, 0), end)
        return keys

    def _keys(self, queue: MessageQueue, start: int, end: int) -> set[bytes]:
        addresses = self._cluster.addresses(queue.broker_name)
        part = QueueSlice(queue, start, end, addresses[:1])
        reading = TopicOptions.reading(self._options.access, self._options.timeout, queue.topic)
        keys: set[bytes] = set()
        for body in SlicePuller(part, reading, lambda: addresses[:1]).bodies():
            view = memoryview(body)
            table = UnitTable(view, hop(view, 0, len(view)).starts)
            keys.update(PropertyTable(table.properties()).column(UNIQUE_KEY).to_pylist())
        return keys

    def _end(self, broker_name: str, halves: list[Half], verdict: int, decision: Decision) -> bool:
        if not halves:
            return True
        try:
            (address, *_) = self._cluster.addresses(broker_name) or ("",)
            connection = BlockingConnection(address, self._options.access, self._options.timeout)
        except (ArianeError, ValueError):
            return False
        try:
            return self._pipeline(connection, halves, verdict, decision)
        except RemotingError:
            return False
        finally:
            connection.close()

    def _pipeline(self, connection: BlockingConnection, halves: list[Half], verdict: int, decision: Decision) -> bool:
        window = 1 if decision.ordered else WINDOW
        waiting, good = 0, True
        for half in halves:
            if waiting == window:
                good = self._heard(connection) and good
                waiting -= 1
            header = EndTransactionRequest(
                decision.group,
                half.queue_offset,
                half.log_offset,
                verdict,
                half.unique_key,
                transaction_id=half.unique_key,
            )
            connection.send(RequestCode.END_TRANSACTION, header, timeout=self._options.timeout)
            waiting += 1
        for _ in range(waiting):
            good = self._heard(connection) and good
        return good

    def _heard(self, connection: BlockingConnection) -> bool:
        return connection.receive(self._options.timeout).command.code in _GOOD


_GOOD = frozenset(
    (
        ResponseCode.SUCCESS,
        ResponseCode.FLUSH_DISK_TIMEOUT,
        ResponseCode.SLAVE_NOT_AVAILABLE,
        ResponseCode.FLUSH_SLAVE_TIMEOUT,
    )
)


def _by_broker(decision: Decision) -> Iterator[tuple[str, list[Half]]]:
    brokers: dict[str, list[Half]] = {}
    for attempt in decision.tries:
        for halves in attempt.halves:
            brokers.setdefault(halves.broker_name, []).extend(halves_of(halves))
    yield from brokers.items()
