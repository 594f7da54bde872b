"""A kombu transport, so that Celery runs its tasks over RocketMQ: `broker_url = "rocketmq://127.0.0.1:9876"`.

Importing this module makes the scheme `rocketmq://` known to kombu. A kombu queue is a topic, whose consumers share
one consumer group. A message is held until it is acknowledged: that of a worker that dies is delivered to another.

Transport options: `name_servers` (several), `group_prefix`, `max_in_flight`, `visibility_timeout`, `topic_queues`,
`delay_levels`, `requeue_level`, `producer`, `consumer` (further options of the clients).
"""

import asyncio
import logging
import re
import threading
import uuid
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from queue import Empty
from time import monotonic
from typing import Any, Final

from ariane import ConsumeFrom, ConsumeStatus, Delivery, Message, ReceivedMessage, aio
from ariane.app.loop_thread import LoopThread
from ariane.app.task_queues import DEFAULT_LEVELS, DelayLevels, topic_for
from ariane.errors import (
    ArianeError,
    NameServersUnreachable,
    NotRunning,
    RemotingError,
    RouteMissing,
    SendError,
)
from ariane.extras import extra

with extra("celery", "the kombu transport"):
    from kombu.transport import TRANSPORT_ALIASES, virtual
    from kombu.utils.json import dumps, loads

log = logging.getLogger("ariane.app.kombu")

DEFAULT_PORT: Final = 9876
DEAD: Final = -1  # delay level of a message that cannot be read: straight to the dead letters
LONG_WAIT: Final = 60.0  # seconds; a task that is due later goes back to the broker instead of waiting in a worker
LOOK: Final = 1.0  # seconds between two looks for a time-out

TRANSPORT_ALIASES["rocketmq"] = "ariane.app.kombu:Transport"


class Held:
    """A message that a consumer has and did not settle yet."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.settled: asyncio.Future[ConsumeStatus] = loop.create_future()

    def settle(self, status: ConsumeStatus) -> None:
        """Answer the broker, from any thread."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._set, status)

    def _set(self, status: ConsumeStatus) -> None:
        if not self.settled.done():
            self.settled.set_result(status)


class Channel(virtual.Channel):
    """Sends to topics and consumes them."""

    do_restore = False  # what is not acknowledged stays at the broker
    supports_fanout = False

    def __init__(self, connection: "Transport", **keywords: Any) -> None:
        super().__init__(connection, **keywords)
        self._clients: dict[str, aio.PushConsumer] = {}
        self._arrived: dict[str, deque[dict[str, Any]]] = {}
        self._held: dict[str, Held] = {}
        self._without_ack: set[str] = set()

    # -- sending ---------------------------------------------------------------------------------------------------

    def _put(self, queue: str, message: dict[str, Any], **_: Any) -> None:
        self.connection.send(queue, message)

    # -- consuming -------------------------------------------------------------------------------------------------

    def basic_consume(self, queue: str, no_ack: bool, *arguments: Any, **keywords: Any) -> Any:
        """Begin to consume a queue."""
        if no_ack:
            self._without_ack.add(queue)
        result = super().basic_consume(queue, no_ack, *arguments, **keywords)
        self._consume(queue)
        return result

    def basic_cancel(self, consumer_tag: str) -> None:
        """Take no more messages; those that are held can still be acknowledged, until the channel is closed."""
        queue = self._tag_to_queue.get(consumer_tag)
        super().basic_cancel(consumer_tag)
        if queue is not None and queue not in self._active_queues:
            self._without_ack.discard(queue)
            consumer = self._clients.get(queue)
            if consumer is not None and self.connection.is_open:
                self.connection.thread.run(consumer.pause())

    def _consume(self, queue: str) -> None:
        if queue in self._clients:
            self.connection.thread.run(self._clients[queue].resume())
            return
        self._arrived.setdefault(queue, deque())

        async def take(messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus:
            return await self._take(queue, messages[0], delivery)

        self._clients[queue] = self.connection.start_consumer(queue, take)

    async def _take(self, queue: str, message: ReceivedMessage, delivery: Delivery) -> ConsumeStatus:
        """Hold a message until kombu has settled it."""
        try:
            payload = loads(message.body)
            properties = payload["properties"]
        except (ValueError, KeyError, TypeError):
            log.error("message %s of %s was not sent by kombu: it goes to the dead letters", message.message_id, queue)
            delivery.delay_level = DEAD
            return ConsumeStatus.RECONSUME_LATER
        if seconds_left(payload) > LONG_WAIT and message.reconsume_times == 0:
            await self.connection.send_from_loop(queue, payload)
            return ConsumeStatus.CONSUME_SUCCESS
        tag = properties["delivery_tag"] = str(uuid.uuid4())
        properties.setdefault("delivery_info", {})["redelivered"] = message.reconsume_times > 0
        held = self._held[tag] = Held(asyncio.get_running_loop())
        self._arrived[queue].append(payload)
        self.connection.woken.set()
        try:
            status = await held.settled
        finally:
            self._held.pop(tag, None)
        if status is not ConsumeStatus.CONSUME_SUCCESS:
            delivery.delay_level = self.connection.requeue_level
        return status

    def drain_events(self, timeout: float | None = None, callback: Callable[..., Any] | None = None) -> None:
        """Deliver one message that is there; Empty when there is none, or no more may be taken."""
        assert callback is not None
        if not self._consumers or not self.qos.can_consume():
            raise Empty
        for queue in list(self._active_queues):
            if self._arrived.get(queue):
                callback(self._get(queue), queue)
                return
        raise Empty

    def _get(self, queue: str, timeout: float | None = None) -> dict[str, Any]:
        if queue not in self._clients:
            self._consume(queue)
        try:
            payload = self._arrived[queue].popleft()
        except IndexError:
            raise Empty from None
        if queue in self._without_ack:
            self._settle(payload["properties"]["delivery_tag"], ConsumeStatus.CONSUME_SUCCESS)
        return payload

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """The message is done."""
        for tag in self._tags_up_to(delivery_tag) if multiple else [delivery_tag]:
            self._settle(tag, ConsumeStatus.CONSUME_SUCCESS)
            self.qos.ack(tag)
        self.connection.woken.set()

    def basic_reject(self, delivery_tag: str, requeue: bool = False) -> None:
        """The message comes again, or is dropped."""
        self._settle(delivery_tag, ConsumeStatus.RECONSUME_LATER if requeue else ConsumeStatus.CONSUME_SUCCESS)
        self.qos.ack(delivery_tag)
        self.connection.woken.set()

    def basic_recover(self, requeue: bool = False) -> None:
        """All that is held comes again."""
        for tag in list(self._held):
            self.basic_reject(tag, requeue=True)

    def _tags_up_to(self, delivery_tag: str) -> list[str]:
        tags = list(self.qos._delivered)
        return tags[: tags.index(delivery_tag) + 1] if delivery_tag in tags else [delivery_tag]

    def _settle(self, tag: str, status: ConsumeStatus) -> None:
        held = self._held.get(tag)
        if held is not None:
            held.settle(status)

    # -- queues ----------------------------------------------------------------------------------------------------

    def _new_queue(self, queue: str, **_: Any) -> None:
        self.connection.make_topic(queue)

    def _has_queue(self, queue: str, **_: Any) -> bool:
        found: bool = self.connection.has_topic(queue)
        return found

    def _size(self, queue: str) -> int:
        count: int = self.connection.backlog(queue)
        return count

    def _purge(self, queue: str) -> int:
        count: int = self.connection.skip_backlog(queue)
        return count

    def _delete(self, queue: str, *_: Any, **__: Any) -> None:
        """Consumers leave; the topic and its messages stay, as brokers keep them."""
        self._close_consumer(queue)

    def close(self) -> None:
        """Leave: what is held and not acknowledged goes to others."""
        connection = self.connection
        super().close()
        if connection is not None:
            for queue in list(self._clients):
                self._close_consumer(queue, connection)

    def _close_consumer(self, queue: str, connection: "Transport | None" = None) -> None:
        consumer = self._clients.pop(queue, None)
        transport = connection or self.connection
        if consumer is not None and transport.is_open:
            transport.thread.run(consumer.close())


class Transport(virtual.Transport):
    """A connection: a producer, and what its channels consume."""

    Channel = Channel
    default_port = DEFAULT_PORT
    driver_type = "rocketmq"
    driver_name = "ariane"
    connection_errors = (
        *virtual.Transport.connection_errors,
        RemotingError,
        NameServersUnreachable,
        NotRunning,
        RouteMissing,
        SendError,
    )

    def __init__(self, client: Any, **keywords: Any) -> None:
        super().__init__(client, **keywords)
        self.woken = threading.Event()
        self._thread: LoopThread | None = None
        self._producer: aio.Producer | None = None
        self._admin: aio.Admin | None = None
        self._known: set[str] = set()
        options = client.transport_options
        self.requeue_level = int(options.get("requeue_level", 1))
        self._levels = DelayLevels(options.get("delay_levels", DEFAULT_LEVELS))

    def driver_version(self) -> str:
        """For `celery report`."""
        from ariane.version import describe

        return describe()

    @property
    def thread(self) -> LoopThread:
        """Where the clients live while the connection is open."""
        if self._thread is None:
            raise NotRunning("the connection is closed")
        return self._thread

    @property
    def is_open(self) -> bool:
        """Whether the connection can be used in this process."""
        return self._thread is not None and self._thread.is_here

    def establish_connection(self) -> Any:
        """Start the producer, and see that the name servers answer."""
        self._thread = LoopThread("ariane-kombu")
        try:
            self._thread.run(self._start())
        except BaseException:
            self._thread.close()
            self._thread = None
            raise
        return super().establish_connection()

    def close_connection(self, connection: Any) -> None:
        """Close everything."""
        super().close_connection(connection)
        if self.is_open:
            self.thread.run(self._stop())
            self.thread.close()
        self._thread = None

    def verify_connection(self, connection: Any) -> bool:
        """Whether the connection can be used in this process."""
        return self.is_open and self._producer is not None

    async def _start(self) -> None:
        common = self._common()
        self._admin = aio.Admin(**common)
        await self._admin.start()
        try:
            await self._admin.cluster_info()
            self._producer = aio.Producer(
                self._group("senders"), **common, **self.client.transport_options.get("producer", {})
            )
            await self._producer.start()
        except BaseException:
            await self._stop()
            raise

    async def _stop(self) -> None:
        if self._producer is not None:
            await self._producer.close()
        if self._admin is not None:
            await self._admin.close()
        self._producer = self._admin = None

    def _common(self) -> dict[str, Any]:
        """Where the cluster is: host and port of the URL, credentials, and its path as namespace."""
        client, options = self.client, self.client.transport_options
        found: dict[str, Any] = {
            "name_servers": options.get("name_servers")
            or f"{client.hostname or '127.0.0.1'}:{client.port or DEFAULT_PORT}",
            "namespace": (client.virtual_host or "").strip("/"),
        }
        if client.userid:
            found |= {"access_key": client.userid, "secret_key": client.password}
        return found

    def _group(self, name: str) -> str:
        return f"{self.client.transport_options.get('group_prefix', 'kombu')}-{name}"

    def start_consumer(self, queue: str, listener: Any) -> aio.PushConsumer:
        """A consumer of a queue, started."""
        options = self.client.transport_options
        self.make_topic(queue)
        consumer = aio.PushConsumer(
            self._group(topic_for(queue)),
            topic_for(queue),
            listener,
            **self._common(),
            **{
                "threads": int(options.get("max_in_flight", 100)),
                "consume_timeout": float(options.get("visibility_timeout", 3600.0)),
                "consume_from": ConsumeFrom.FIRST,
                "close_timeout": 0.2,
                **options.get("consumer", {}),
            },
        )
        self.thread.run(consumer.start())
        return consumer

    def send(self, queue: str, message: dict[str, Any]) -> None:
        """Send a kombu message, delayed when its task is due later."""
        self.thread.run(self.send_from_loop(queue, message))

    async def send_from_loop(self, queue: str, message: dict[str, Any]) -> None:
        """Like `send`, for coroutines of the connection's own loop."""
        if self._producer is None:
            raise NotRunning("the connection is closed")
        headers = message.get("headers") or {}
        await self._producer.send(
            Message(
                topic_for(queue),
                dumps(message).encode(),
                tags=_tag(headers.get("task")),
                keys=_tag(headers.get("id") or (message.get("properties") or {}).get("correlation_id")),
                delay_level=self._levels.level_for(seconds_left(message)),
            )
        )

    def make_topic(self, queue: str) -> None:
        """Create the topic of a queue unless it is there."""
        topic = topic_for(queue)
        if topic not in self._known:
            self.thread.run(self._make_topic(topic))
            self._known.add(topic)

    async def _make_topic(self, topic: str) -> None:
        assert self._admin is not None
        try:
            await self._admin.route(topic)
        except ArianeError:
            await self._admin.create_topic(topic, queues=int(self.client.transport_options.get("topic_queues", 8)))

    def has_topic(self, queue: str) -> bool:
        """Whether the topic of a queue is there."""

        async def look() -> bool:
            assert self._admin is not None
            try:
                await self._admin.route(topic_for(queue))
            except ArianeError:
                return False
            return True

        return self.thread.run(look())

    def backlog(self, queue: str) -> int:
        """How many messages of a queue are still to be consumed."""

        async def count() -> int:
            return sum(last - at for _, at, last in await self._progress(topic_for(queue)))

        return self.thread.run(count())

    def skip_backlog(self, queue: str) -> int:
        """Count all messages of a queue as consumed; workers that are running keep what they have."""

        async def skip() -> int:
            assert self._admin is not None
            skipped = 0
            for where, at, last in await self._progress(topic_for(queue)):
                await self._admin.commit(self._group(topic_for(queue)), where, last)
                skipped += last - at
            return skipped

        return self.thread.run(skip())

    async def _progress(self, topic: str) -> list[tuple[Any, int, int]]:
        assert self._admin is not None
        found = []
        for queue in await self._admin.queues(topic):
            at = await self._admin.committed(self._group(topic), queue)
            first = await self._admin.min_offset(queue) if at is None else at
            found.append((queue, first, await self._admin.max_offset(queue)))
        return found

    def drain_events(self, connection: Any, timeout: float | None = None) -> None:
        """Deliver one message; socket.timeout when none comes in time."""
        deadline = None if timeout is None else monotonic() + timeout
        while True:
            self.woken.clear()  # before looking, so that what comes now wakes the wait below
            for channel in list(self.channels):
                try:
                    channel.drain_events(callback=self._deliver)
                except Empty:
                    continue
                return
            left = LOOK if deadline is None else min(LOOK, deadline - monotonic())
            if left <= 0:
                raise TimeoutError
            self.woken.wait(left)


def seconds_left(message: dict[str, Any]) -> float:
    """How long until a task is due; 0 for one that is."""
    eta = (message.get("headers") or {}).get("eta")
    if not isinstance(eta, str):
        return 0.0
    try:
        due = datetime.fromisoformat(eta)
    except ValueError:
        return 0.0
    if due.tzinfo is None:
        due = due.replace(tzinfo=UTC)
    return max(0.0, due.timestamp() - datetime.now(UTC).timestamp())


def _tag(text: Any) -> str | None:
    """A text that may be a tag or a key."""
    return text if isinstance(text, str) and text and not re.search(r"[\s|]", text) else None
