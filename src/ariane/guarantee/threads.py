"""The guarantee for plain threads; `ariane.guarantee.aio` has it for asyncio."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from sqlalchemy import Connection, Engine
from sqlalchemy.engine import Transaction
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from ariane import ClientOptions, ConsumeStatus, Delivery, ReceivedMessage
from ariane.env import Clock, SystemClock
from ariane.errors import GuaranteeError
from ariane.guarantee import idempotence, operate
from ariane.guarantee.database import ThreadDatabase, begin_write
from ariane.guarantee.idempotence import (
    Acquire,
    Begin,
    Commit,
    Query,
    Release,
    Rollback,
    Settlement,
    Step,
    Steps,
    Work,
    check_answer,
)
from ariane.guarantee.migrations import migrate
from ariane.guarantee.operate import Inspection
from ariane.guarantee.options import GuaranteeKeywords, GuaranteeOptions
from ariane.guarantee.outbox import StagedMessage, after_commit, commit_is_ours, takes_session
from ariane.guarantee.resend import Pass
from ariane.guarantee.retention import Swept, sweep
from ariane.guarantee.service import Service
from ariane.guarantee.stub import Stub
from ariane.guarantee.tables import StubStatus
from ariane.guarantee.tokens import RedisTokens, Tokens

if TYPE_CHECKING:  # of the extra `app`
    from ariane.app import Context
    from ariane.guarantee.middleware import Listening

T = TypeVar("T")
MOST_THREADS = 64
Handler = Callable[[ReceivedMessage], object] | Callable[[ReceivedMessage, Session], object]
"""Does a message. With a second parameter it gets the session whose commit also confirms: exactly once."""


class Guarantee:
    """Messages that are neither lost nor done twice.

    `database` is an SQLAlchemy URL or engine, `cache` the URL of a Redis or Valkey (none: the database alone decides),
    `sessions` makes the sessions that handlers get. `resend=False` leaves resending to other processes. Start it with
    `with` to send; consuming needs no start.

    >>> guarantee = Guarantee("sqlite:///shop.db", consumers={"orders": "billing"})
    >>> guarantee.options.groups_of("orders")
    ('billing',)
    """

    def __init__(
        self,
        database: str | Engine,
        *,
        cache: str | None = None,
        name_servers: str | Sequence[str] | None = None,
        client: ClientOptions | None = None,
        sessions: Callable[[], Session] | None = None,
        resend: bool = True,
        options: GuaranteeOptions | None = None,
        clock: Clock | None = None,
        **keywords: Unpack[GuaranteeKeywords],
    ) -> None:
        self.options = GuaranteeOptions.of(options, keywords)
        self._database = ThreadDatabase(database)
        self._sessions = sessions or sessionmaker(self._database.engine)
        self._tokens: Tokens | None = None if cache is None else RedisTokens(cache)
        changes = {} if name_servers is None else {"name_servers": name_servers}
        self._client = ClientOptions.of(client, changes)
        self._clock = clock or SystemClock()
        self._resend = resend
        self._service: Service | None = None
        self._thread: _LoopThread | None = None
        self._pool: ThreadPoolExecutor | None = None
        self._listening: dict[object, Listening] = {}

    @property
    def engine(self) -> Engine:
        """The engine under it."""
        return self._database.engine

    def migrate(self) -> None:
        """Create the tables, or bring them up to date."""
        with self._database.engine.begin() as connection:
            migrate(connection)

    # Sending

    def stage(
        self,
        session: Session | scoped_session[Session] | Connection,
        topic: str,
        body: object,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        hash_key: str | int | None = None,
        message_id: str | None = None,
    ) -> str:
        """Write the stub in the session's transaction, and send the message after its commit; gives the message id.

        `body` is bytes, text, or anything that msgspec writes as JSON. With a connection instead of a session the
        resender sends it.
        """
        staged = StagedMessage.of(topic, body, tags, keys, properties, hash_key, message_id)
        if isinstance(session, scoped_session):
            session = session()
        connection = session.connection() if isinstance(session, Session) else session
        self._write(connection, staged)
        if isinstance(session, Session):
            after_commit(session, staged, self._deliver)
        return staged.message_id

    def send(
        self,
        topic: str,
        body: object,
        *,
        tags: str | None = None,
        keys: str | Iterable[str] | None = None,
        properties: Mapping[str, str] | None = None,
        hash_key: str | int | None = None,
        message_id: str | None = None,
    ) -> str:
        """Commit a stub, then send, and wait for both; gives the message id.

        When no broker takes the message this returns all the same: the stub is safe, and the resender goes on.
        """
        thread, service = self._running()
        staged = StagedMessage.of(topic, body, tags, keys, properties, hash_key, message_id)
        self._database.transact(lambda connection: self._write(connection, staged))
        thread.run(service.sender.send([staged]))
        return staged.message_id

    def _write(self, connection: Connection, staged: StagedMessage) -> None:
        now = self._clock.now_ms()
        due = now + int(self.options.next_resend(1) * 1000)
        staged.write(connection, self.options.groups_of(staged.topic), now, due)

    def _deliver(self, messages: list[StagedMessage]) -> None:
        thread, service = self._thread, self._service
        if thread is not None and service is not None:  # else the resender of another process sends them
            thread.call_soon(service.sender.deliver, messages)

    # Consuming

    def process(self, message: ReceivedMessage, handler: Handler, *, group: str | None = None) -> Settlement:
        """Take one delivery through log, token and stub, and call the handler when it is its turn.

        The handler failed when it raises or returns RECONSUME_LATER.
        """
        group = group or self.options.only_group()
        return self._process(message, handler, group, takes_session(handler), self.options)

    def _process(
        self,
        message: ReceivedMessage,
        handler: Callable[..., object],
        group: str,
        joined: bool,
        options: GuaranteeOptions,
    ) -> Settlement:
        steps = idempotence.consume(message, group, options, self._clock.now_ms, joined=joined)
        settled = _Drive(self._database.engine, self._sessions, self._tokens, handler, message).run(steps)
        idempotence.report(message, settled)
        return settled

    async def __call__(self, context: "Context", call_next: Callable[["Context"], Awaitable[Any]]) -> Any:
        """Stand around a listener of `ariane.app`: `@app.listener("orders", group="billing", guarantee=guarantee)`.

        The database's driver is one for threads, so each delivery takes one while it is handled.
        """
        from ariane.guarantee.middleware import Calling, Listening

        listening = self._listening.get(context.listener)
        if listening is None:
            listening = self._listening[context.listener] = Listening.of(context, self.options)
        calling = Calling(context, call_next, listening)
        loop = asyncio.get_running_loop()

        def handle(message: ReceivedMessage, session: Session) -> None:
            asyncio.run_coroutine_threadsafe(calling.call(session), loop).result()

        if self._pool is None:
            self._pool = ThreadPoolExecutor(MOST_THREADS, thread_name_prefix="ariane-guarantee")
        process = partial(self._process, context.message, handle, listening.group, True, listening.options)
        settled: Settlement = await loop.run_in_executor(self._pool, copy_context().run, process)
        return calling.answer(settled)

    def listener(
        self, handler: Handler, *, group: str | None = None
    ) -> Callable[[list[ReceivedMessage], Delivery], ConsumeStatus]:
        """A listener for `PushConsumer` that hands each message to the handler under the guarantee."""
        group = group or self.options.only_group()
        joined = takes_session(handler)

        def listen(messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus:
            settled = [self._process(message, handler, group, joined, self.options) for message in messages]
            return idempotence.answer(settled, delivery, self.options)

        return listen

    # Operating

    def stubs(
        self,
        *,
        status: StubStatus | None = None,
        attention: bool = False,
        topic: str | None = None,
        limit: int = 100,
    ) -> list[Stub]:
        """Stubs, oldest first; `attention`: those that wait for a person."""
        return self._database.transact(
            lambda c: operate.find(c, status=status, attention=attention, topic=topic, limit=limit)
        )

    def inspect(self, message_id: str, *, group: str | None = None) -> list[Inspection]:
        """All that is known of a message, for each of its groups."""
        return self._database.transact(lambda c: operate.inspect(c, message_id, group))

    def resend(self, message_id: str, *, who: str, reason: str, group: str | None = None) -> list[str]:
        """Have a message sent again at once by the next resend pass; gives the groups."""
        now = self._clock.now_ms()
        return self._database.transact(lambda c: operate.resend(c, message_id, group, who, reason, now))

    def void(self, message_id: str, *, who: str, reason: str, group: str | None = None) -> list[str]:
        """Settle a message without doing it; gives the groups."""
        now = self._clock.now_ms()
        return self._database.transact(lambda c: operate.void(c, message_id, group, who, reason, now))

    def resend_due(self) -> Pass:
        """Make one resend pass now."""
        thread, service = self._running()
        return thread.run(service.resender.once())

    def sweep(self) -> Swept:
        """Delete what is older than `retain` now."""
        thread = _LoopThread()  # the caller's thread may have a loop that runs
        try:
            return thread.run(sweep(self._database, self.options, self._clock))
        finally:
            thread.close()

    # Life

    def start(self) -> Self:
        """Start sending and resending."""
        if self._thread is not None:
            raise GuaranteeError("this guarantee is started already")
        thread = _LoopThread()
        try:
            service = thread.run(self._open())
        except BaseException:
            thread.close()
            raise
        self._thread, self._service = thread, service
        return self

    async def _open(self) -> Service:
        service = Service(self._database, self.options, self._client, self._clock, resend=self._resend)
        await service.start()
        return service

    def close(self) -> None:
        """Send what waits, stop, and close what was opened here."""
        thread, service = self._thread, self._service
        self._thread = self._service = None
        if thread is not None and service is not None:
            try:
                thread.run(service.close())
            finally:
                thread.close()
        if self._pool is not None:
            self._pool.shutdown()
        if self._tokens is not None:
            self._tokens.close()
        self._database.dispose()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _running(self) -> tuple["_LoopThread", Service]:
        if self._thread is None or self._service is None:
            raise GuaranteeError("this guarantee is not started: use it inside `with`, or between start() and close()")
        return self._thread, self._service


class _Drive:
    """Takes the steps of one delivery in the calling thread."""

    def __init__(
        self,
        engine: Engine,
        sessions: Callable[[], Session],
        tokens: Tokens | None,
        handler: Callable[..., object],
        message: ReceivedMessage,
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._tokens = tokens
        self._handler = handler
        self._message = message
        self._connection: Connection | None = None
        self._transaction: Transaction | None = None
        self._session: Session | None = None

    def run(self, steps: Steps) -> Settlement:
        """All steps; an error of a step is given back to the steps, which may know what to do."""
        try:
            step = next(steps)
            while True:
                try:
                    result = self._take(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            settled: Settlement = end.value
            return settled
        finally:
            self._end(commit=False)

    def _take(self, step: Step) -> Any:
        match step:
            case Query(work):
                assert self._connection is not None
                return work(self._connection)
            case Begin(joined):
                self._begin(joined)
            case Commit():
                self._end(commit=True)
            case Rollback():
                self._end(commit=False)
            case Acquire(key, owner, seconds):
                return None if self._tokens is None else self._tokens.acquire(key, owner, seconds)
            case Release(key, owner):
                if self._tokens is not None:
                    self._tokens.release(key, owner)
            case Work():
                if self._session is None:
                    check_answer(self._handler(self._message))
                else:
                    with commit_is_ours(self._session):
                        check_answer(self._handler(self._message, self._session))
        return None

    def _begin(self, joined: bool) -> None:
        if joined:
            self._session = self._sessions()
            self._connection = self._session.connection()
        else:
            self._connection = self._engine.connect()
            self._transaction = self._connection.begin()
        begin_write(self._connection)

    def _end(self, commit: bool) -> None:
        session, connection, transaction = self._session, self._connection, self._transaction
        self._session = self._connection = self._transaction = None
        if session is not None:
            with session:
                session.commit() if commit else session.rollback()
        elif connection is not None:
            with connection:
                if transaction is not None:
                    transaction.commit() if commit else transaction.rollback()


class _LoopThread:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ariane-guarantee", daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def call_soon(self, function: Callable[..., object], *arguments: object) -> None:
        with suppress(RuntimeError):  # closed meanwhile
            self._loop.call_soon_threadsafe(function, *arguments)

    def close(self) -> None:
        self.run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
