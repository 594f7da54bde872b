"""Commit and roll back half messages.

A broker that receives two commits of a half message delivers it twice (Apache's does). So each commit is sent once;
if its answer is lost, the topic is read from its former end on, which shows whether the commit arrived.
"""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from ariane.errors import NameServersUnreachable, RemotingError, StoreError
from ariane.message import UNIQUE_KEY, MessageQueue
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import EndTransactionRequest
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK
from ariane.spark.arrow.property_columns import PropertyTable
from ariane.spark.arrow.scan import hop
from ariane.spark.arrow.unit_table import UnitTable
from ariane.spark.backlog import await_done
from ariane.spark.broker_connection import BrokerConnection
from ariane.spark.cluster import Cluster
from ariane.spark.offsets import Offsets, from_json
from ariane.spark.sink.decisions import Decision, Halves
from ariane.spark.sink.options import SinkOptions
from ariane.spark.topic.options import TopicOptions
from ariane.spark.topic.pull_range import QueueSlice, SlicePuller

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
    """Ends the transactions of half messages."""

    def __init__(self, cluster: Cluster, options: SinkOptions) -> None:
        self._cluster = cluster
        self._options = options

    def ends(self, decision: Decision) -> Offsets:
        """The end offsets of the topics on brokers with half messages; a new topic may have no route yet."""
        self._cluster.find_brokers()
        queues = self._cluster.queues(decision.topics, required=False)
        return self._cluster.master_ends(queue for queue in queues if queue.broker_name in decision.brokers)

    def commit(self, decision: Decision) -> bool:
        """Commit each half message once. True if every broker acknowledged."""
        return all(
            len(self._end(broker, halves, TRANSACTION_COMMIT, decision)) == len(halves)
            for broker, halves in _by_broker(decision)
        )

    def roll_back(self, tries: Decision) -> None:
        """Roll back. A broker that is not reached checks later, and drops the half messages in the end."""
        with suppress(RemotingError, NameServersUnreachable):
            self._cluster.find_brokers()
        for broker, halves in _by_broker(tries):
            self._end(broker, halves, TRANSACTION_ROLLBACK, tries)

    def finish(self, decision: Decision, told: set[str]) -> bool:
        """After a crash or a lost answer: commit what is not visible yet. True when nothing was left.

        `told` has the keys of what brokers said they did, over all calls: that must be there when one looks again.
        """
        self._cluster.find_brokers()
        await_done(self._cluster, decision.brokers, self._options.timeout)
        visible = self._visible(decision)
        is_done = True
        for broker, halves in _by_broker(decision):
            hidden = [half for half in halves if half.unique_key.encode() not in visible]
            if lost := sum(half.unique_key in told for half in hidden):
                raise StoreError(f"{lost} messages of batch {decision.name} are gone, though {broker} committed them")
            told |= self._end(broker, hidden, TRANSACTION_COMMIT, decision)
            is_done = is_done and not hidden
        return is_done

    def _visible(self, decision: Decision) -> set[bytes]:
        """The keys of all messages stored in the topics since the decision."""
        start = from_json(decision.ends)
        ends = self.ends(decision)
        missing = decision.brokers - {queue.broker_name for queue in ends}
        if missing:
            raise RemotingError(f"brokers {', '.join(sorted(missing))} do not answer")
        keys: set[bytes] = set()
        for queue, end in ends.items():
            keys |= self._keys(queue, start.get(queue, 0), end)
        return keys

    def _keys(self, queue: MessageQueue, start: int, end: int) -> set[bytes]:
        master = (self._cluster.master(queue.broker_name),)  # a slave may be behind
        part = QueueSlice(queue, start, end, master)
        reading = TopicOptions.reading(self._options.access, self._options.timeout, queue.topic)
        keys: set[bytes] = set()
        for body in SlicePuller(part, reading, lambda: master).bodies():
            view = memoryview(body)
            table = UnitTable(view, hop(view, 0, len(view)).starts)
            keys.update(PropertyTable(table.properties()).column(UNIQUE_KEY).to_pylist())
        return keys

    def _end(self, broker_name: str, halves: list[Half], verdict: int, decision: Decision) -> set[str]:
        """End half messages on one broker; return the keys that it acknowledged."""
        heard: set[str] = set()
        if halves:
            with suppress(RemotingError), self._connection(broker_name) as connection:
                self._pipeline(connection, halves, verdict, decision, heard)
        return heard

    @contextmanager
    def _connection(self, broker_name: str) -> Iterator[BrokerConnection]:
        address = self._cluster.master(broker_name)
        connection = BrokerConnection(address, self._options.access, self._options.timeout)
        try:
            yield connection
        finally:
            connection.close()

    def _pipeline(
        self, connection: BrokerConnection, halves: list[Half], verdict: int, decision: Decision, heard: set[str]
    ) -> None:
        window = 1 if decision.ordered else WINDOW
        waiting = 0
        for half in halves:
            if waiting == window:
                if not self._hear(connection, heard) and decision.ordered:
                    return  # nothing may overtake it
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
            self._hear(connection, heard)

    def _hear(self, connection: BrokerConnection, heard: set[str]) -> bool:
        response = connection.receive(self._options.timeout)
        is_done = response.command.code == ResponseCode.SUCCESS
        if is_done:
            heard.add(response.request.fields["msgId"])
        return is_done


def _by_broker(decision: Decision) -> Iterator[tuple[str, list[Half]]]:
    brokers: dict[str, list[Half]] = {}
    for attempt in decision.tries:
        for halves in attempt.halves:
            brokers.setdefault(halves.broker_name, []).extend(halves_of(halves))
    yield from brokers.items()
