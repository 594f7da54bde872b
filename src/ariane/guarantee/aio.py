"""The guarantee for asyncio; `ariane.guarantee.Guarantee` is the same for plain threads."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import (
    AsyncConnection,
    AsyncEngine,
    AsyncSession,
    AsyncTransaction,
    async_scoped_session,
    async_sessionmaker,
)

from ariane import ClientOptions, ConsumeStatus, Delivery, ReceivedMessage
from ariane.env import Clock, SystemClock
from ariane.errors import GuaranteeError
from ariane.guarantee import idempotence, operate
from ariane.guarantee.async_database import AsyncDatabase
from ariane.guarantee.database import begin_write
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
from ariane.guarantee.tokens import AsyncRedisTokens, AsyncTokens

if TYPE_CHECKING:  # of the extra `app`
    from ariane.app import Context
    from ariane.guarantee.middleware import Listening

Handler = Callable[[ReceivedMessage], Awaitable[object]] | Callable[[ReceivedMessage, AsyncSession], Awaitable[object]]
"""Does a message. With a second parameter it gets the session whose commit also confirms: exactly once."""


class Guarantee:
    """Messages that are neither lost nor done twice, for coroutines.

    `database` is an SQLAlchemy URL with an asyncio driver (`sqlite+aiosqlite`, `postgresql+asyncpg`, `mysql+aiomysql`)
    or an engine, `cache` the URL of a Redis or Valkey (none: the database alone decides), `sessions` makes the sessions
    that handlers get. `resend=False` leaves resending to other processes. Start it with `async with` to send;
    consuming needs no start.
    """

    def __init__(
        self,
        database: str | AsyncEngine,
        *,
        cache: str | None = None,
        name_servers: str | Sequence[str] | None = None,
        client: ClientOptions | None = None,
        sessions: Callable[[], AsyncSession] | None = None,
        resend: bool = True,
        options: GuaranteeOptions | None = None,
        clock: Clock | None = None,
        **keywords: Unpack[GuaranteeKeywords],
    ) -> None:
        self.options = GuaranteeOptions.of(options, keywords)
        self._database = AsyncDatabase(database)
        self._sessions = sessions or async_sessionmaker(self._database.engine, expire_on_commit=False)
        self._tokens: AsyncTokens | None = None if cache is None else AsyncRedisTokens(cache)
        self._client = ClientOptions.of(client, {} if name_servers is None else {"name_servers": name_servers})
        self._clock = clock or SystemClock()
        self._resend = resend
        self._service: Service | None = None
        self._listening: dict[object, Listening] = {}

    @property
    def engine(self) -> AsyncEngine:
        """The engine under it."""
        return self._database.engine

    async def migrate(self) -> None:
        """Create the tables, or bring them up to date."""
        async with self._database.engine.begin() as connection:
            await connection.run_sync(migrate)

    # Sending

    async def stage(
        self,
        session: AsyncSession | async_scoped_session[AsyncSession] | AsyncConnection,
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
        if isinstance(session, async_scoped_session):
            session = session()
        if isinstance(session, AsyncSession):
            await session.run_sync(lambda s: self._write(s.connection(), staged))
            after_commit(session.sync_session, staged, self._deliver)
        else:
            await session.run_sync(self._write, staged)
        return staged.message_id

    async def send(
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
        service = self._running()
        staged = StagedMessage.of(topic, body, tags, keys, properties, hash_key, message_id)
        await self._database.run(lambda connection: self._write(connection, staged))
        await service.sender.send([staged])
        return staged.message_id

    def _write(self, connection: Connection, staged: StagedMessage) -> None:
        now = self._clock.now_ms()
        due = now + int(self.options.next_resend(1) * 1000)
        staged.write(connection, self.options.groups_of(staged.topic), now, due)

    def _deliver(self, messages: list[StagedMessage]) -> None:
        if self._service is not None:  # else the resender of another process sends them
            self._service.sender.deliver(messages)

    # Consuming

    async def process(self, message: ReceivedMessage, handler: Handler, *, group: str | None = None) -> Settlement:
        """Take one delivery through log, token and stub, and call the handler when it is its turn.

        The handler failed when it raises or returns RECONSUME_LATER.
        """
        group = group or self.options.only_group()
        return await self._process(message, handler, group, takes_session(handler), self.options)

    async def _process(
        self,
        message: ReceivedMessage,
        handler: Callable[..., Awaitable[object]],
        group: str,
        joined: bool,
        options: GuaranteeOptions,
    ) -> Settlement:
        steps = idempotence.consume(message, group, options, self._clock.now_ms, joined=joined)
        settled = await _Drive(self._database.engine, self._sessions, self._tokens, handler, message).run(steps)
        idempotence.report(message, settled)
        return settled

    async def __call__(self, context: "Context", call_next: Callable[["Context"], Awaitable[Any]]) -> Any:
        """Stand around a listener of `ariane.app`: `@app.listener("orders", group="billing", guarantee=guarantee)`."""
        from ariane.guarantee.middleware import Calling, Listening

        listening = self._listening.get(context.listener)
        if listening is None:
            listening = self._listening[context.listener] = Listening.of(context, self.options)
        calling = Calling(context, call_next, listening)

        async def handle(message: ReceivedMessage, session: AsyncSession) -> None:
            await calling.call(session)

        settled = await self._process(context.message, handle, listening.group, True, listening.options)
        return calling.answer(settled)

    def listener(
        self, handler: Handler, *, group: str | None = None
    ) -> Callable[[list[ReceivedMessage], Delivery], Awaitable[ConsumeStatus]]:
        """A listener for `aio.PushConsumer` that hands each message to the handler under the guarantee."""
        group = group or self.options.only_group()
        joined = takes_session(handler)

        async def listen(messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus:
            settled = [await self._process(message, handler, group, joined, self.options) for message in messages]
            return idempotence.answer(settled, delivery, self.options)

        return listen

    # Operating

    async def stubs(
        self,
        *,
        status: StubStatus | None = None,
        attention: bool = False,
        topic: str | None = None,
        limit: int = 100,
    ) -> list[Stub]:
        """Stubs, oldest first; `attention`: those that wait for a person."""
        return await self._database.run(
            lambda c: operate.find(c, status=status, attention=attention, topic=topic, limit=limit)
        )

    async def inspect(self, message_id: str, *, group: str | None = None) -> list[Inspection]:
        """All that is known of a message, for each of its groups."""
        return await self._database.run(lambda c: operate.inspect(c, message_id, group))

    async def resend(self, message_id: str, *, who: str, reason: str, group: str | None = None) -> list[str]:
        """Have a message sent again at once by the next resend pass; gives the groups."""
        now = self._clock.now_ms()
        return await self._database.run(lambda c: operate.resend(c, message_id, group, who, reason, now))

    async def void(self, message_id: str, *, who: str, reason: str, group: str | None = None) -> list[str]:
        """Settle a message without doing it; gives the groups."""
        now = self._clock.now_ms()
        return await self._database.run(lambda c: operate.void(c, message_id, group, who, reason, now))

    async def resend_due(self) -> Pass:
        """Make one resend pass now."""
        return await self._running().resender.once()

    async def sweep(self) -> Swept:
        """Delete what is older than `retain` now."""
        return await sweep(self._database, self.options, self._clock)

    # Life

    async def start(self) -> Self:
        """Start sending and resending."""
        if self._service is not None:
            raise GuaranteeError("this guarantee is started already")
        service = Service(self._database, self.options, self._client, self._clock, resend=self._resend)
        await service.start()
        self._service = service
        return self

    async def close(self) -> None:
        """Send what waits, stop, and close what was opened here."""
        service, self._service = self._service, None
        if service is not None:
            await service.close()
        if self._tokens is not None:
            await self._tokens.close()
        await self._database.close()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _running(self) -> Service:
        if self._service is None:
            raise GuaranteeError(
                "this guarantee is not started: use it inside `async with`, or between start() and close()"
            )
        return self._service


class _Drive:
    """Takes the steps of one delivery in a coroutine."""

    def __init__(
        self,
        engine: AsyncEngine,
        sessions: Callable[[], AsyncSession],
        tokens: AsyncTokens | None,
        handler: Callable[..., Awaitable[object]],
        message: ReceivedMessage,
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._tokens = tokens
        self._handler = handler
        self._message = message
        self._connection: AsyncConnection | None = None
        self._transaction: AsyncTransaction | None = None
        self._session: AsyncSession | None = None

    async def run(self, steps: Steps) -> Settlement:
        """All steps; an error of a step is given back to the steps, which may know what to do."""
        try:
            step = next(steps)
            while True:
                try:
                    result = await self._take(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(result)
        except StopIteration as end:
            settled: Settlement = end.value
            return settled
        finally:
            await self._end(commit=False)

    async def _take(self, step: Step) -> Any:
        match step:
            case Query(work):
                assert self._connection is not None
                return await self._connection.run_sync(work)
            case Begin(joined):
                await self._begin(joined)
            case Commit():
                await self._end(commit=True)
            case Rollback():
                await self._end(commit=False)
            case Acquire(key, owner, seconds):
                return None if self._tokens is None else await self._tokens.acquire(key, owner, seconds)
            case Release(key, owner):
                if self._tokens is not None:
                    await self._tokens.release(key, owner)
            case Work():
                if self._session is None:
                    check_answer(await self._handler(self._message))
                else:
                    with commit_is_ours(self._session.sync_session):
                        check_answer(await self._handler(self._message, self._session))
        return None

    async def _begin(self, joined: bool) -> None:
        if joined:
            self._session = self._sessions()
            self._connection = await self._session.connection()
        else:
            self._connection = await self._engine.connect()
            self._transaction = await self._connection.begin()
        await self._connection.run_sync(begin_write)

    async def _end(self, commit: bool) -> None:
        session, connection, transaction = self._session, self._connection, self._transaction
        self._session = self._connection = self._transaction = None
        if session is not None:
            async with session:
                await (session.commit() if commit else session.rollback())
        elif connection is not None:
            try:
                if transaction is not None:
                    await (transaction.commit() if commit else transaction.rollback())
            finally:
                await connection.close()
