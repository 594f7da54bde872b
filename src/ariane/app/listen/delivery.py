"""From a delivery to a call of the listener's function, and from its result to an answer for the broker."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from time import perf_counter
from typing import Any, Final

from ariane import ConsumeStatus, Delivery, ReceivedMessage
from ariane.app.clients import ENDLESS_TRIES, Deliver
from ariane.app.errors import InvalidPayload
from ariane.app.listen.arguments import call_in_loop, call_plain, payload_reader
from ariane.app.listen.context import Context, DeadLetter, Retry, current
from ariane.app.listen.listener import HandleMiddleware, Listener, Next
from ariane.app.listen.telemetry import note_failure
from ariane.app.runtime import Runtime
from ariane.app.settings import ListenerSettings
from ariane.errors import ArianeError
from ariane.message import CORRELATION_ID

log = logging.getLogger("ariane.app")

DEAD: Final = -1  # the delay level that means: straight to the dead letters


class Handling:
    """One listener at work."""

    def __init__(
        self,
        app: Runtime,
        listener: Listener[..., Any],
        settings: ListenerSettings,
        middlewares: Sequence[HandleMiddleware] = (),
    ) -> None:
        self._app = app
        self._listener = listener
        self._settings = settings
        self._figures = listener.figures
        self._call = listener.call
        self._read = payload_reader(listener.call, app.payloads)
        self._again = (
            ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT if settings.orderly else ConsumeStatus.RECONSUME_LATER
        )
        self._threads: ThreadPoolExecutor | None = None
        inner = (*middlewares, *listener.middlewares)
        if listener.guarantee is not None:
            inner = (*inner, listener.guarantee)
        self._handle = _chain(inner, self._call_function)
        self.needs_loop = bool(inner or listener.publications or settings.reply or self._call.needs_loop)
        if self.needs_loop and not self._call.is_coroutine:
            self._threads = ThreadPoolExecutor(settings.concurrency, thread_name_prefix=f"ariane-{listener.name}")

    @property
    def deliver(self) -> Deliver:
        """What the consumer calls: a coroutine function, or a plain one that runs in the consumer's threads."""
        return self.in_loop if self.needs_loop else self.in_thread

    def close(self) -> None:
        """The consumer is closed: no delivery will come."""
        if self._threads is not None:
            self._threads.shutdown(wait=False)

    def in_thread(self, messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus:
        """Handle messages with a plain function, in the caller's thread."""
        wanted = self._wanted(messages)
        if not wanted:
            return ConsumeStatus.CONSUME_SUCCESS
        context = Context(self._app, self._listener, wanted, delivery)
        figures, started, handled = self._figures, perf_counter(), 0
        figures.under_way.add(context)
        token = current.set(context)
        try:
            if not self._prepare(context):
                status = ConsumeStatus.CONSUME_SUCCESS
            else:
                status = self._judge(context, call_plain(self._call, context))
        except Exception as error:
            status = self._fail(context, error)
        try:
            handled = self._settle(context, status, messages, delivery)
            if context.invalid and self._listener.invalid_handler is not None:
                self._tell_invalid_plainly(context)
            return status
        finally:
            current.reset(token)
            figures.under_way.discard(context)
            figures.end(perf_counter() - started, handled)

    async def in_loop(self, messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus:
        """Handle messages in the event loop."""
        wanted = self._wanted(messages)
        if not wanted:
            return ConsumeStatus.CONSUME_SUCCESS
        context = Context(self._app, self._listener, wanted, delivery)
        figures, started, handled = self._figures, perf_counter(), 0
        figures.under_way.add(context)
        token = current.set(context)
        try:
            try:
                result = await self._handle(context)
                status = self._judge(context, result)
                if result is not None and status is ConsumeStatus.CONSUME_SUCCESS:
                    await self._pass_on(context, result)
            except Exception as error:
                status = self._fail(context, error)
            handled = self._settle(context, status, messages, delivery)
            if context.invalid and self._listener.invalid_handler is not None:
                await self._tell_invalid(context)
            return status
        finally:
            current.reset(token)
            figures.under_way.discard(context)
            figures.end(perf_counter() - started, handled)

    async def _call_function(self, context: Context) -> Any:
        if not self._prepare(context):
            return None
        return await call_in_loop(self._call, context, None if self._threads is None else self._in_pool)

    async def _in_pool(self, function: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        run = copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: run(function, **arguments))

    def _prepare(self, context: Context) -> bool:
        """Decode the payload; False when all messages of a batch are invalid and were told so."""
        if self._read is not None:
            self._read(context)
            if context.invalid:
                self._figures.count(invalid=len(context.invalid))
                self._log("got invalid messages in a batch", context, context.invalid[0][1])
                if self._settings.orderly and not self._passes_invalid:
                    raise Retry("the queue must not go on without its invalid messages")
                if not context.messages:
                    return False
        if self._listener.is_recorded:
            self._listener.note_payload(context)
        return True

    def _wanted(self, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """The messages that pass the listener's own filter."""
        wanted = self._listener.filter
        return messages if wanted is None else [message for message in messages if wanted(message)]

    @property
    def _passes_invalid(self) -> bool:
        """Whether an invalid message counts as consumed."""
        return self._listener.invalid_handler is not None or self._settings.on_invalid == "skip"

    def _settle(
        self, context: Context, status: ConsumeStatus, messages: list[ReceivedMessage], delivery: Delivery
    ) -> int:
        """Say which messages of a consumed batch come again all the same; gives the number of those handled."""
        if status is not ConsumeStatus.CONSUME_SUCCESS:
            return 0
        count = len(context.messages)
        if not context.invalid and context.acked is None:
            return count
        refused = [message for message, _ in context.invalid]
        unfinished = [] if context.acked is None else context.messages[context.acked :]
        again = unfinished if self._passes_invalid else [*unfinished, *refused]
        if again:
            # The broker takes back the messages after the index, so these move to the end. Order does not matter here.
            fate = {id(message) for message in again}
            messages[:] = [message for message in messages if id(message) not in fate] + again
            delivery.ack_index = len(messages) - len(again) - 1
            dead = self._settings.on_invalid == "dead_letter" and not unfinished
            if dead:
                delivery.delay_level = DEAD
            self._figures.count(retried=0 if dead else len(again), dead_lettered=len(again) if dead else 0)
        return count - len(unfinished)

    # -- what became of it ---------------------------------------------------------------------------------------------

    def _judge(self, context: Context, result: Any) -> ConsumeStatus:
        """A returned Retry or DeadLetter counts as if it were raised."""
        if isinstance(result, Retry | DeadLetter):
            return self._fail(context, result)
        return ConsumeStatus.CONSUME_SUCCESS

    def _fail(self, context: Context, error: Exception) -> ConsumeStatus:
        """Log, count, and say when the message comes again."""
        figures, count = self._figures, len(context.messages)
        if isinstance(error, InvalidPayload):
            figures.count(invalid=count)
            if self._passes_invalid:
                self._log("passes over an invalid message", context, error)
                context.invalid = [(message, error) for message in context.messages]
                context.messages = []
                return ConsumeStatus.CONSUME_SUCCESS
            if self._settings.on_invalid == "dead_letter":
                return self._bury(context, error)
            figures.count(retried=count)
            return self._come_again(context, error, None)
        if isinstance(error, DeadLetter):
            return self._bury(context, error)
        if isinstance(error, Retry):
            figures.count(retried=count)
            return self._come_again(context, error, error.delay_level)
        figures.count(failed=count, retried=count)
        note_failure(error)
        return self._come_again(context, error, None)

    def _come_again(self, context: Context, error: Exception, level: int | None) -> ConsumeStatus:
        levels = self._settings.retry_delay
        if level is None and levels:
            level = levels[min(context.reconsume_times, len(levels) - 1)]
        if level is not None:
            context.delay_level = level
        self._log("failed; the message will come again", context, error)
        return self._again

    def _bury(self, context: Context, error: Exception) -> ConsumeStatus:
        self._figures.count(dead_lettered=len(context.messages))
        self._log("failed; the message goes to the dead letters", context, error)
        context.delay_level = DEAD
        if self._settings.orderly:
            for message in context.messages:
                message.reconsume_times = ENDLESS_TRIES  # the consumer then gives it up
        return self._again

    def _log(self, text: str, context: Context, error: Exception) -> None:
        message = context.message
        expected = isinstance(error, Retry | DeadLetter | InvalidPayload)
        log.warning(
            "listener %s %s: %s (message %s of %s, try %d)",
            self._listener.name, text, error, message.message_id, message.topic, message.reconsume_times + 1,
            exc_info=None if expected else error,
            extra=log_fields(context),
        )  # fmt: skip

    async def _tell_invalid(self, context: Context) -> None:
        assert self._listener.invalid_handler is not None
        for message, error in context.invalid:
            answer = self._listener.invalid_handler(message, error)
            if inspect.isawaitable(answer):
                await answer

    def _tell_invalid_plainly(self, context: Context) -> None:
        assert self._listener.invalid_handler is not None
        for message, error in context.invalid:
            answer = self._listener.invalid_handler(message, error)
            if inspect.isawaitable(answer):
                asyncio.run_coroutine_threadsafe(_awaited(answer), self._app.loop).result()

    # -- results ---------------------------------------------------------------------------------------------------

    async def _pass_on(self, context: Context, result: Any) -> None:
        """Send the result where it belongs. A failed publication fails the delivery, a failed reply does not."""
        for publication in self._listener.publications:
            template = self._app.cluster(publication.cluster)
            await template.send(publication.destination, result, **publication.keywords_for(result))
        if self._settings.reply and CORRELATION_ID in context.headers:
            body, _ = self._app.payloads.encode(result)
            producer = self._app.cluster(self._settings.cluster).producer
            try:
                await producer.reply(context.message, body, timeout=self._settings.reply_timeout)
            except ArianeError as error:
                self._log("could not reply", context, error)


def log_fields(context: Context) -> dict[str, Any]:
    """What every log line about a delivery carries."""
    message = context.message
    return {
        "listener": context.listener.name,
        "topic": message.topic,
        "message_id": message.message_id,
        "message_keys": message.keys,
        "reconsume_times": message.reconsume_times,
    }


def _chain(middlewares: tuple[HandleMiddleware, ...], last: Next) -> Next:
    for middleware in reversed(middlewares):
        last = _step(middleware, last)
    return last


def _step(middleware: HandleMiddleware, call_next: Next) -> Next:
    return lambda context: middleware(context, call_next)


async def _awaited(answer: Awaitable[Any]) -> Any:
    return await answer
