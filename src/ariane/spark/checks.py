"""Answers to brokers that ask what became of half messages, from the decisions in the query's checkpoint.

A broker that asks has made a copy of the half message, and the answer is about the copy. What is committed was, or will
be, told of the first one; so a copy is only ever taken back, and nothing is seen twice.
"""

import logging
from typing import Any, Final

from ariane.client.options import ProducerOptions
from ariane.client.results import SendResult, TransactionState
from ariane.client.sync import TransactionProducer
from ariane.env import Clock, SystemClock
from ariane.errors import ArianeError
from ariane.message import Message, ReceivedMessage
from ariane.spark.access import Access
from ariane.spark.cluster import Cluster
from ariane.spark.committing import Committer
from ariane.spark.decisions import Decision, Decisions
from ariane.spark.settling import Settlement
from ariane.spark.sink_options import SinkOptions

log = logging.getLogger("ariane.spark")

TRY: Final = "ARIANE_TRY"  # property of a half message: decision, partition and a word of the try it belongs to
LEASE_MS: Final = 60_000  # a driver that has not touched its open decision for so long is dead


class CheckListener:
    """Knows the fate of half messages by their tries."""

    def __init__(self, options: SinkOptions, clock: Clock | None = None) -> None:
        assert options.checkpoint is not None
        self._options = options
        self._decisions = Decisions(options.checkpoint)
        self._clock = clock or SystemClock()

    def execute(self, message: Message, result: SendResult, argument: Any) -> TransactionState:
        """Nothing is sent through this producer."""
        return TransactionState.UNKNOWN

    def check(self, message: ReceivedMessage) -> TransactionState:
        """Unknown while the batch is open or being told; then any copy that is still asked for is not needed."""
        token = message.properties.get(TRY, "")
        decision = self._decisions.load(token.partition("/")[0])
        if decision is None:
            return TransactionState.UNKNOWN
        if token not in decision.tokens or decision.settled:
            return TransactionState.ROLLBACK
        return self._finished(decision)

    def _finished(self, decision: Decision) -> TransactionState:
        if self._clock.now_ms() - decision.touched_ms < LEASE_MS:
            return TransactionState.UNKNOWN
        finish(decision, self._options, self._decisions)
        return TransactionState.ROLLBACK


def finish(decision: Decision, options: SinkOptions, decisions: Decisions) -> None:
    """Tell brokers what a dead driver could not tell them any more."""
    with Cluster(options.access) as cluster:
        Committer(Settlement(cluster, options), decisions, cluster).finish(decision)


_answering: dict[tuple[Access, str, str | None], TransactionProducer] = {}


def answer_checks(options: SinkOptions, group: str) -> None:
    """Answer from now on, as long as this worker lives. Without answers brokers would ask in vain, and give up late."""
    key = (options.access, group, options.checkpoint)
    if key in _answering:
        return
    own = ProducerOptions.of(options.access.client_options(), {"heartbeat_interval": 5.0})
    producer = TransactionProducer(group, CheckListener(options), options=own)
    try:
        producer.start()
        if options.topic is not None:
            producer.queues(options.topic)
    except ArianeError as error:  # the write itself will meet the same trouble, and say so
        log.warning("no answers to brokers' checks from here: %s", error)
        return
    _answering[key] = producer
