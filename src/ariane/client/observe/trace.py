"""Message trace: which client sent or consumed which message when, as messages of a trace topic, in RocketMQ's format.

record    fields separated by U+0001, ended by U+0002
Pub             time, region, group, topic, id, tags, keys, broker, size, cost, type, offset id, success, client
SubBefore       time, region, group, request, id, retry times, keys
SubAfter        request, id, cost, success, keys, outcome, time, group
EndTransaction  time, region, group, topic, id, tags, keys, broker, type, transaction id, state, from check
"""

import logging
from collections import deque
from collections.abc import Awaitable, Callable

from ariane.client.connect.tasks import Tasks
from ariane.client.observe.hooks import ConsumeContext, EndTransactionContext, SendContext
from ariane.client.results import SendStatus
from ariane.env import Env
from ariane.errors import ArianeError
from ariane.message import (
    DEFAULT_REGION,
    DELAY,
    DELIVER_TIME,
    KEYS,
    MSG_REGION,
    TAGS,
    TRACE_ON,
    TRANSACTION_PREPARED,
    Message,
    ReceivedMessage,
)

log = logging.getLogger("ariane.client")

FLUSH_INTERVAL = 0.5
FLUSH_SIZE = 118_000  # characters: a trace message holds 128 KB at most
NORMAL, HALF, COMMIT, DELAYED = range(4)  # RocketMQ's message types
OUTCOMES = {"SUCCESS": 0, "TIME_OUT": 1, "EXCEPTION": 2, "RETURNNULL": 3, "FAILED": 4}


class Tracer:
    """Collects records from hooks and sends them each half second."""

    def __init__(self, env: Env, tasks: Tasks, topic: str, send: Callable[[Message], Awaitable[object]]) -> None:
        self._clock = env.clock
        self._random = env.random
        self._topic = topic
        self._send = send
        self._records: deque[tuple[str, str, str | None]] = deque()  # filled by listeners' threads too
        self._flusher = tasks.every(FLUSH_INTERVAL, self.flush)

    async def close(self) -> None:
        """Send the remaining records."""
        self._flusher.cancel()
        await self.flush()

    def before_send(self, context: SendContext) -> None:
        """Note when the send began."""
        context.notes["traced at"] = self._clock.now_ms()

    def after_send(self, context: SendContext) -> None:
        """Record a stored message."""
        result, message = context.result, context.message
        if result is None or not result.trace_on or message.topic == self._topic:
            return
        began = context.notes["traced at"]
        assert isinstance(began, int)
        properties = message.properties
        self._record(
            result.message_id, properties.get(KEYS),
            "Pub", began, result.region or DEFAULT_REGION, context.group, message.topic, result.message_id,
            properties.get(TAGS), properties.get(KEYS), context.broker_address, len(message.body),
            self._clock.now_ms() - began, _type_of(properties), result.offset_id,
            result.status is SendStatus.SEND_OK, context.client_address,
        )  # fmt: skip

    def before_consume(self, context: ConsumeContext) -> None:
        """Record that a listener is called."""
        context.notes["traced at"] = now = self._clock.now_ms()
        context.notes["trace request"] = request = f"{self._random.getrandbits(128):032X}"
        for message in _traced(context.messages):
            region = message.properties.get(MSG_REGION) or DEFAULT_REGION
            self._record(
                message.message_id, message.properties.get(KEYS),
                "SubBefore", now, region, context.group, request, message.message_id,
                message.reconsume_times, message.properties.get(KEYS),
            )  # fmt: skip

    def after_consume(self, context: ConsumeContext) -> None:
        """Record the result of a listener call."""
        began, request = context.notes["traced at"], context.notes["trace request"]
        assert isinstance(began, int)
        now = self._clock.now_ms()
        cost = (now - began) // max(1, len(context.messages))
        for message in _traced(context.messages):
            self._record(
                message.message_id, message.properties.get(KEYS),
                "SubAfter", request, message.message_id, cost, context.success, message.properties.get(KEYS),
                OUTCOMES.get(context.returned, 0), now, context.group,
            )  # fmt: skip

    def end_transaction(self, context: EndTransactionContext) -> None:
        """Record the end of a local transaction."""
        properties = context.message.properties
        self._record(
            context.message_id, properties.get(KEYS),
            "EndTransaction", self._clock.now_ms(), properties.get(MSG_REGION) or DEFAULT_REGION, context.group,
            context.message.topic, context.message_id, properties.get(TAGS), properties.get(KEYS),
            context.broker_address, COMMIT, context.transaction_id, context.state, context.from_check,
        )  # fmt: skip

    def _record(self, message_id: str, keys: str | None, *fields: object) -> None:
        self._records.append(("\x01".join([_text(field) for field in fields]) + "\x02", message_id, keys))

    async def flush(self) -> None:
        """Send the records; those that cannot be sent are dropped, for tracing must not delay messages."""
        while self._records:
            message = self._next_message()
            try:
                await self._send(message)
            except ArianeError as error:
                log.warning("trace records were lost: %s", error)

    def _next_message(self) -> Message:
        texts: list[str] = []
        keys: dict[str, None] = {}
        size = 0
        while self._records and size < FLUSH_SIZE:
            text, message_id, more = self._records.popleft()
            texts.append(text)
            size += len(text)
            keys |= dict.fromkeys([message_id, *(more or "").split()])
        return Message(self._topic, "".join(texts).encode(), keys=list(keys))


def _text(field: object) -> str:
    if isinstance(field, bool):
        return "true" if field else "false"
    return "null" if field is None else str(field)


def _type_of(properties: dict[str, str]) -> int:
    if DELAY in properties or DELIVER_TIME in properties:
        return DELAYED
    return HALF if properties.get(TRANSACTION_PREPARED) == "true" else NORMAL


def _traced(messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
    return [message for message in messages if message.properties.get(TRACE_ON) != "false"]
