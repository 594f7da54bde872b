"""The way of one received message, as steps that a driver takes for threads or for asyncio.

    log written first -> token -> stub -> work -> stub confirmed and log deleted, in one transaction

The four outcomes of the check, by whether the token was won and the stub is confirmed:

    won,  unconfirmed    work
    won,  confirmed      done before, the cache forgot: delete the log, success
    lost, confirmed      done before: delete the log, success
    lost, unconfirmed    another consumer works on it: retry later (Idempotence.DOCUMENTS: success)

The stub's lease decides; a cache only spares the database the question. So a cache may be flushed, killed or absent.
A crash between any two steps leaves the message to its next delivery, or to the resender.
"""

import logging
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

from sqlalchemy import Connection

from ariane import ConsumeStatus, Delivery
from ariane.guarantee import log as message_log
from ariane.guarantee import stub
from ariane.guarantee.options import GuaranteeOptions, Idempotence
from ariane.guarantee.outbox import ID_PROPERTY, new_id
from ariane.guarantee.tables import StubStatus
from ariane.message import ReceivedMessage

log = logging.getLogger("ariane.guarantee")

DELAYS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1200, 1800, 3600, 7200)
"""Seconds of RocketMQ's delay levels, from 1."""
DEAD_LETTER = -1


class Outcome(Enum):
    """What came of a delivery."""

    DONE = "done"
    DUPLICATE = "done before"
    VOID = "void"
    BUSY = "another consumer works on it"
    FAILED = "failed"
    DEAD = "failed too often"
    LOST_LEASE = "the lease was lost during the work"
    NO_STUB = "no stub"
    PLAIN = "done without a guarantee"


@dataclass(frozen=True, slots=True)
class Settlement:
    """A delivery's outcome, and the handler's error when it failed."""

    outcome: Outcome
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Begin:
    """Begin a transaction; `joined`: the handler's own session."""

    joined: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """Run statements in the transaction."""

    work: Callable[[Connection], Any]


@dataclass(frozen=True, slots=True)
class Commit:
    """Commit the transaction."""


@dataclass(frozen=True, slots=True)
class Rollback:
    """Roll back the transaction, if one is open."""


@dataclass(frozen=True, slots=True)
class Acquire:
    """Take the token in the cache: True won, False lost, None when there is no cache or it does not answer."""

    key: str
    owner: str
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Release:
    """Delete the token, if it is still the owner's."""

    key: str
    owner: str


@dataclass(frozen=True, slots=True)
class Work:
    """Call the handler."""


Step = Begin | Query | Commit | Rollback | Acquire | Release | Work
Steps = Generator[Step, Any, Settlement]


def consume(
    message: ReceivedMessage, group: str, options: GuaranteeOptions, now: Callable[[], int], *, joined: bool
) -> Steps:
    """Settle one delivery. `joined`: the handler takes part in the transaction that confirms."""
    message_id = message.properties.get(ID_PROPERTY)
    if message_id is None:
        return _consume_plain(joined)
    return _consume(message, message_id, group, options, now, joined)


def _consume_plain(joined: bool) -> Steps:
    try:
        if joined:
            yield Begin(joined=True)
        yield Work()
        if joined:
            yield Commit()
    except Exception as error:
        yield Rollback()
        return Settlement(Outcome.FAILED, error)
    return Settlement(Outcome.PLAIN)


def _consume(
    message: ReceivedMessage,
    message_id: str,
    group: str,
    options: GuaranteeOptions,
    now: Callable[[], int],
    joined: bool,
) -> Steps:
    leased = options.idempotence is Idempotence.LEASE
    owner = new_id(now())  # new for every delivery: it is the fence
    key = token_key(group, message_id)
    queue = message.queue

    yield Begin()
    yield Query(
        lambda c: message_log.write(
            c, message_id, group, queue.broker_name, queue.queue_id, message.queue_offset, now()
        )
    )
    won: bool | None = yield Acquire(key, owner, options.lease if leased else None)
    mine = False
    if won is None or (won and leased):
        until = now() + int(options.lease * 1000) if leased else stub.FOREVER
        mine = yield Query(lambda c: stub.claim(c, message_id, group, owner, now(), until))
    if not mine:
        found: stub.State | None = yield Query(lambda c: stub.state(c, message_id, group))
        mine = won is True and not leased and found is not None and found.status is StubStatus.UNCONFIRMED
    if not mine:
        if found is None or found.status is not StubStatus.UNCONFIRMED:
            yield Query(lambda c: message_log.remove(c, message_id, group))
        yield Commit()
        if found is None or found.status is StubStatus.UNCONFIRMED:
            if won:
                yield Release(key, owner)
            return Settlement(Outcome.NO_STUB if found is None else Outcome.BUSY)
        return Settlement(Outcome.DUPLICATE if found.status is StubStatus.CONFIRMED else Outcome.VOID)
    yield Commit()

    fence = owner if leased else None
    try:
        if joined:
            yield Begin(joined=True)
        yield Work()
        if not joined:
            yield Begin()
        # The log before the stub, as on receiving: two deliveries of a message never wait for each other in a circle.
        yield Query(lambda c: message_log.remove(c, message_id, group))
        if (yield Query(lambda c: stub.confirm(c, message_id, group, fence, now()))):
            yield Commit()
            return Settlement(Outcome.DONE)
        yield Rollback()
        return Settlement(Outcome.LOST_LEASE)
    except Exception as error:
        yield Rollback()
        yield Release(key, owner)
        dead = isinstance(error, Rejected) or message.reconsume_times >= options.max_reconsume_times
        reason = f"{type(error).__name__}: {error}"
        yield Begin()
        yield Query(lambda c: stub.give_back(c, message_id, group, owner, reason))
        if dead:
            why = f"dead letter: failed {message.reconsume_times + 1} times, last with {reason}"
            yield Query(lambda c: stub.mark(c, message_id, group, why, now()))
        yield Commit()
        return Settlement(Outcome.DEAD if dead else Outcome.FAILED, error)


def token_key(group: str, message_id: str) -> str:
    """The cache's key of a message's token."""
    return f"ariane:guarantee:{group}:{message_id}"


class Rejected(Exception):
    """Raise it in a handler to make the message a dead letter at once, and leave it to a person."""


class LaterError(Exception):
    """The handler returned RECONSUME_LATER."""


def check_answer(answer: object) -> None:
    """A handler succeeds by returning; RECONSUME_LATER is the one answer that means failure."""
    if answer is ConsumeStatus.RECONSUME_LATER or answer is ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT:
        raise LaterError("the handler asked for a retry")


def acknowledges(outcome: Outcome, options: GuaranteeOptions) -> bool:
    """Whether the broker may forget the delivery."""
    if outcome is Outcome.BUSY:
        return options.idempotence is Idempotence.DOCUMENTS
    return outcome in (Outcome.DONE, Outcome.DUPLICATE, Outcome.VOID, Outcome.PLAIN)


def answer(settlements: Sequence[Settlement], delivery: Delivery, options: GuaranteeOptions) -> ConsumeStatus:
    """Tell the client. A batch with a failure is delivered again whole: what was done is a duplicate then.

    `ack_index` would spare that, but orderly consumers do not know it, and would take the whole batch for consumed.
    """
    failed = [settled.outcome for settled in settlements if not acknowledges(settled.outcome, options)]
    if not failed:
        return ConsumeStatus.CONSUME_SUCCESS
    if len(settlements) == failed.count(Outcome.DEAD):
        delivery.delay_level = DEAD_LETTER
    elif Outcome.BUSY in failed:
        delivery.delay_level = busy_level(options)
    return ConsumeStatus.RECONSUME_LATER


def busy_level(options: GuaranteeOptions) -> int:
    """The delay level after which a lease has run out."""
    return next((level for level, delay in enumerate(DELAYS, 1) if delay >= options.lease), len(DELAYS))


def report(message: ReceivedMessage, settled: Settlement) -> None:
    """Log what an operator wants to know."""
    message_id = message.properties.get(ID_PROPERTY, message.message_id)
    if settled.error is not None:
        log.warning(
            "message %s of %s: %s at try %d",
            message_id,
            message.topic,
            settled.outcome.value,
            message.reconsume_times + 1,
            exc_info=settled.error,
        )
    elif settled.outcome is Outcome.LOST_LEASE:
        log.warning(
            "message %s of %s: the handler outlived its lease and was rolled back; raise lease=, or make it quicker",
            message_id,
            message.topic,
        )
    elif settled.outcome is Outcome.NO_STUB:
        log.warning(
            "message %s of %s has no stub for this group: check consumers= where it is staged, and that both sides "
            "use one database; it will be delivered again, and then becomes a dead letter",
            message_id,
            message.topic,
        )
