"""Background work of a client: every task has an owner, errors are logged, and permanent tasks are restarted."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ariane.env import Clock
from ariane.errors import NotRunning

log = logging.getLogger("ariane.client")

RESTART_PAUSE, MAX_RESTART_PAUSE = 1.0, 30.0  # seconds before failed work is restarted


class Tasks:
    """The tasks of one client instance, which ends them when it closes."""

    def __init__(self, clock: Clock, owner: str) -> None:
        self._clock = clock
        self._owner = owner
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed = False

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run something once in the background; an error is logged."""
        if self._closed:
            work.close()
            raise NotRunning("the client is closed")
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def supervise(self, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        """Run work until it returns or is cancelled: an error is logged, and the work is restarted."""
        return self.spawn(self._supervised(what, work))

    async def _supervised(self, what: str, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        pause, clock = RESTART_PAUSE, self._clock
        while True:
            started = clock.monotonic()
            try:
                await work()
                return
            except asyncio.CancelledError:
                if is_cancelled():
                    raise
                log.exception("%s: %s was interrupted, and starts again in %g s", self._owner, what, pause)
            except Exception:
                log.exception("%s: %s failed, and starts again in %g s", self._owner, what, pause)
            await clock.sleep(pause)
            worked_long = clock.monotonic() - started > 2 * MAX_RESTART_PAUSE
            pause = RESTART_PAUSE if worked_long else min(2 * pause, MAX_RESTART_PAUSE)

    def every(self, seconds: float, work: Callable[[], Awaitable[None]]) -> asyncio.Task[None]:
        """Repeat an action; an error is logged and does not end it."""

        async def repeat() -> None:
            while True:
                await self._clock.sleep(seconds)
                try:
                    await work()
                except Exception:
                    log.warning("%s: regular work failed, and will be tried again", self._owner, exc_info=True)

        return self.supervise("regular work", repeat)

    async def wait(self, event: asyncio.Event, seconds: float) -> None:
        """Wait for an event with a time-out."""
        happened = asyncio.ensure_future(event.wait())
        late = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({happened, late}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            happened.cancel()
            late.cancel()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("%s: background work failed", self._owner, exc_info=error)

    async def close(self) -> None:
        """End everything."""
        self._closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def is_cancelled() -> bool:
    """Whether the running task itself is cancelled, not just something that it waited for."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
