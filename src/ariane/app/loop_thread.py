"""An event loop in a thread of its own, where plain code has its clients."""

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ariane.errors import NotRunning

T = TypeVar("T")


class LoopThread:
    """Runs coroutines for plain code; not in a forked child, which has the object but not the thread."""

    def __init__(self, name: str) -> None:
        self.process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=name, daemon=True)
        self._thread.start()

    @property
    def is_here(self) -> bool:
        """False in a forked child, which has the object but not the thread."""
        return self.process == os.getpid() and not self.loop.is_closed()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine there and wait for it."""
        if not self.is_here:
            work.close()
            raise NotRunning("this event loop belongs to another process, or is closed: connect again in this one")
        future = asyncio.run_coroutine_threadsafe(work, self.loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C, or a test's time limit
            future.cancel()
            raise

    def close(self) -> None:
        """End the thread."""
        if self.is_here:
            self.loop.call_soon_threadsafe(self.loop.stop)
            self._thread.join()
            self.loop.close()
