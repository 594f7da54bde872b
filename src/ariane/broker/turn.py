"""Long answers in slices, so that the event loop serves others between them."""

import asyncio
import time
from collections.abc import Callable
from typing import Final

SLICE: Final = 0.002  # seconds


class Turn:
    """The time that a long computation has used of the loop in one piece."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()

    async def give_way(self) -> None:
        """Let the event loop do other work when the slice is used up."""
        if self._clock() - self._began >= SLICE:
            await asyncio.sleep(0)
            self._began = self._clock()
