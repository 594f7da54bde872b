"""The event loop of clients for threads: one loop a process, in a thread of its own, started at first use."""

import asyncio
import atexit
import concurrent.futures.thread  # noqa: F401 (registers what ends its threads, see below)
import logging
import os
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextvars import Context, copy_context
from typing import Any, ClassVar, Generic, TypeVar

from ariane.client.connect.instance import Instances
from ariane.client.producer.queue_choice import CALLER
from ariane.client.producer.room import Room
from ariane.errors import ForkedClient

log = logging.getLogger("ariane.client")

T = TypeVar("T")
EXIT_PATIENCE = 5.0  # seconds that clients which were not closed get when the interpreter exits


def _new_loop() -> asyncio.AbstractEventLoop:
    """uvloop's where it is installed, asyncio's elsewhere."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class Portal:
    """Runs coroutines in the background loop and waits for them in the caller's thread."""

    _current: ClassVar["Portal | None"] = None
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _of_parents: ClassVar[list["Portal"]] = []

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = _new_loop()
        self._local = threading.local()
        self._calls: deque[_Call[Any]] = deque()
        self._woken = False
        self._thread = threading.Thread(target=self._serve, name="ariane-client", daemon=True)
        self._thread.start()

    @classmethod
    def get(cls) -> "Portal":
        """The portal of this process."""
        with cls._lock:
            if cls._current is None:
                cls._current = cls()
            return cls._current

    @classmethod
    def forget_after_fork(cls) -> None:
        """Start afresh in a forked child, which has the parent's objects but not its threads.

        The parent's loop is kept alive, for closing it would touch sockets that parent and child share.
        """
        if cls._current is not None:
            cls._of_parents.append(cls._current)
        cls._current = None
        cls._lock = threading.Lock()

    @classmethod
    def leave(cls, *, early: bool) -> None:
        """Close, when the interpreter exits, clients that were not closed, within `EXIT_PATIENCE`.

        Pools of threads end with the main thread, so clients that need one are closed early. The others are closed when
        all threads of the program have ended: one of them may still be sending.
        """
        portal = cls._current
        if portal is not None and portal._process == os.getpid():
            portal.run(_close_all(early))

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while True:
            try:
                self._loop.run_forever()
            except BaseException:  # e.g. a SystemExit in a callback, which must not end all clients
                log.exception("a callback raised out of the event loop of the clients, which continues")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end; an interrupted wait cancels it."""
        self._check(work)
        call = _Call(work, self._context())
        self._calls.append(call)
        if not self._woken:  # one wake-up for all calls until the loop runs
            self._woken = True
            self._loop.call_soon_threadsafe(self._spawn)
        try:
            call.gate.acquire()
        except BaseException:  # Ctrl-C, or a test's time limit
            self._loop.call_soon_threadsafe(call.cancel)
            raise
        return call.outcome()

    def _spawn(self) -> None:
        self._woken = False  # first, so that a call from now on wakes the loop again
        calls = self._calls
        while calls:
            call = calls.popleft()
            call.task = self._loop.create_task(call.work, context=call.context)
            call.task.add_done_callback(call.finish)

    def start(self, work: Coroutine[Any, Any, T]) -> "Future[T]":
        """Start a coroutine; returns its future."""
        self._check(work)
        result: Future[T] = Future()
        self._loop.call_soon_threadsafe(self._begin, work, result, context=self._context())
        return result

    def _begin(self, work: Coroutine[Any, Any, T], result: "Future[T]") -> None:
        if not result.set_running_or_notify_cancel():
            work.close()
            return
        task = self._loop.create_task(work)
        task.add_done_callback(lambda done: _hand_over(done, result))

    def call(self, work: Callable[[], T]) -> T:
        """Call a function in the loop's thread."""

        async def called() -> T:
            return work()

        return self.run(called())

    def follow(self, work: Callable[[], "asyncio.Future[T]"]) -> "Future[T]":
        """Call a function that returns a future of the loop; returns one for threads."""

        async def followed() -> T:
            return await work()

        return self.start(followed())

    def follow_in(self, room: Room, size: int, work: Callable[[], "asyncio.Future[T]"], *, wait: bool) -> "Future[T]":
        """Like `follow`, but first enter a room, and leave it when the future is done; BufferFull without `wait`."""
        self.check_caller()
        room.enter_from_thread(size, wait=wait)
        try:
            future = self.follow(work)
        except BaseException:
            room.leave(size)
            raise
        future.add_done_callback(lambda _: room.leave(size))
        return future

    def next(self, iterator: AsyncIterator[T]) -> T:
        """The next item of an asynchronous iterator; StopAsyncIteration at its end."""

        async def step() -> T:
            return await anext(iterator)

        return self.run(step())

    def each(self, iterator: AsyncGenerator[T, None]) -> Iterator[T]:
        """The items of an asynchronous generator; it is closed when the loop over them breaks off."""
        try:
            while True:
                try:
                    item = self.next(iterator)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            self.finish(iterator)

    def finish(self, iterator: AsyncGenerator[T, None]) -> None:
        """Close an asynchronous generator."""

        async def close() -> None:
            await iterator.aclose()

        self.run(close())

    def _context(self) -> Context:
        """A context in which the caller is known: each thread takes its own turns among queues."""
        context: Context | None = getattr(self._local, "context", None)
        if context is None:
            context = copy_context()
            context.run(CALLER.set, threading.get_ident())
            self._local.context = context
        return context.copy()

    def _check(self, work: Coroutine[Any, Any, T]) -> None:
        try:
            self.check_caller()
        except BaseException:
            work.close()
            raise

    def check_caller(self) -> None:
        """Raise ForkedClient in a forked child, RuntimeError in the loop's own thread: it would wait for itself."""
        if self._process != os.getpid():
            raise ForkedClient(
                f"this client was made in process {self._process}, which forked: make a new one in the child "
                "(its options can be taken over)"
            )
        if threading.get_ident() == self._thread.ident:
            raise RuntimeError("a client for threads was called from a coroutine of its own loop: use ariane.aio there")


class _Call(Generic[T]):
    """A coroutine that a thread waits for. A lock is the cheapest thing to wait on."""

    __slots__ = ("context", "gate", "task", "work")

    def __init__(self, work: Coroutine[Any, Any, T], context: Context) -> None:
        self.context = context
        self.gate = threading.Lock()
        self.gate.acquire()
        self.task: asyncio.Task[T] | None = None
        self.work = work

    def finish(self, _: object) -> None:
        """Wake the waiting thread."""
        self.gate.release()

    def cancel(self) -> None:
        """Cancel the coroutine: its caller was interrupted."""
        if self.task is not None:
            self.task.cancel()

    def outcome(self) -> T:
        """The result, or the error."""
        assert self.task is not None
        task, self.task = self.task, None  # break the cycle of an error and its frames
        return task.result()


async def _close_all(early: bool) -> None:
    clients = [client for client in Instances.here().clients if client.needs_threads or not early]
    leaving = [asyncio.ensure_future(client.close()) for client in clients]
    if not leaving:
        return
    _, late = await asyncio.wait(leaving, timeout=EXIT_PATIENCE)
    for client, task in zip(clients, leaving, strict=True):
        if task in late or task.exception() is not None:
            log.warning("%r was not closed, and could not be closed in time at exit: use `with`", client)


def _hand_over(task: "asyncio.Task[T]", result: "Future[T]") -> None:
    if task.cancelled():
        result.cancel()
        if not result.cancelled():
            result.set_exception(asyncio.CancelledError())
        return
    error = task.exception()
    if error is not None:
        result.set_exception(error)
    else:
        result.set_result(task.result())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=Portal.forget_after_fork)
atexit.register(Portal.leave, early=False)
# Called last in, first out: before the pools' own function, which their import registered.
_before_pools_end = getattr(threading, "_register_atexit", atexit.register)
_before_pools_end(Portal.leave, early=True)
