"""Back-pressure: bounds the messages of a producer that are in flight.

A message without room waits in a FIFO queue before it costs the event loop anything; its time-out begins when it is
admitted. Otherwise all messages of a flood would time out, because each one's time would be used up by the others.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable

from ariane.errors import BufferFull


class Room:
    """Counts messages and bytes in flight. May be used from any thread."""

    def __init__(self, messages: int, size: int) -> None:
        self._most = messages
        self._most_bytes = size
        self._count = 0
        self._bytes = 0
        self._waiting: deque[_Waiter] = deque()
        self._lock = threading.Lock()

    def take(self, size: int) -> bool:
        """Reserve room; False when there is none, or others wait for it."""
        with self._lock:
            if self._waiting or not self._fits(size):
                return False
            self._count += 1
            self._bytes += size
            return True

    def leave(self, size: int) -> None:
        """Release room, and admit the waiters that fit now."""
        with self._lock:
            self._count -= 1
            self._bytes -= size
            if not self._waiting:
                return
            let_in: list[_Waiter] = []
            while self._waiting and self._fits(self._waiting[0].size):
                waiter = self._waiting.popleft()
                waiter.is_in = True
                self._count += 1
                self._bytes += waiter.size
                let_in.append(waiter)
        for waiter in let_in:
            try:
                waiter.wake()
            except RuntimeError:  # its event loop is closed: admit the next one instead
                self.leave(waiter.size)

    def _fits(self, size: int) -> bool:
        """Whether there is room; one message alone always fits."""
        return not self._count or (self._count < self._most and self._bytes + size <= self._most_bytes)

    async def enter(self, size: int) -> None:
        """Wait for room and reserve it, on an event loop."""
        if self.take(size):
            return
        loop = asyncio.get_running_loop()
        woken = asyncio.Event()
        waiter = self._wait(size, lambda: loop.call_soon_threadsafe(woken.set))
        try:
            await woken.wait()
        except asyncio.CancelledError:
            self._give_up(waiter)
            raise

    def enter_from_thread(self, size: int, *, wait: bool) -> None:
        """Wait for room and reserve it, in a thread; without `wait` raise BufferFull instead."""
        if self.take(size):
            return
        if not wait:
            raise self.full()
        gate = threading.Event()
        waiter = self._wait(size, gate.set)
        try:
            gate.wait()
        except BaseException:  # Ctrl-C
            self._give_up(waiter)
            raise

    def full(self) -> BufferFull:
        """The error for a caller that does not want to wait."""
        return BufferFull(
            f"{self._count} messages with {self._bytes} bytes wait for their answers: send more slowly, wait for "
            "results, or raise max_in_flight and max_in_flight_bytes"
        )

    def _wait(self, size: int, wake: Callable[[], object]) -> "_Waiter":
        waiter = _Waiter(size, wake)
        with self._lock:
            if not self._waiting and self._fits(size):  # room was released meanwhile
                waiter.is_in = True
                self._count += 1
                self._bytes += size
            else:
                self._waiting.append(waiter)
        if waiter.is_in:
            wake()
        return waiter

    def _give_up(self, waiter: "_Waiter") -> None:
        with self._lock:
            if not waiter.is_in:
                self._waiting.remove(waiter)
                return
        self.leave(waiter.size)


class _Waiter:
    __slots__ = ("is_in", "size", "wake")

    def __init__(self, size: int, wake: Callable[[], object]) -> None:
        self.size = size
        self.wake = wake
        self.is_in = False
