"""END_TRANSACTION: a producer decides a half message. RESUME_CHECK_HALF_MESSAGE: an operator has one checked again."""

from __future__ import annotations

import logging
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from ariane.broker.transactions.check import is_hopeless
from ariane.broker.transactions.half_messages import HALF_QUEUE, committed_message, identity
from ariane.broker.unit_copy import copy_of, properties_of
from ariane.errors import ProtocolError, ResponseError
from ariane.message import CHECK_MAX_TIME_TOPIC, HALF_TOPIC, TRANSACTION_CHECK_TIMES
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import EndTransactionRequest, ResumeCheckHalfMessageRequest
from ariane.protocol.ids import parse_offset_id
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK, Unit
from ariane.remoting import Connection, Handler
from ariane.store import STORED, PutStatus

if TYPE_CHECKING:
    from ariane.broker.server import Broker

log = logging.getLogger("ariane.broker.transactions")

NOT_RESUMED = "Put message back to RMQ_SYS_TRANS_HALF_TOPIC failed."


class TransactionHandler:
    """Decides half messages as their producers say, each once."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def end(self, connection: Connection, request: Command) -> Command | Awaitable[Command | None] | None:
        header = EndTransactionRequest.parse(request.fields)
        if self._broker.options.broker_role == "SLAVE":
            raise ResponseError(ResponseCode.SLAVE_NOT_AVAILABLE, "a slave decides no transactions")
        if header.commit_or_rollback == TRANSACTION_NOT:
            log.debug("group %s does not know yet about %s", header.producer_group, header.msg_id)
            return request.reply()
        if header.commit_or_rollback not in (TRANSACTION_COMMIT, TRANSACTION_ROLLBACK):
            remark = f"{header.commit_or_rollback} is no decision on a transaction"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        if self._broker.kinds.is_recovered:
            return self._decide(connection, request, header)
        return self._decide_later(connection, request, header)

    async def _decide_later(
        self, connection: Connection, request: Command, header: EndTransactionRequest
    ) -> Command | None:
        await self._broker.kinds.recovered()
        return self._decide(connection, request, header)

    def _decide(self, connection: Connection, request: Command, header: EndTransactionRequest) -> Command | None:
        transactions = self._broker.kinds.transactions
        half = transactions.half_at(header)
        if transactions.is_decided(half):
            log.debug("group %s decides %s once more; the first decision stands", header.producer_group, header.msg_id)
            return request.reply()
        if header.commit_or_rollback == TRANSACTION_COMMIT:
            return self._commit(connection, request, half)
        transactions.remove(half)
        return request.reply()

    def _commit(self, connection: Connection, request: Command, half: Unit) -> Command | None:
        """Store the message, then the record that it is decided: a crash between leaves it undecided, not lost."""
        broker = self._broker
        message = committed_message(half)
        broker.kinds.delay.rewrite(message)
        result = broker.writer.append(message)
        if result.status is not PutStatus.OK:
            raise broker.failures.of(result.status)
        broker.stats.put(message.topic.decode(), message.queue_id, 1, result.size)
        broker.kinds.transactions.remove(half)

        def kept(status: PutStatus) -> None:
            code = ResponseCode.SUCCESS if status in STORED else ResponseCode.SYSTEM_ERROR
            connection.answer(request, request.reply(code))

        broker.acknowledge.when_kept(result, kept)
        return None

    def resume(self, _: Connection, request: Command) -> Command:
        """Put a half message that was given up back, with no checks counted."""
        header = ResumeCheckHalfMessageRequest.parse(request.fields)
        unit = self._given_up(header.msg_id)
        properties = {**properties_of(unit), TRANSACTION_CHECK_TIMES: "0"}
        copy = copy_of(unit, HALF_TOPIC, HALF_QUEUE, properties)
        result = self._broker.writer.append(copy)
        if result.status is not PutStatus.OK:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, NOT_RESUMED)
        copy.queue_offset = result.queue_offset
        self._broker.kinds.transactions.queue.copied(identity(copy), result.queue_offset)
        return request.reply()

    def _given_up(self, msg_id: str | None) -> Unit:
        """Apache's broker takes any message here; that would let anybody store into the half topic."""
        try:
            _, offset = parse_offset_id(msg_id or "")
        except ProtocolError as error:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{NOT_RESUMED} {error}") from None
        unit = self._broker.store.unit_at(offset)
        topics = (CHECK_MAX_TIME_TOPIC.encode(), HALF_TOPIC.encode())
        if unit is None or unit.topic not in topics or is_hopeless(properties_of(unit)):
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{NOT_RESUMED} {msg_id} is no half message")
        return unit


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = TransactionHandler(broker)
    return {RequestCode.END_TRANSACTION: handler.end, RequestCode.RESUME_CHECK_HALF_MESSAGE: handler.resume}
