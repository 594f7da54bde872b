"""The template: every way to send a payload, with RocketMQTemplate's abilities in Python's habits."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, Unpack, overload

from ariane import Message, ReceivedMessage, SendResult, TransactionResult
from ariane.app.clients import Callback, SendingClient, TransactionClient
from ariane.app.errors import AppError, NotStarted
from ariane.app.payload import Payloads
from ariane.app.send.outgoing import MessageKeywords, PlaceKeywords, SendKeywords, build_message
from ariane.client.producer.queue_choice import by_hash

T = TypeVar("T")
SendNext = Callable[[Message], Awaitable[Any]]
SendMiddleware = Callable[[Message, SendNext], Awaitable[Any]]
"""`async def middleware(message, call_next)`: may change the message, must return what `call_next` gives."""

_PLACE = frozenset(PlaceKeywords.__optional_keys__)


class Template:
    """Sends payloads to destinations (`topic` or `topic:tag`) of one cluster."""

    def __init__(self, cluster: str | None, payloads: Payloads, send_middlewares: list[SendMiddleware]) -> None:
        self._cluster = cluster
        self._payloads = payloads
        self._send_middlewares = send_middlewares
        self._producer: SendingClient | None = None
        self._transaction_producers: dict[str, TransactionClient] = {}

    @property
    def producer(self) -> SendingClient:
        """The client itself, for what the template has no method for."""
        if self._producer is None:
            raise NotStarted
        return self._producer

    def check_running(self) -> None:
        """Raise NotStarted unless the application runs."""
        if self._producer is None:
            raise NotStarted

    async def send(self, destination: str, payload: Any, **keywords: Unpack[SendKeywords]) -> SendResult:
        """Send and wait until the message is stored."""
        producer = self.producer
        message, place = self._build(destination, payload, keywords)
        if not self._send_middlewares:
            return await producer.send(message, **place)
        result: SendResult = await self._around(message, lambda given: producer.send(given, **place))
        return result

    def send_async(
        self, destination: str, payload: Any, callback: Callback | None = None, **keywords: Unpack[SendKeywords]
    ) -> "asyncio.Future[SendResult]":
        """Send without waiting; the future has the result, and `callback(result, error)` is called when it is there."""
        producer = self.producer
        message, place = self._build(destination, payload, keywords)
        if not self._send_middlewares:
            return producer.submit(message, callback=callback, **place)

        async def submit(given: Message) -> SendResult:
            return await producer.submit(given, callback=callback, **place)

        return asyncio.ensure_future(self._around(message, submit))

    async def send_oneway(self, destination: str, payload: Any, **keywords: Unpack[SendKeywords]) -> None:
        """Send without waiting for a response: the fastest way, without confirmation that the message was stored."""
        producer = self.producer
        message, place = self._build(destination, payload, keywords)
        if "timeout" in place:
            raise AppError("send_oneway waits for nothing: leave timeout out")
        await self._around(message, lambda given: producer.send_oneway(given, **place))

    async def send_batch(
        self, destination: str, payloads: Iterable[Any], **keywords: Unpack[SendKeywords]
    ) -> list[SendResult]:
        """Send payloads (or `Envelope`s) of one destination together; with `hash_key` all to one queue."""
        producer = self.producer
        messages = []
        place: dict[str, Any] = {}
        for payload in payloads:
            message, place = self._build(destination, payload, keywords)
            messages.append(message)
        if not messages:
            return []
        hash_key, selector = place.pop("hash_key", None), place.pop("selector", None)
        if hash_key is not None or selector is not None:
            choose = selector or by_hash(hash_key)
            place["queue"] = choose(await producer.queues(messages[0].topic), messages[0])
        for number, message in enumerate(messages):
            messages[number] = await self._changed(message)
        return await producer.send_batch(messages, **place)

    @overload
    async def request(self, destination: str, payload: Any, reply: type[T], **keywords: Unpack[SendKeywords]) -> T: ...

    @overload
    async def request(
        self, destination: str, payload: Any, reply: None = None, **keywords: Unpack[SendKeywords]
    ) -> ReceivedMessage: ...

    async def request(self, destination: str, payload: Any, reply: Any = None, **keywords: Unpack[SendKeywords]) -> Any:
        """Send a request and wait for its reply, decoded as `reply`; ReplyTimeout when none comes in time."""
        producer = self.producer
        message, place = self._build(destination, payload, keywords)
        received: ReceivedMessage = await self._around(message, lambda given: producer.request(given, **place))
        if reply is None or reply is ReceivedMessage:
            return received
        return self._payloads.decoder(reply)(received.body, received.properties)

    def request_async(
        self,
        destination: str,
        payload: Any,
        reply: Any = None,
        callback: Callable[[Any, Exception | None], None] | None = None,
        **keywords: Unpack[SendKeywords],
    ) -> "asyncio.Future[Any]":
        """Like `request`, without waiting; `callback(reply, error)` is called when it is there."""
        future: asyncio.Future[Any] = asyncio.ensure_future(self.request(destination, payload, reply, **keywords))
        if callback is not None:
            future.add_done_callback(lambda done: _tell(done, callback))
        return future

    async def send_in_transaction(
        self, destination: str, payload: Any, arg: Any = None, *, group: str | None = None,
        **keywords: Unpack[MessageKeywords],
    ) -> TransactionResult:  # fmt: skip
        """Send a message that becomes visible when the local transaction of `group`'s listener commits."""
        self.check_running()
        producer = self._transaction_producer(group)
        message = build_message(self._payloads, destination, payload, keywords)
        result: TransactionResult = await self._around(
            message, lambda given: producer.send_in_transaction(given, (payload, arg))
        )
        return result

    def _transaction_producer(self, group: str | None) -> TransactionClient:
        known = self._transaction_producers
        if not known:
            raise AppError("there is no transaction listener: decorate one with @app.transaction_listener('group')")
        if group is None and len(known) > 1:
            raise AppError(f"there are several transaction listeners: say group= one of {', '.join(sorted(known))}")
        if group is not None and group not in known:
            raise AppError(f"there is no transaction listener {group!r}: there are {', '.join(sorted(known))}")
        return known[group] if group is not None else next(iter(known.values()))

    def _build(self, destination: str, payload: Any, keywords: SendKeywords) -> tuple[Message, dict[str, Any]]:
        if not keywords:
            return build_message(self._payloads, destination, payload), {}
        place = {name: value for name, value in keywords.items() if name in _PLACE}
        return build_message(self._payloads, destination, payload, keywords), place

    async def _around(self, message: Message, send: SendNext) -> Any:
        """Run the middlewares, the first registered outermost."""
        for middleware in reversed(self._send_middlewares):
            send = _step(middleware, send)
        return await send(message)

    async def _changed(self, message: Message) -> Message:
        """A message of a batch as the middlewares leave it."""

        async def keep(given: Message) -> Message:
            nonlocal message
            message = given
            return given

        await self._around(message, keep)
        return message


def _step(middleware: SendMiddleware, send: SendNext) -> SendNext:
    return lambda message: middleware(message, send)


def _tell(done: "asyncio.Future[Any]", callback: Callable[[Any, Exception | None], None]) -> None:
    if done.cancelled():
        return
    error = done.exception()
    if error is None:
        callback(done.result(), None)
    elif isinstance(error, Exception):
        callback(None, error)
