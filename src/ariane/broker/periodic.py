"""Work that repeats at an interval of the broker's clock."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable

from ariane.env import Clock

log = logging.getLogger("ariane.broker")


class Periodic:
    """Runs an action each `interval` seconds, first after `first`. A failure is logged; the next turn tries again.

    An interval given as a function is evaluated before each wait, for intervals that change at run time.
    """

    def __init__(
        self,
        clock: Clock,
        interval: float | Callable[[], float],
        action: Callable[[], Awaitable[None] | None],
        *,
        name: str,
        first: float | None = None,
    ) -> None:
        self._clock = clock
        self._interval = interval
        self._action = action
        self._name = name
        self._first = first
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the first wait."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)

    async def stop(self) -> None:
        """Stop; an action under way is cancelled."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _run(self) -> None:
        await self._clock.sleep(self._wait() if self._first is None else self._first)
        while True:
            await self._once()
            await self._clock.sleep(self._wait())

    def _wait(self) -> float:
        return self._interval() if callable(self._interval) else self._interval

    async def _once(self) -> None:
        try:
            result = self._action()
            if inspect.isawaitable(result):
                await result
        except Exception:
            log.exception("%s failed; the next turn tries again", self._name)
