"""Half messages: invisible to consumers until their producer commits them or rolls them back.

A half message is stored in RMQ_SYS_TRANS_HALF_TOPIC with its real topic and queue in its properties. A decision is an
op message in RMQ_SYS_TRANS_OP_HALF_TOPIC, tag `d`, whose body is the queue offset of the half message. A commit also
stores the message under its real topic.
"""

import logging
from collections.abc import Callable
from typing import Final, Protocol

from ariane.broker.unit_copy import copy_of, packed, properties_of, topic_of
from ariane.errors import ResponseError
from ariane.message import (
    HALF_OP_TOPIC,
    HALF_TOPIC,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_PREPARED,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQUE_KEY,
    WAIT,
    is_valid_name,
)
from ariane.protocol.codes import ResponseCode
from ariane.protocol.headers import EndTransactionRequest
from ariane.protocol.ids import offset_id
from ariane.protocol.properties import find_property
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_MASK, Unit
from ariane.store.results import PutResult

log = logging.getLogger("ariane.broker.transactions")

CHECK_GROUP: Final = "CID_RMQ_SYS_TRANS"  # its committed offsets are the fronts of the half and the op queue
REMOVE_TAG: Final = "d"
HALF_QUEUE: Final = 0  # Apache's half topic has one queue
NOT_FOUND: Final = "Find prepared transaction message failed"
RECENT: Final = 50_000  # decisions that are remembered, to detect duplicates
_PREPARED = TRANSACTION_PREPARED.encode()


class HalfLog(Protocol):
    """The part of the store that transactions use."""

    def min_offset(self, topic: str, queue_id: int) -> int: ...

    def max_offset(self, topic: str, queue_id: int) -> int: ...

    def queue_entries(self, topic: str, queue_id: int, offset: int, count: int) -> list[tuple[int, int, int]]: ...

    def unit_at(self, physical_offset: int) -> Unit | None: ...


def is_prepared(unit: Unit) -> bool:
    """Whether a producer sent this as a half message."""
    value = find_property(unit.properties, _PREPARED)
    return value is not None and value.lower() == b"true"


def make_half(unit: Unit) -> None:
    """Turn a message of a transaction into its half message."""
    properties = properties_of(unit)
    properties.pop(TRANSACTION_PREPARED_QUEUE_OFFSET, None)  # consumed from a transaction and sent in another one
    properties[REAL_TOPIC] = topic_of(unit)
    properties[REAL_QUEUE_ID] = str(unit.queue_id)
    unit.properties = packed(properties)
    unit.sys_flag &= ~TRANSACTION_MASK
    unit.topic = HALF_TOPIC.encode()
    unit.queue_id = HALF_QUEUE


def committed_message(half: Unit) -> Unit:
    """The message to store for a committed half message; its properties stay, as in Apache's broker."""
    properties = properties_of(half)
    topic, queue = properties.get(REAL_TOPIC, ""), properties.get(REAL_QUEUE_ID, "")
    if not is_valid_name(topic) or not queue.isdecimal():
        raise ResponseError(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
    return copy_of(
        half,
        topic,
        int(queue),
        properties,
        sys_flag=half.sys_flag & ~TRANSACTION_MASK | TRANSACTION_COMMIT,
        prepared_offset=half.physical_offset,
    )


def op_message(half_offset: int, queue_id: int, host: bytes, now_ms: int) -> Unit:
    """The op message for the half message at a queue offset."""
    return Unit(
        HALF_OP_TOPIC.encode(),
        str(half_offset).encode(),
        packed({WAIT: "true", TAGS: REMOVE_TAG}),
        queue_id=queue_id,
        born_time=now_ms,
        born_host=host,
        store_host=host,
    )


def check_decision(half: Unit | None, header: EndTransactionRequest) -> Unit:
    """Return the half message of a decision; ResponseError unless every field of the request matches it.

    The message id is compared too: after a torn log was cut, another half message may have the same offset.
    """
    if half is None or half.topic != HALF_TOPIC.encode():
        raise ResponseError(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
    properties = properties_of(half)
    if properties.get(PRODUCER_GROUP) != header.producer_group:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, "The producer group wrong")
    if half.queue_offset != header.tran_state_table_offset:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, "The transaction state table offset wrong")
    if half.physical_offset != header.commit_log_offset:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, "The commit log offset wrong")
    known = {properties.get(UNIQUE_KEY), offset_id(half.store_host, half.physical_offset)}
    said = {header.msg_id, header.transaction_id} - {None, ""}
    if said and known.isdisjoint(said) and UNIQUE_KEY in properties:
        raise ResponseError(ResponseCode.SYSTEM_ERROR, "The message id wrong")
    return half


def note_first(half: Unit, properties: dict[str, str]) -> None:
    """Note in the properties of a copy of `half` where the first half message of the transaction is."""
    properties.setdefault(TRANSACTION_PREPARED_QUEUE_OFFSET, str(half.queue_offset))


def identity(half: Unit) -> str:
    """The identity that a half message shares with its copies: the queue offset of the first one.

    The unique key is not one: its producer chooses it, and keeps it when it sends the same message object twice.
    """
    return properties_of(half).get(TRANSACTION_PREPARED_QUEUE_OFFSET) or str(half.queue_offset)


class HalfQueue:
    """The state of the half queue: the first undecided offset, the decisions after it, and the copies.

    It is built from the op queue at start. A check stores a half message again at the end of the queue, so one
    transaction may have several copies: a decision on any of them is a decision on all.
    """

    def __init__(self) -> None:
        self.half = 0  # every half message before this is done: decided, copied, or given up
        self.op = 0  # every op message before this is about a half message that is done
        self._ops: dict[int, int] = {}  # half offset to op offset, not before `half`
        self._done_ops: set[int] = set()
        self._decided: dict[str, None] = {}  # the newest decisions, by identity
        self._copies: dict[str, set[int]] = {}  # undecided copies that checks made, by identity

    def clear(self) -> None:
        """Drop all state, to be rebuilt: another broker may have taken decisions since."""
        self.half = self.op = 0
        self._ops.clear()
        self._done_ops.clear()
        self._decided.clear()
        self._copies.clear()

    def is_decided(self, key: str) -> bool:
        """Whether a transaction is among the remembered decisions."""
        return key in self._decided

    def copies(self, key: str) -> set[int]:
        """Queue offsets of known undecided copies of a half message."""
        return self._copies.get(key, set())

    def copied(self, key: str, half_offset: int) -> None:
        """Note a copy of a half message."""
        self._copies.setdefault(key, set()).add(half_offset)

    def decided(self, key: str, half_offset: int, op_offset: int) -> None:
        """Note the op message of a half message."""
        self._remember(key)
        if op_offset < self.op:
            return
        if half_offset < self.half:
            self._done_ops.add(op_offset)
        else:
            self._ops[half_offset] = op_offset
        self.advance()

    def passed(self, key: str) -> None:
        """Move past the half message at the front, which has no op message."""
        self._uncopy(key, self.half)
        self.half += 1
        self.advance()

    def jump(self, half_offset: int) -> None:
        """Move to an offset: the half messages before it are no longer in the log."""
        for offset in [offset for offset in self._ops if offset < half_offset]:
            self._done_ops.add(self._ops.pop(offset))
        self.half = max(self.half, half_offset)
        self.advance()

    def advance(self) -> None:
        """Move both fronts past what is done."""
        while self.half in self._ops:
            self._done_ops.add(self._ops.pop(self.half))
            self.half += 1
        while self.op in self._done_ops:
            self._done_ops.discard(self.op)
            self.op += 1

    def _remember(self, key: str) -> None:
        self._copies.pop(key, None)
        self._decided[key] = None
        if len(self._decided) > RECENT:
            del self._decided[next(iter(self._decided))]

    def _uncopy(self, key: str, half_offset: int) -> None:
        copies = self._copies.get(key)
        if copies is not None:
            copies.discard(half_offset)
            if not copies:
                del self._copies[key]


class Transactions:
    """Records decisions on half messages."""

    def __init__(
        self,
        store: HalfLog,
        put: Callable[[Unit], PutResult],
        *,
        host: Callable[[], bytes],
        now_ms: Callable[[], int],
    ) -> None:
        self.queue = HalfQueue()
        self._store = store
        self._put = put
        self._host = host
        self._now_ms = now_ms

    def half_at(self, header: EndTransactionRequest) -> Unit:
        """The half message of a decision, checked; what only looks like one inside of a body is in no queue."""
        half = check_decision(self._store.unit_at(header.commit_log_offset), header)
        entries = self._store.queue_entries(HALF_TOPIC, HALF_QUEUE, half.queue_offset, 1)
        if not entries or entries[0][0] != half.physical_offset:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, NOT_FOUND)
        return half

    def is_decided(self, half: Unit) -> bool:
        """Whether this message or a copy of it is decided."""
        return self.queue.is_decided(identity(half))

    def remove(self, half: Unit) -> None:
        """Store op messages for a half message and for every undecided copy of it."""
        key = identity(half)
        for offset in sorted({half.queue_offset} | self.queue.copies(key)):
            self._record(key, offset)

    def _record(self, key: str, half_offset: int) -> None:
        result = self._put(op_message(half_offset, HALF_QUEUE, self._host(), self._now_ms()))
        if result.size:
            self.queue.decided(key, half_offset, result.queue_offset)
        else:
            log.error("half message %d is decided, but that could not be stored: %s", half_offset, result.status.name)
