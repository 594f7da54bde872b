"""Sending staged messages: many at a time, and their queues and offsets recorded in one transaction."""

import asyncio
import logging
from collections import deque
from collections.abc import Sequence

from sqlalchemy import Connection

from ariane import SendResult, aio
from ariane.env import Clock
from ariane.errors import ArianeError, BrokerRefused, InvalidMessage, SendForbidden
from ariane.guarantee import stub
from ariane.guarantee.database import Database
from ariane.guarantee.options import GuaranteeOptions
from ariane.guarantee.outbox import StagedMessage
from ariane.protocol.codes import ResponseCode

log = logging.getLogger("ariane.guarantee")

AT_ONCE = 256
MAX_WAITING = 100_000  # what is more waits in its stub for the resender


def is_hopeless(error: ArianeError) -> bool:
    """Whether the same message will meet this error every time, so that a person must decide."""
    if isinstance(error, BrokerRefused):
        return error.code == ResponseCode.MESSAGE_ILLEGAL
    return isinstance(error, InvalidMessage | SendForbidden)


async def send_all(producer: aio.Producer, messages: Sequence[StagedMessage]) -> list[SendResult | ArianeError]:
    """Send messages side by side; a result or an error for each."""

    async def send(staged: StagedMessage) -> SendResult | ArianeError:
        try:
            return await producer.send(staged.message(), hash_key=staged.hash_key)
        except ArianeError as error:
            return error
        except ValueError as error:  # a stub that somebody else wrote
            return InvalidMessage(str(error))

    return await asyncio.gather(*(send(staged) for staged in messages))


class Sender:
    """Sends what sessions have committed. What it cannot send, or forgets in a crash, the resender finds."""

    def __init__(self, database: Database, producer: aio.Producer, options: GuaranteeOptions, clock: Clock) -> None:
        self._database = database
        self._producer = producer
        self._options = options
        self._clock = clock
        self._waiting: deque[StagedMessage] = deque()
        self._wake = asyncio.Event()
        self._closing = False

    def deliver(self, messages: Sequence[StagedMessage]) -> None:
        """Take committed messages; returns at once."""
        if len(self._waiting) + len(messages) > MAX_WAITING:
            log.warning("%d messages wait for the broker: the resender sends the next %d", MAX_WAITING, len(messages))
            return
        self._waiting.extend(messages)
        self._wake.set()

    async def run(self) -> None:
        """Send until closed, and then what still waits."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                batch = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
                await self.send(batch)
            if self._closing:
                return

    def close(self) -> None:
        """End `run` when nothing waits any more."""
        self._closing = True
        self._wake.set()

    async def send(self, messages: Sequence[StagedMessage]) -> list[SendResult | ArianeError]:
        """Send messages whose stubs are committed, and record the sends."""
        results = await send_all(self._producer, messages)
        now = self._clock.now_ms()
        due = now + int(self._options.next_resend(1) * 1000)
        sends = [
            stub.Sent(m.message_id, None, r.queue.broker_name, r.queue.queue_id, r.queue_offset, due)
            for m, r in zip(messages, results, strict=True)
            if not isinstance(r, ArianeError)
        ]
        failed = [(m, r) for m, r in zip(messages, results, strict=True) if isinstance(r, ArianeError)]
        if failed:
            log.warning("%d messages could not be sent, the resender tries again: %s", len(failed), failed[0][1])

        def record(connection: Connection) -> None:
            stub.record_sent(connection, sends)
            for message, error in failed:
                for group in self._options.groups_of(message.topic):
                    if is_hopeless(error):
                        stub.mark(connection, message.message_id, group, f"cannot be sent: {error}", now)
                    else:
                        stub.postpone(connection, message.message_id, group, now + _again(self._options), str(error))

        try:
            await self._database.run(record)
        except Exception as error:  # the stubs are safe; drivers for asyncio have errors of their own
            log.warning("sends of %d messages could not be recorded, they may be resent: %s", len(messages), error)
        return results


def _again(options: GuaranteeOptions) -> int:
    return int(min(options.poll_interval, options.resend_after) * 1000)
