"""Requests that wait for their responses, each with a deadline."""

import asyncio
from typing import Final, Protocol

from ariane.env import Clock
from ariane.errors import RequestTimeout, SendFailed
from ariane.protocol.command import Command

GRAIN: Final = 0.01  # least seconds between two checks of the deadlines
LATE: Final = 0.05  # seconds after a deadline from which the event loop may be late, not the peer
TELL: Final = 0.2  # seconds of lateness that an error names: the cause may be here, not at the peer
READS: Final = 3  # turns of the loop that read what has arrived


class Answer(Protocol):
    """The receiver of a response: a future of the loop, or an equivalent in another thread."""

    def done(self) -> bool: ...

    def set_result(self, result: Command, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...


class Waiters:
    """The pending requests of one connection by opaque.

    One task watches all deadlines: a timer per request would cost more than the request.
    """

    def __init__(self, clock: Clock, peer: str) -> None:
        self._clock = clock
        self._peer = peer
        self._waiting: dict[int, tuple[float, float, Answer]] = {}  # deadline, time allowed, answer
        self._watch: asyncio.Task[None] | None = None
        self._wake_at = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, opaque: int, timeout: float) -> asyncio.Future[Command]:
        """The future of the response; it fails with RequestTimeout when none comes in time."""
        future: asyncio.Future[Command] = asyncio.get_running_loop().create_future()
        self.put(opaque, timeout, future)
        return future

    def put(self, opaque: int, timeout: float, answer: Answer) -> None:
        """Like `add`, with an object that receives the response."""
        deadline = self._clock.monotonic() + timeout
        self._waiting[opaque] = (deadline, timeout, answer)
        if self._watch is None or deadline < self._wake_at:
            self._arm(asyncio.get_running_loop(), deadline)

    def answer(self, response: Command) -> None:
        """Deliver a response to its request; one that comes too late is dropped."""
        entry = self._waiting.pop(response.opaque, None)
        if entry is not None and not entry[2].done():
            entry[2].set_result(response)

    def forget(self, opaque: int) -> None:
        """Drop a request: its response is not wanted any more."""
        self._waiting.pop(opaque, None)

    def fail(self, reason: str) -> None:
        """Fail all pending requests with SendFailed."""
        waiting, self._waiting = self._waiting, {}
        for _, _, future in waiting.values():
            if not future.done():
                future.set_exception(SendFailed(reason))
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _arm(self, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._wake_at = deadline
        self._watch = loop.create_task(self._expire_in_time())

    async def _expire_in_time(self) -> None:
        while True:
            await self._clock.sleep(max(self._wake_at - self._clock.monotonic(), GRAIN))
            late = self._clock.monotonic() - self._wake_at
            if late > LATE:
                for _ in range(READS):  # this process was late, not the peer: first read what has arrived
                    await asyncio.sleep(0)
            self._expire(self._clock.monotonic(), late)
            if not self._waiting:
                break
            self._wake_at = min(deadline for deadline, _, _ in self._waiting.values())
        self._watch = None

    def _expire(self, now: float, late: float) -> None:
        busy = f"; the event loop of this process was {late:.1f} s late" if late >= TELL else ""
        for opaque in [opaque for opaque, (deadline, _, _) in self._waiting.items() if deadline <= now]:
            _, timeout, future = self._waiting.pop(opaque)
            if not future.done():
                future.set_exception(RequestTimeout(f"{self._peer} did not answer within {timeout:g} s{busy}"))
