"""Listeners that keep what they get, and waiting for what must come."""

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ariane import ConsumeStatus, Delivery, ReceivedMessage

PATIENCE = 60.0
OK = ConsumeStatus.CONSUME_SUCCESS

Answer = Callable[[ReceivedMessage, Delivery], ConsumeStatus | None]


class Inbox:
    """A listener function. `answer` decides; by default all is well."""

    def __init__(self, answer: Answer | None = None) -> None:
        self.messages: list[ReceivedMessage] = []
        self._answer = answer
        self._news = threading.Condition()

    def __call__(self, messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus | None:
        status: ConsumeStatus | None = OK
        for message in messages:
            with self._news:
                self.messages.append(message)
                self._news.notify_all()
            if self._answer is not None:
                status = self._answer(message, delivery)
        return status

    @property
    def bodies(self) -> list[bytes]:
        """What came, in order."""
        return [message.body for message in self.messages]

    def wait(self, count: int) -> list[ReceivedMessage]:
        """Wait for so many deliveries in all."""
        with self._news:
            if not self._news.wait_for(lambda: len(self.messages) >= count, PATIENCE):
                raise TimeoutError(f"{count} wanted, {len(self.messages)} came: {self.bodies[-20:]}")
            return list(self.messages)

    async def arrived(self, count: int) -> list[ReceivedMessage]:
        """`wait` for a test with an event loop."""
        return await asyncio.to_thread(self.wait, count)


async def eventually(
    holds: Callable[[], Any] | Callable[[], Awaitable[Any]], what: str, patience: float = PATIENCE
) -> Any:
    """Poll until something holds that another process or thread brings about."""
    deadline = time.monotonic() + patience
    while True:
        found = holds()
        if isinstance(found, Awaitable):
            found = await found
        if found:
            return found
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {patience:g} s for {what}")
        await asyncio.sleep(0.02)
