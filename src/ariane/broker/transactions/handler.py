"""END_TRANSACTION: a producer decides a half message. RESUME_CHECK_HALF_MESSAGE: an operator has one checked again."""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from ariane.broker.message_writer import MessageWriter
from ariane.broker.role import Role
from ariane.broker.send.acknowledge import Acknowledge
from ariane.broker.send.answer import PutFailures
from ariane.broker.stats import BrokerStats
from ariane.broker.transactions.check import is_hopeless
from ariane.broker.transactions.half_messages import HALF_QUEUE, Transactions, committed_message, identity, note_first
from ariane.broker.unit_copy import copy_of, properties_of
from ariane.errors import ProtocolError, ResponseError
from ariane.message import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, TRANSACTION_CHECK_TIMES
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import EndTransactionRequest, ResumeCheckHalfMessageRequest
from ariane.protocol.ids import parse_offset_id
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK, Unit
from ariane.remoting import Connection
from ariane.store import STORED, MessageStore, PutStatus

log = logging.getLogger("ariane.broker.transactions")

NOT_RESUMED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."


class Recovery(Protocol):
    """Waits for the decisions of earlier runs to be read."""

    @property
    def is_recovered(self) -> bool: ...

    async def recovered(self) -> None: ...


class TransactionHandler:
    """Commits and rolls back half messages; the first decision on each stands."""

    def __init__(
        self,
        transactions: Transactions,
        recovery: Recovery,
        postpone: Callable[[Unit], None],
        store: MessageStore,
        writer: MessageWriter,
        acknowledge: Acknowledge,
        stats: BrokerStats,
        failures: PutFailures,
        role: Role,
    ) -> None:
        self._transactions = transactions
        self._recovery = recovery
        self._postpone = postpone  # redirects a message that is delayed or has a delivery time
        self._store = store
        self._writer = writer
        self._acknowledge = acknowledge
        self._stats = stats
        self._failures = failures
        self._role = role

    def end(self, connection: Connection, request: Command) -> Command | Awaitable[Command | None] | None:
        """Decide a half message, once the decisions of earlier runs are read."""
        header = EndTransactionRequest.parse(request.fields)
        if self._role.is_slave:
            raise ResponseError(ResponseCode.SLAVE_NOT_AVAILABLE, "a slave decides no transactions")
        if header.commit_or_rollback == TRANSACTION_NOT:
            log.debug("group %s does not know yet about %s", header.producer_group, header.msg_id)
            return request.reply()
        if header.commit_or_rollback not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
            remark = f"{header.commit_or_rollback} is no decision on a transaction"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        if self._recovery.is_recovered:
            return self._decide(connection, request, header)
        return self._decide_later(connection, request, header)

    async def _decide_later(
        self, connection: Connection, request: Command, header: EndTransactionRequest
    ) -> Command | None:
        await self._recovery.recovered()
        return self._decide(connection, request, header)

    def _decide(self, connection: Connection, request: Command, header: EndTransactionRequest) -> Command | None:
        """Commit: store the message, then the op message. A crash in between leaves it undecided, not lost."""
        half = self._transactions.half_at(header)
        if self._transactions.is_decided(half):
            log.debug("group %s decides %s once more; the first decision stands", header.producer_group, header.msg_id)
            return request.reply()
        if header.commit_or_rollback == TRANSACTION_ROLLBACK:
            self._transactions.remove(half)
            return request.reply()
        message = committed_message(half)
        self._postpone(message)
        result = self._writer.append(message)
        if result.status is not PutStatus.OK:
            raise self._failures.of(result.status)
        self._stats.put(message.topic.decode(), message.queue_id, 1, result.size)
        self._transactions.remove(half)

        def kept(status: PutStatus) -> None:
            code = ResponseCode.SUCCESS if status in STORED else ResponseCode.SYSTEM_ERROR
            connection.answer(request, request.reply(code))

        self._acknowledge.when_kept(result, kept)
        return None

    def resume(self, _: Connection, request: Command) -> Command:
        """Store a half message that was given up again, with its checks counted from 0.

        Apache's broker accepts any message here, so that any client could store into the half topic.
        """
        msg_id = ResumeCheckHalfMessageRequest.parse(request.fields).msg_id
        try:
            offset = parse_offset_id(msg_id or "")[1]
        except ProtocolError as error:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{NOT_RESUMED} {error}") from None
        unit = self._store.message_at(offset)
        if unit is None or not _is_half(unit):
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{NOT_RESUMED} {msg_id} is no half message")
        properties = {**properties_of(unit), TRANSACTION_CHECK_TIMES: "0"}
        if unit.topic == HALF_TOPIC.encode():
            note_first(unit, properties)
        copy = copy_of(unit, HALF_TOPIC, HALF_QUEUE, properties)
        result = self._writer.append(copy)
        if result.status is not PutStatus.OK:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, NOT_RESUMED)
        copy.queue_offset = result.queue_offset
        self._transactions.queue.copied(identity(copy), result.queue_offset)
        return request.reply()


def _is_half(unit: Unit) -> bool:
    return unit.topic in (CHECK_MAX_TIME_TOPIC.encode(), HALF_TOPIC.encode()) and not is_hopeless(properties_of(unit))
