"""Runners call a listener: a function in threads, a coroutine function in the loop."""

import asyncio
import inspect
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ariane.client.connect.tasks import is_cancelled
from ariane.client.consumer.listen.listener import (
    Call,
    ConsumeStatus,
    Delivery,
    Listener,
    Unfinished,
    is_coroutine,
    takes_delivery,
)
from ariane.client.consumer.queues.process_queue import ProcessQueue
from ariane.client.observe.hooks import ConsumeContext
from ariane.env import Clock
from ariane.errors import ClientError
from ariane.message import ReceivedMessage

log = logging.getLogger("ariane.client")

TURN: Final = 0.005  # seconds for which a worker calls a listener that never waits, before others get the loop
PATIENCE: Final = 0.001  # seconds that a batch may wait for a thread before another one is woken
SAMPLE: Final = 16  # of so many listener calls the CPU time of one is measured: asking for it is a system call


class Batch:
    """Messages of one listener call, and its result."""

    __slots__ = (
        "_delivery", "context", "cpu", "done", "error", "expired", "messages", "queue", "started", "status", "wall",
        "watched",
    )  # fmt: skip

    def __init__(
        self,
        queue: ProcessQueue,
        messages: list[ReceivedMessage],
        done: Callable[["Batch"], None],
        watched: bool = True,
    ) -> None:
        self.queue = queue
        self.messages = messages
        self.done = done
        self._delivery: Delivery | None = None
        self.started: float | None = None
        self.status: ConsumeStatus | None = None
        self.error: BaseException | None = None
        self.wall = 0.0
        self.cpu: float | None = None
        """CPU seconds of the call; None when they were not measured."""
        self.context: ConsumeContext | None = None
        self.watched = watched
        """Whether hooks see the call."""
        self.expired = False
        """Whether messages of it were sent back because the call took too long."""

    @property
    def delivery(self) -> Delivery:
        """The details that a listener may set."""
        delivery = self._delivery
        if delivery is None:
            delivery = self._delivery = Delivery(self.queue.queue)
        return delivery

    @property
    def acknowledged(self) -> int:
        """On success, how many messages from the first one on succeeded."""
        return len(self.messages) if self._delivery is None else max(0, self._delivery.ack_index + 1)

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
        if not self.count:
            self._none.clear()
        self.count += 1

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
    """Runs a coroutine listener in the loop, up to `size` calls at a time.

    One worker takes batch after batch; another one is woken when batches wait while the listener does.
    """

    def __init__(self, listener: Listener, size: int, clock: Clock, watch: Watch | None) -> None:
        self.size = size
        self._call: Call = listener
        self._takes_delivery = takes_delivery(listener)
        self._clock = clock
        self._watch = watch
        self._waiting: deque[Batch] = deque()
        self._workers: list[asyncio.Task[None]] = []
        self._idle: list[asyncio.Future[None]] = []
        self._waking = False  # whether a worker was woken and did not run yet
        self._open = _Open()

    def submit(self, batch: Batch) -> None:
        """Call the listener as soon as fewer than `size` calls run."""
        self._open.add()
        self._waiting.append(batch)
        if not self._waking:
            self._wake()

    def _wake(self) -> None:
        while self._idle:
            worker = self._idle.pop()
            if not worker.done():
                worker.set_result(None)
                self._waking = True
                return
        if len(self._workers) < self.size:
            self._waking = True
            self._workers.append(asyncio.get_running_loop().create_task(self._work()))  # never fails

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            self._waking = False
            turn_end = self._clock.monotonic() + TURN
            while self._waiting:
                batch = self._waiting.popleft()
                if self._waiting and not self._waking:
                    self._wake()
                if batch.queue.dropped:
                    self._open.finish(batch)
                    continue
                watch = self._watch if batch.watched else None
                batch.started = started = self._clock.monotonic()
                if watch is not None:
                    watch.before(batch)
                try:
                    if self._takes_delivery:
                        batch.answer(await self._call(batch.messages, batch.delivery))
                    else:
                        batch.answer(await self._call(batch.messages))
                except Unfinished:
                    batch.started = None
                except BaseException as error:  # a SystemExit would end the loop and all its clients
                    if is_cancelled():
                        raise
                    batch.error = error
                ended = self._clock.monotonic()
                batch.wall = ended - started
                if watch is not None:
                    watch.after(batch)
                self._open.finish(batch)
                if ended > turn_end:
                    await asyncio.sleep(0)  # let others use the loop
                    turn_end = self._clock.monotonic() + TURN
            woken: asyncio.Future[None] = loop.create_future()
            self._idle.append(woken)
            await woken

    async def close(self, timeout: float) -> None:
        """Let running calls finish; cancel those that take too long."""
        await self._open.wait(timeout)
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)


class ThreadRunner:
    """Runs a listener function in up to `size` threads, started as they are needed.

    What is submitted in one turn of the loop wakes one thread, which takes batch after batch. Batches that still wait
    `PATIENCE` seconds later get a thread each: the listener takes its time.
    """

    def __init__(self, listener: Listener, size: int, clock: Clock, watch: Watch | None, name: str) -> None:
        self.size = size
        self._call: Call = listener
        self._takes_delivery = takes_delivery(listener)
        self._clock = clock
        self._watch = watch
        self._name = name
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[Batch] = deque()
        self._idle: deque[threading.Lock] = deque()  # of each thread without work, the lock that it waits for
        self._waking = False  # whether `_wake_one` is due
        self._closed = False
        self._finished: deque[Batch] = deque()
        self._collecting = False
        self._calls = 0
        self._threads: list[threading.Thread] = []
        self._open = _Open()

    def submit(self, batch: Batch) -> None:
        """Call the listener when a thread is free."""
        self._open.add()
        self._waiting.append(batch)
        if not self._waking:
            self._waking = True
            self._loop.call_soon(self._wake_one)

    def _wake_one(self) -> None:
        self._waking = False
        if self._waiting:
            self._wake(1)
            if len(self._threads) < self.size or self._idle:
                self._loop.call_later(PATIENCE, self._wake_all)

    def _wake_all(self) -> None:
        self._wake(len(self._waiting))

    def _wake(self, count: int) -> None:
        for _ in range(count):
            if self._idle:
                self._idle.popleft().release()
            elif len(self._threads) >= self.size or not self._start_thread():
                break

    def _start_thread(self) -> bool:
        thread = threading.Thread(target=self._work, name=f"{self._name}-{len(self._threads) + 1}", daemon=True)
        try:
            thread.start()
        except RuntimeError as error:
            if not self._threads:
                raise
            log.warning("cannot start another thread, continuing with %d: %s", len(self._threads), error)
            return False
        self._threads.append(thread)
        return True

    def _work(self) -> None:
        woken = threading.Lock()
        woken.acquire()
        while True:
            try:
                batch = self._waiting.popleft()
            except IndexError:
                if self._closed:
                    return
                self._idle.append(woken)
                if self._waiting or self._closed:  # meanwhile: take it, unless another thread was to be woken anyway
                    try:
                        self._idle.remove(woken)
                        continue
                    except ValueError:
                        pass
                woken.acquire()
                continue
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
        self._calls += 1  # a lost count does no harm
        cpu = time.thread_time() if self._calls % SAMPLE == 1 else -1.0
        try:
            if self._takes_delivery:
                batch.answer(self._call(batch.messages, batch.delivery))
            else:
                batch.answer(self._call(batch.messages))
        except BaseException as error:  # a SystemExit too: the thread serves other messages
            batch.error = error
        if cpu >= 0:
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
        self._closed = True
        while self._idle:
            self._idle.popleft().release()


def make_runner(listener: Listener, size: int, clock: Clock, watch: Watch | None, name: str) -> Runner:
    """The runner for a listener."""
    if is_coroutine(listener):
        return CoroutineRunner(listener, size, clock, watch)
    return ThreadRunner(listener, size, clock, watch, name)
