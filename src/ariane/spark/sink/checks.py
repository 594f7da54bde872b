"""Answer transaction checks of brokers from the decisions in the query's checkpoint.

A broker that asks has made a copy of the half message, and the answer is about the copy. What is committed was, or will
be, told of the first one; so a copy is only ever taken back, and nothing is seen twice.
"""

import logging
from typing import Any, Final

from ariane import TransactionProducer
from ariane.client.producer.options import ProducerOptions
from ariane.client.results import SendResult, TransactionState
from ariane.env import LockHeld
from ariane.errors import ArianeError
from ariane.message import Message, ReceivedMessage
from ariane.spark.access import Access
from ariane.spark.cluster import Cluster
from ariane.spark.sink.committing import Committer
from ariane.spark.sink.decisions import Decision, Decisions
from ariane.spark.sink.end_transactions import Settlement
from ariane.spark.sink.options import SinkOptions

log = logging.getLogger("ariane.spark")

TRY: Final = "ARIANE_TRY"  # property of a half message: decision, partition and a word of the try it belongs to


class CheckListener:
    """Decides half messages by the token of their try."""

    def __init__(self, options: SinkOptions) -> None:
        assert options.checkpoint is not None
        self._options = options
        self._decisions = Decisions(options.checkpoint)

    def execute(self, message: Message, result: SendResult, argument: Any) -> TransactionState:
        """Not used: nothing is sent through this producer."""
        return TransactionState.UNKNOWN

    def check(self, message: ReceivedMessage) -> TransactionState:
        """Unknown while the batch is open or being committed; after that a remaining copy is superfluous."""
        token = message.properties.get(TRY, "")
        decision = self._decisions.load(token.partition("/")[0])
        if decision is None:
            return TransactionState.UNKNOWN
        if token not in decision.tokens or decision.settled:
            return TransactionState.ROLLBACK
        return self._finished(decision)

    def _finished(self, decision: Decision) -> TransactionState:
        """Finish for a driver that gave up; without a lock that shows whether one is at work, do nothing."""
        if not self._decisions.can_lock:
            return TransactionState.UNKNOWN
        try:
            finish(decision.name, self._options, self._decisions, wait=False)
        except LockHeld:
            return TransactionState.UNKNOWN
        return TransactionState.ROLLBACK


def finish(name: str, options: SinkOptions, decisions: Decisions, *, wait: bool = True) -> None:
    """Finish a decided batch for a driver. Without `wait`, LockHeld while another process is at it."""
    patience = options.commit_timeout if wait else options.timeout
    with Cluster(options.access) as cluster:
        Committer(Settlement(cluster, options), decisions, cluster, patience).finish(name, wait=wait)


class Answers:
    """A producer for each group that this worker sends for, as long as the worker lives.

    Without answers brokers would ask in vain, and give up late. Writes without an id have groups of their own: only
    those of the latest few are kept.
    """

    def __init__(self, keep: int = 8) -> None:
        self._keep = keep
        self._producers: dict[tuple[Access, str, str | None], TransactionProducer] = {}

    def begin(self, options: SinkOptions, group: str, topic: str) -> None:
        """Register with the brokers of a topic as a producer of the group."""
        key = (options.access, group, options.checkpoint)
        try:
            producer = self._producers.pop(key, None) or _started(options, group)
            self._producers[key] = producer  # newest last
            producer.queues(topic)  # sends a heartbeat to the topic's brokers
        except ArianeError as error:  # the write itself fails the same way
            log.warning("no answers to brokers' checks from here: %s", error)
        while len(self._producers) > self._keep:
            self._producers.pop(next(iter(self._producers))).close()

    def close(self) -> None:
        """Leave."""
        while self._producers:
            self._producers.popitem()[1].close()


def _started(options: SinkOptions, group: str) -> TransactionProducer:
    own = ProducerOptions.of(options.access.client_options(), {"heartbeat_interval": 5.0})
    producer = TransactionProducer(group, CheckListener(options), options=own)
    producer.start()
    return producer


ANSWERS: Final = Answers()
