"""Runners call a listener: a function in threads, a coroutine function in the loop."""

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Protocol

from ariane.client.connect.tasks import is_cancelled
from ariane.client.consumer.listen.listener import (
    Call,
    ConsumeStatus,
    Delivery,
    Listener,
    Unfinished,
    is_coroutine,
    with_delivery,
)
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.client.observe.hooks import ConsumeContext
from ariane.env import Clock
from ariane.errors import ClientError
from ariane.message import ReceivedMessage

log = logging.getLogger("ariane.client")


@dataclass(slots=True, eq=False)
class Batch:
    """Messages of one listener call, and its result."""

    queue: ProcessQueue
    messages: list[ReceivedMessage]
    delivery: Delivery
    done: Callable[["Batch"], None]
    started: float | None = None
    status: ConsumeStatus | None = None
    error: BaseException | None = None
    wall: float = 0.0
    cpu: float | None = None
    context: ConsumeContext | None = None
    watched: bool = True
    """Whether hooks see the call."""

    def answer(self, status: object) -> None:
        """Note what the listener returned; anything but a status or None is an error."""
        if status is None or isinstance(status, ConsumeStatus):
            self.status = status
            return
        if inspect.iscoroutine(status):
            status.close()
        self.error = ClientError(
            f"the listener returned {status!r}: it must return a ConsumeStatus, e.g. ConsumeStatus.CONSUME_SUCCESS"
        )


class Watch(Protocol):
    """Called around each listener call, in its thread or task."""

    def before(self, batch: Batch) -> None: ...

    def after(self, batch: Batch) -> None: ...


class Runner(Protocol):
    """Calls a listener with batches, several at a time. Batches of dropped queues are skipped."""

    @property
    def size(self) -> int: ...

    def submit(self, batch: Batch) -> None: ...

    async def close(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for running calls."""
        ...


class _Open:
    """Counts batches that were submitted and are not done."""

    def __init__(self) -> None:
        self.count = 0
        self._none = asyncio.Event()
        self._none.set()

    def add(self) -> None:
        self.count += 1
        self._none.clear()

    def finish(self, batch: Batch) -> None:
        try:
            batch.done(batch)
        except Exception:
            log.exception("the result of a listener call for messages of %s was lost", batch.queue.queue)
        self.count -= 1
        if not self.count:
            self._none.set()

    async def wait(self, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout):
                await self._none.wait()
        except TimeoutError:
            return


class CoroutineRunner:
    """Runs a coroutine listener in the loop, up to `size` calls at a time."""

    def __init__(self, call: Call, size: int, clock: Clock, watch: Watch | None) -> None:
        self.size = size
        self._call = call
        self._clock = clock
        self._watch = watch
        self._waiting: asyncio.Queue[Batch] = asyncio.Queue()
        self._workers: list[asyncio.Task[None]] = []
        self._open = _Open()

    def submit(self, batch: Batch) -> None:
        """Call the listener as soon as fewer than `size` calls run."""
        self._open.add()
        self._waiting.put_nowait(batch)
        if len(self._workers) < min(self.size, self._open.count):
            self._workers.append(asyncio.get_running_loop().create_task(self._work()))  # never fails: see `_run`

    async def _work(self) -> None:
        while True:
            batch = await self._waiting.get()
            if not batch.queue.dropped:
                await self._run(batch)
            self._open.finish(batch)

    async def _run(self, batch: Batch) -> None:
        batch.started = started = self._clock.monotonic()
        watch = self._watch if batch.watched else None
        if watch is not None:
            watch.before(batch)
        try:
            batch.answer(await self._call(batch.messages, batch.delivery))
        except Unfinished:
            batch.started = None
        except BaseException as error:  # a SystemExit would end the loop and all its clients
            if is_cancelled():
                raise
            batch.error = error
        batch.wall = self._clock.monotonic() - started
        if watch is not None:
            watch.after(batch)

    async def close(self, timeout: float) -> None:
        """Let running calls finish; cancel those that take too long."""
        await self._open.wait(timeout)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)


class ThreadRunner:
    """Runs a listener function in up to `size` threads, started as they are needed."""

    def __init__(self, call: Call, size: int, clock: Clock, watch: Watch | None, name: str) -> None:
        self.size = size
        self._call = call
        self._clock = clock
        self._watch = watch
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._waiting: SimpleQueue[Batch | None] = SimpleQueue()
        self._finished: deque[Batch] = deque()
        self._collecting = False
        self._threads: list[threading.Thread] = []
        self._open = _Open()

    def submit(self, batch: Batch) -> None:
        """Call the listener when a thread is free."""
        self._open.add()
        self._waiting.put(batch)
        if len(self._threads) < min(self.size, self._open.count):
            self._start_thread()

    def _start_thread(self) -> None:
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads) + 1}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                raise
            log.warning("cannot start another thread, continuing with %d: %s", len(self._threads), error)
            return
        self._threads.append(thread)

    def _work(self) -> None:
        while (batch := self._waiting.get()) is not None:
            if not batch.queue.dropped:
                self._run(batch)
            self._finished.append(batch)
            if not self._collecting:
                self._collecting = True
                self._tell_loop()

    def _tell_loop(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._collect)
        except RuntimeError:  # the loop is closed: the results are not needed
            self._finished.clear()

    def _run(self, batch: Batch) -> None:
        watch = self._watch if batch.watched else None
        if watch is not None:
            watch.before(batch)
        batch.started = started = self._clock.monotonic()
        cpu = time.thread_time()
        try:
            batch.answer(self._call(batch.messages, batch.delivery))
        except BaseException as error:  # a SystemExit too: the thread serves other messages
            batch.error = error
        batch.cpu = time.thread_time() - cpu
        batch.wall = self._clock.monotonic() - started
        if watch is not None:
            watch.after(batch)

    def _collect(self) -> None:
        self._collecting = False  # reset first: a batch that finishes after this wakes the loop again
        while self._finished:
            self._open.finish(self._finished.popleft())

    async def close(self, timeout: float) -> None:
        """Let running calls finish; a thread that takes too long ends after its call."""
        await self._open.wait(timeout)
        for _ in self._threads:
            self._waiting.put(None)


def make_runner(listener: Listener, size: int, clock: Clock, watch: Watch | None, name: str) -> Runner:
    """The runner for a listener."""
    if is_coroutine(listener):
        return CoroutineRunner(with_delivery(listener), size, clock, watch)
    return ThreadRunner(with_delivery(listener), size, clock, watch, name)
