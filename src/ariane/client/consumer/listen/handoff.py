"""Iteration in place of a listener: each message goes to the next caller that asks for one."""

import asyncio
from collections.abc import AsyncGenerator

from ariane.client.consumer.listen.listener import ConsumeStatus, Delivery, Unfinished
from ariane.message import ReceivedMessage

Verdict = asyncio.Future[bool]


class Handoff:
    """A listener that returns when an iterator has taken the message and asked for the next one."""

    def __init__(self) -> None:
        self._offered: asyncio.Queue[tuple[ReceivedMessage, Verdict] | None] = asyncio.Queue()
        self._open: set[Verdict] = set()
        self._closed = False

    async def listen(self, messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus:
        """Offer messages one after the other."""
        for index, message in enumerate(messages):
            if not await self._offer(message):
                delivery.ack_index = index - 1
                return ConsumeStatus.CONSUME_SUCCESS if index else ConsumeStatus.RECONSUME_LATER
        return ConsumeStatus.CONSUME_SUCCESS

    async def _offer(self, message: ReceivedMessage) -> bool:
        if self._closed:
            raise Unfinished
        verdict: Verdict = asyncio.get_running_loop().create_future()
        self._open.add(verdict)
        self._offered.put_nowait((message, verdict))
        try:
            return await verdict
        finally:
            self._open.discard(verdict)

    async def messages(self) -> AsyncGenerator[ReceivedMessage, None]:
        """Iterate over messages; asking for the next one acknowledges the last one."""
        while (offered := await self._offered.get()) is not None:
            message, verdict = offered
            if verdict.done():
                continue
            finished = False
            try:
                yield message
                finished = True
            finally:
                if not verdict.done():
                    verdict.set_result(finished)
        self._offered.put_nowait(None)  # for the next iterator

    def close(self) -> None:
        """End all iterations. Messages that were not acknowledged stay uncommitted."""
        self._closed = True
        for verdict in list(self._open):
            if not verdict.done():
                verdict.set_exception(Unfinished())
        self._offered.put_nowait(None)
