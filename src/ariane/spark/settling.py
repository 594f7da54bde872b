"""Half messages made visible, or taken back.

A broker that is told twice to commit a half message shows it twice. So each is told once; and when nobody knows whether
a broker heard it, the broker's own op queue is read, where it notes each half message that is done with.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from ariane.errors import ArianeError, RemotingError
from ariane.message import HALF_OP_TOPIC, MessageQueue
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import EndTransactionRequest
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, decode_units
from ariane.spark.blocking import BlockingConnection
from ariane.spark.cluster import Cluster
from ariane.spark.decisions import Decision, Halves
from ariane.spark.pulling import QueueSlice, SlicePuller
from ariane.spark.sink_options import SinkOptions
from ariane.spark.topic_options import TopicOptions

WINDOW: Final = 128
_DONE: Final = re.compile(rb"\d+")  # an op message names one half offset; 5.x brokers put several into one


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

    def op_offsets(self, broker_names: set[str]) -> dict[str, int]:
        """Where each broker's op queue ends now."""
        queues = [MessageQueue(HALF_OP_TOPIC, name, 0) for name in sorted(broker_names)]
        return {queue.broker_name: offset for queue, offset in self._cluster.ends(queues).items()}

    def commit(self, decision: Decision) -> bool:
        """Tell all; whether every broker answered that it heard."""
        return all(self._end(broker, halves, TRANSACTION_COMMIT, decision) for broker, halves in _by_broker(decision))

    def roll_back(self, tries: Decision) -> None:
        """Take back what will never be committed. A broker that does not hear it asks, and drops it in the end."""
        for broker, halves in _by_broker(tries):
            self._end(broker, halves, TRANSACTION_ROLLBACK, tries)

    def finish(self, decision: Decision) -> bool:
        """After a crash or a lost answer: tell only what brokers have not done yet."""
        good = True
        for broker, halves in _by_broker(decision):
            done = self._done(broker, decision.op_offsets.get(broker, 0))
            open_halves = [half for half in halves if half.queue_offset not in done]
            good = self._end(broker, open_halves, TRANSACTION_COMMIT, decision) and good
        return good

    def _done(self, broker_name: str, start: int) -> set[int]:
        """The half offsets that a broker has done with since its op queue was so long."""
        queue = MessageQueue(HALF_OP_TOPIC, broker_name, 0)
        addresses = self._cluster.addresses(broker_name)
        end = self._cluster.ends([queue]).get(queue)
        if end is None:
            raise RemotingError(f"broker {broker_name} does not answer")
        part = QueueSlice(queue, start, end, addresses[:1])
        pulled = SlicePuller(part, _reading(self._options), lambda: addresses[:1])
        return {
            int(number)
            for body in pulled.bodies()
            for unit in decode_units(bytes(body))
            for number in _DONE.findall(unit.body)
        }

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


def _reading(options: SinkOptions) -> TopicOptions:
    """How the op queue is read."""
    return TopicOptions.reading(options.access, options.timeout)
