"""The application for plain code: the same methods, which wait instead of being awaited."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from ariane import ReceivedMessage, SendResult, TransactionResult
from ariane.app.clients import Callback
from ariane.app.errors import AppError
from ariane.app.loop_thread import LoopThread
from ariane.app.runtime import Runtime
from ariane.app.send.outgoing import MessageKeywords, SendKeywords

T = TypeVar("T")


class SyncApp:
    """`app.sync`: call it from threads, inside `with app.sync:` or while the application runs in an event loop."""

    def __init__(self, app: Runtime) -> None:
        self._app = app
        self._thread: LoopThread | None = None

    def __enter__(self) -> Self:
        """Start the application in a thread of its own."""
        if self._thread is not None:
            raise AppError("the application is running already")
        self._thread = LoopThread("ariane-app")
        try:
            self._thread.run(self._app.start())
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        try:
            self._thread.run(self._app.stop())
        finally:
            self._end()

    def _end(self) -> None:
        assert self._thread is not None
        self._thread.close()
        self._thread = None

    def send(self, destination: str, payload: Any, **keywords: Unpack[SendKeywords]) -> SendResult:
        """Send and wait until the message is stored."""
        return self._run(lambda: self._app.send(destination, payload, **keywords))

    def send_async(
        self, destination: str, payload: Any, callback: Callback | None = None, **keywords: Unpack[SendKeywords]
    ) -> "Future[SendResult]":
        """Send without waiting; `callback(result, error)` is called in the application's thread."""

        async def follow() -> SendResult:
            return await self._app.send_async(destination, payload, callback, **keywords)

        return asyncio.run_coroutine_threadsafe(follow(), self._app.loop)

    def send_oneway(self, destination: str, payload: Any, **keywords: Unpack[SendKeywords]) -> None:
        """Send without an answer."""
        self._run(lambda: self._app.send_oneway(destination, payload, **keywords))

    def send_batch(
        self, destination: str, payloads: Iterable[Any], **keywords: Unpack[SendKeywords]
    ) -> list[SendResult]:
        """Send payloads of one destination together."""
        return self._run(lambda: self._app.send_batch(destination, payloads, **keywords))

    @overload
    def request(self, destination: str, payload: Any, reply: type[T], **keywords: Unpack[SendKeywords]) -> T: ...

    @overload
    def request(
        self, destination: str, payload: Any, reply: None = None, **keywords: Unpack[SendKeywords]
    ) -> ReceivedMessage: ...

    def request(self, destination: str, payload: Any, reply: Any = None, **keywords: Unpack[SendKeywords]) -> Any:
        """Send a request and wait for its reply."""
        return self._run(lambda: self._app.request(destination, payload, reply, **keywords))

    def send_in_transaction(
        self, destination: str, payload: Any, arg: Any = None, *, group: str | None = None,
        **keywords: Unpack[MessageKeywords],
    ) -> TransactionResult:  # fmt: skip
        """Send a message that becomes visible when the local transaction commits."""
        return self._run(lambda: self._app.send_in_transaction(destination, payload, arg, group=group, **keywords))

    def receive(self, kind: type[T], timeout: float = 5.0) -> list[T]:
        """The next payloads of the pull consumer."""
        return self._run(lambda: self._app.receive(kind, timeout))

    def _run(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        loop = self._app.loop
        if asyncio._get_running_loop() is loop:
            raise AppError("app.sync would wait for itself here: await the application's own method instead")
        future = asyncio.run_coroutine_threadsafe(work(), loop)
        try:
            return future.result()
        except BaseException:  # Ctrl-C, or a test's time limit
            future.cancel()
            raise
