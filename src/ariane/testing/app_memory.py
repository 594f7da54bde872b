"""RocketMQ in memory, for the tests of applications: topics are lists, and a send calls the listeners at once."""

import asyncio
import inspect
import itertools
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from ariane import (
    ConsumerStats,
    ConsumeStatus,
    Delivery,
    Message,
    MessageQueue,
    ReceivedMessage,
    SendResult,
    SendStatus,
    Sql,
    TransactionResult,
    TransactionState,
)
from ariane.app.clients import Callback, Clients, Deliver, LocalTransactions, Selector
from ariane.app.settings import ClusterSettings, ListenerSettings, ProducerSettings, PullConsumerSettings
from ariane.client.producer.queue_choice import by_hash
from ariane.errors import ClientError, ReplyTimeout
from ariane.message import CLUSTER, CORRELATION_ID, HALF_TOPIC, REPLY_TO_CLIENT, TAGS, UNIQUE_KEY

log = logging.getLogger("ariane.testing")

QUEUES = 4
MAX_TRIES = 16
DEAD = -1


@dataclass
class _Subscriber:
    """A listener's consumer."""

    topics: tuple[str, ...]
    deliver: Deliver
    settings: ListenerSettings
    group: str
    broker: "MemoryClients"
    handled: int = 0

    async def start(self) -> Self:
        self.broker.subscribers.append(self)
        return self

    async def close(self) -> None:
        if self in self.broker.subscribers:
            self.broker.subscribers.remove(self)

    async def stats(self) -> ConsumerStats:
        return ConsumerStats({}, [], None, None, 1, None, 0, 0)

    async def queues(self) -> list[MessageQueue]:
        return [MessageQueue(topic, "memory", number) for topic in self.topics for number in range(QUEUES)]

    async def subscribe(self, topic: str, expression: str | Sql = "*") -> None:
        self.topics = (*self.topics, topic)

    def wants(self, message: ReceivedMessage) -> bool:
        """Topic and tag, or the SQL expression, evaluated as a broker does."""
        if message.topic not in self.topics:
            return False
        if self.settings.sql is not None:
            return matches_sql(self.settings.sql, message.properties)
        tags = [tag.strip() for tag in self.settings.tags.split("||")]
        return "*" in tags or message.properties.get(TAGS) in tags

    async def take(self, message: ReceivedMessage) -> None:
        """Deliver a message until it is consumed or given up; no time passes between two tries."""
        most = self.settings.max_retries
        if most < 0:
            most = MAX_TRIES
        while True:
            delivery = Delivery(message.queue)
            try:
                status = await self._call([message], delivery)
            except Exception:  # as the client does
                log.warning("a listener of %s failed; the message comes again", self.group, exc_info=True)
                status = ConsumeStatus.RECONSUME_LATER
            if status is ConsumeStatus.CONSUME_SUCCESS:
                self.handled += 1
                return
            if message.reconsume_times >= most or delivery.delay_level == DEAD or self.settings.broadcast:
                self.broker.dead_letters.setdefault(self.group, []).append(message)
                return
            message = replace(message, reconsume_times=message.reconsume_times + 1)

    async def _call(self, messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus:
        deliver: Any = self.deliver
        if inspect.iscoroutinefunction(deliver):
            status: ConsumeStatus = await deliver(messages, delivery)
            return status
        return await asyncio.to_thread(deliver, messages, delivery)


def matches_sql(expression: str, properties: Mapping[str, str]) -> bool:
    """Whether a broker would deliver a message with these properties."""
    from ariane.filter import Sql92Filter  # needs lark, which only this needs

    return Sql92Filter(expression).matches_message(properties)


@dataclass
class MemoryClients(Clients):
    """Clients that know one place: this object."""

    topics: dict[str, list[ReceivedMessage]] = field(default_factory=dict)
    subscribers: list[_Subscriber] = field(default_factory=list)
    dead_letters: dict[str, list[ReceivedMessage]] = field(default_factory=dict)
    undecided: list[tuple["MemoryProducer", Message]] = field(default_factory=list)
    replies: dict[str, "asyncio.Future[ReceivedMessage]"] = field(default_factory=dict)
    numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def producer(self, cluster: ClusterSettings, group: str, settings: ProducerSettings) -> "MemoryProducer":
        return MemoryProducer(self, group, settings.send_timeout)

    def transaction_producer(
        self, cluster: ClusterSettings, group: str, settings: ProducerSettings, listener: LocalTransactions
    ) -> "MemoryProducer":
        return MemoryProducer(self, group, settings.send_timeout, listener)

    def consumer(
        self,
        cluster: ClusterSettings,
        group: str,
        topics: Sequence[str],
        deliver: Deliver,
        settings: ListenerSettings,
        stop_timeout: float,
    ) -> _Subscriber:
        return _Subscriber(tuple(topics), deliver, settings, group, self)

    def pull_consumer(
        self, cluster: ClusterSettings, group: str, topic: str, settings: PullConsumerSettings
    ) -> "MemoryPoller":
        return MemoryPoller(self, topic, settings.pull_batch)

    def store(self, message: Message, queue: MessageQueue) -> ReceivedMessage:
        """Add a message to its topic."""
        number, now = next(self.numbers), int(time.time() * 1000)
        message_id = f"{number:032X}"
        stored = ReceivedMessage(
            topic=message.topic,
            body=message.body,
            properties={**message.properties, UNIQUE_KEY: message_id, CLUSTER: "memory"},
            queue=queue,
            queue_offset=len(self.topics.setdefault(message.topic, [])),
            physical_offset=number,
            message_id=message_id,
            offset_id=message_id,
            born_time=now,
            born_host="127.0.0.1:0",
            store_time=now,
            store_host="127.0.0.1:0",
            reconsume_times=0,
            sys_flag=0,
            flag=message.flag,
        )
        self.topics[message.topic].append(stored)
        return stored

    async def distribute(self, stored: ReceivedMessage) -> None:
        """Call every listener that wants the message."""
        for subscriber in list(self.subscribers):
            if subscriber.wants(stored):
                await subscriber.take(replace(stored, properties=dict(stored.properties)))

    async def check_transactions(self) -> None:
        """Ask about undecided half messages."""
        waiting, self.undecided = self.undecided, []
        for producer, message in waiting:
            await producer.check(message)


@dataclass
class MemoryProducer:
    """A producer whose broker is a `MemoryClients`."""

    broker: MemoryClients
    group: str
    timeout: float
    listener: LocalTransactions | None = None

    async def start(self) -> Self:
        return self

    async def close(self) -> None: ...

    async def send(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        stored = self.broker.store(message, await self._choose(message, queue, selector, hash_key))
        await self.broker.distribute(stored)
        return _result(stored)

    def submit(
        self,
        message: Message,
        *,
        callback: Callback | None = None,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> "asyncio.Future[SendResult]":
        future = asyncio.ensure_future(self.send(message, queue=queue, selector=selector, hash_key=hash_key))
        if callback is not None:
            future.add_done_callback(lambda done: callback(done.result(), None))
        return future

    async def send_oneway(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
    ) -> None:
        await self.send(message, queue=queue, selector=selector, hash_key=hash_key)

    async def send_batch(
        self, messages: Sequence[Message], *, queue: MessageQueue | None = None, timeout: float | None = None
    ) -> list[SendResult]:
        return [await self.send(message, queue=queue) for message in messages]

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        selector: Selector | None = None,
        hash_key: str | int | None = None,
        timeout: float | None = None,
    ) -> ReceivedMessage:
        correlation = f"memory-{next(self.broker.numbers)}"
        more = {CORRELATION_ID: correlation, REPLY_TO_CLIENT: "memory"}
        asked = Message.with_properties(message.topic, message.body, message.properties | more)
        reply: asyncio.Future[ReceivedMessage] = asyncio.get_running_loop().create_future()
        self.broker.replies[correlation] = reply
        try:
            await self.send(asked, queue=queue, selector=selector, hash_key=hash_key)
            if not reply.done():
                raise ReplyTimeout(f"the request to {message.topic} was stored, but no reply came")
            return reply.result()
        finally:
            del self.broker.replies[correlation]

    async def reply(self, request: ReceivedMessage, body: bytes, *, timeout: float | None = None) -> SendResult:
        waiting = self.broker.replies.get(request.properties.get(CORRELATION_ID, ""))
        if waiting is None:
            raise ClientError(f"message {request.message_id} is no request, or its reply is not awaited any more")
        stored = self.broker.store(Message("memory_REPLY_TOPIC", body), request.queue)
        if not waiting.done():
            waiting.set_result(stored)
        return _result(stored)

    async def queues(self, topic: str) -> list[MessageQueue]:
        return [MessageQueue(topic, "memory", number) for number in range(QUEUES)]

    async def send_in_transaction(
        self, message: Message, argument: Any = None, *, timeout: float | None = None
    ) -> TransactionResult:
        assert self.listener is not None
        half = _as_half(message)
        sent = _result(self.broker.store(half, MessageQueue(message.topic, "memory", 0)))
        failure: Exception | None = None
        try:
            state = await self.listener.execute(message, sent, argument) or TransactionState.UNKNOWN
        except Exception as error:
            state, failure = TransactionState.UNKNOWN, error
        await self._end(message, state)
        return TransactionResult(sent, state, failure)

    async def check(self, message: Message) -> None:
        """A broker asks what became of a transaction."""
        assert self.listener is not None
        stored = self.broker.store(_as_half(message), MessageQueue(message.topic, "memory", 0))
        await self._end(message, await self.listener.check(replace(stored, topic=message.topic)))

    async def _end(self, message: Message, state: TransactionState | None) -> None:
        if state is TransactionState.COMMIT:
            await self.send(message)
        elif state is not TransactionState.ROLLBACK:
            self.broker.undecided.append((self, message))

    async def _choose(
        self, message: Message, queue: MessageQueue | None, selector: Selector | None, hash_key: str | int | None
    ) -> MessageQueue:
        if queue is not None:
            return queue
        queues = await self.queues(message.topic)
        if hash_key is not None:
            selector = by_hash(hash_key)
        return queues[0] if selector is None else selector(queues, message)


@dataclass
class MemoryPoller:
    """A pull consumer over one topic."""

    broker: MemoryClients
    topic: str
    most: int
    at: int = 0

    async def start(self) -> Self:
        return self

    async def close(self) -> None: ...

    async def poll(self, timeout: float = 5.0) -> list[ReceivedMessage]:
        found = self.broker.topics.get(self.topic, [])[self.at : self.at + self.most]
        self.at += len(found)
        return found

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None, *, wait: bool = True) -> None: ...


def _as_half(message: Message) -> Message:
    return Message.with_properties(HALF_TOPIC, message.body, message.properties, message.flag)


def _result(stored: ReceivedMessage) -> SendResult:
    return SendResult(SendStatus.SEND_OK, stored.message_id, stored.queue, stored.queue_offset, stored.offset_id)
