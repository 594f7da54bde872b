"""A fair lock by key, so that one peer cannot make all others wait."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """One holder at a time; waiters are served round robin by key, and in order within a key."""

    def __init__(self) -> None:
        self._held = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # ordered: the next key is first

    @asynccontextmanager
    async def turn(self, key: str) -> AsyncIterator[None]:
        """Wait for a turn and hold it."""
        if self._held:
            await self._wait(key)
        self._held = True
        try:
            yield
        finally:
            self._pass_on()

    async def _wait(self, key: str) -> None:
        waiter = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(key, deque()).append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                self._pass_on()  # the turn came together with the cancellation
            raise

    def _pass_on(self) -> None:
        while self._waiting:
            key = next(iter(self._waiting))
            waiters = self._waiting.pop(key)
            waiter = waiters.popleft()
            if waiters:
                self._waiting[key] = waiters
            if not waiter.done():
                waiter.set_result(None)
                return  # stays held: passed to the next waiter
        self._held = False
