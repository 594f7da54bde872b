"""Lag of a group in messages and in time, the owners of its queues, and diagnosis."""

import asyncio
from dataclasses import dataclass, field

from ariane.client.admin.offsets import OffsetAdmin
from ariane.errors import ArianeError, BrokerRefused, RouteMissing
from ariane.message import RETRY_PREFIX, MessageQueue
from ariane.protocol.bodies import (
    Connection,
    ConsumerConnection,
    ConsumerRunningInfo,
    OffsetWrapper,
    ProcessQueueInfo,
    QueryConsumeTimeSpanBody,
)
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import QueryConsumeTimeSpanRequest

STILL_MS = 60_000  # a queue whose owner has messages and consumed none for so long is blocked
UNPULLED_MS = 120_000  # the same for an owner that does not even ask for messages
AT_ONCE = 16  # groups queried concurrently


@dataclass(frozen=True)
class QueueBacklog:
    """The lag of a group in one queue."""

    queue: MessageQueue
    broker_offset: int
    """The offset that the next message will get."""
    consumer_offset: int
    """The offset at which the group continues."""
    behind_ms: int = 0
    """How long the next message has been waiting; 0 when none waits."""
    last_consumed: int = 0
    """When the last consumed message was stored, in milliseconds; 0 when that is not known."""
    owner: str | None = None
    """The id of the client that holds the queue; None when none does."""
    blocked: str | None = None
    """Why the queue makes no progress; None when it does."""

    @property
    def lag(self) -> int:
        """Messages that wait."""
        return max(0, self.broker_offset - self.consumer_offset)


@dataclass(frozen=True)
class SubscriptionVariant:
    """Clients of a group with the same subscriptions. More than one variant in a group is a conflict."""

    clients: tuple[str, ...]
    expressions: dict[str, str]
    """Expressions by topic."""


@dataclass(frozen=True)
class GroupLag:
    """The lag of a group, and its problems."""

    group: str
    queues: list[QueueBacklog]
    clients: list[Connection] = field(default_factory=list)
    consume_type: str = ""
    message_model: str = ""
    consume_tps: float = 0.0
    variants: list[SubscriptionVariant] = field(default_factory=list)
    """What the clients subscribe to, the most frequent form first; more than one is a conflict."""
    silent: list[str] = field(default_factory=list)
    """Clients that did not report their state."""

    @property
    def lag(self) -> int:
        """Messages that wait, in all queues."""
        return sum(queue.lag for queue in self.queues)

    @property
    def behind_ms(self) -> int:
        """How long the oldest waiting message has been waiting."""
        return max((queue.behind_ms for queue in self.queues), default=0)

    @property
    def online(self) -> bool:
        """Whether a consumer of the group is connected."""
        return bool(self.clients)

    @property
    def in_conflict(self) -> bool:
        """Whether clients of the group have different subscriptions, which loses messages."""
        return len(self.variants) > 1

    @property
    def blocked(self) -> list[QueueBacklog]:
        """The queues that make no progress."""
        return [queue for queue in self.queues if queue.blocked is not None]

    @property
    def abandoned(self) -> bool:
        """Whether there is lag and no consumer is online."""
        return self.lag > 0 and not self.online


class LagAdmin(OffsetAdmin):
    """Computes lag, for commands and programs."""

    async def lag(self, group: str, topic: str | None = None) -> int:
        """The number of messages that a group has not consumed yet."""
        table = (await self.consume_stats(group, topic)).offset_table
        return sum(max(0, offsets.broker_offset - offsets.consumer_offset) for offsets in table.values())

    async def group_lag(self, group: str, topic: str | None = None) -> GroupLag:
        """The lag of a group in each queue, in one topic or in all, with owners and problems."""
        stats = await self.consume_stats(group, topic)
        topics = sorted({queue.topic for queue in stats.offset_table})
        connection, address = await self._connection(group)
        ages, running = await asyncio.gather(self._ages(group, topics), self._running_infos(group, connection, address))
        now = self._env.clock.now_ms()
        owned = _owners(running)
        queues = [
            _backlog(queue, offsets, ages.get(queue, 0), owned.get(queue), bool(connection.connection_set), now)
            for queue, offsets in sorted(stats.offset_table.items())
        ]
        return GroupLag(
            group,
            queues,
            sorted(connection.connection_set, key=lambda one: one.client_id),
            connection.consume_type if connection.connection_set else "",
            connection.message_model if connection.connection_set else "",
            stats.consume_tps,
            variants(running),
            sorted({one.client_id for one in connection.connection_set} - running.keys()),
        )

    async def group_lags(self) -> list[GroupLag]:
        """Every group that has an offset: lag and clients, without owners and times; two requests for each group."""
        return await self._of_groups(await self.group_names())

    async def _of_groups(self, groups: list[str]) -> list[GroupLag]:
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(group: str) -> GroupLag | None:
            async with slots:
                try:
                    stats = await self.consume_stats(group)
                    connection, _ = await self._connection(group)
                except ArianeError:
                    return None
            if not stats.offset_table and not connection.connection_set:
                return None
            queues = [
                QueueBacklog(
                    queue, offsets.broker_offset, offsets.consumer_offset, last_consumed=offsets.last_timestamp
                )
                for queue, offsets in sorted(stats.offset_table.items())
            ]
            kind, model = (connection.consume_type, connection.message_model) if connection.connection_set else ("", "")
            return GroupLag(group, queues, connection.connection_set, kind, model, stats.consume_tps)

        return [found for found in await asyncio.gather(*map(one, groups)) if found is not None]

    async def _connection(self, group: str) -> tuple[ConsumerConnection, str | None]:
        """The clients of a group, and the broker that knows them; no clients when none is online."""
        addresses = await self._readers_of_group(RETRY_PREFIX + group)
        for address in addresses:
            try:
                return await self.consumer_connections(group, address=address), address
            except BrokerRefused as error:
                if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                    raise
        return ConsumerConnection(), None

    async def _running_infos(
        self, group: str, connection: ConsumerConnection, address: str | None
    ) -> dict[str, ConsumerRunningInfo]:
        async def ask(client_id: str) -> ConsumerRunningInfo | None:
            try:
                return await self.consumer_running_info(group, client_id, address=address)
            except ArianeError:
                return None  # an old or busy client: it is listed as silent

        clients = [one.client_id for one in connection.connection_set]
        infos = await asyncio.gather(*map(ask, clients))
        return {client: info for client, info in zip(clients, infos, strict=True) if info is not None}

    async def _ages(self, group: str, topics: list[str]) -> dict[MessageQueue, int]:
        """How long the next message of each queue has been waiting, in milliseconds, by the broker's clock."""
        now = self._env.clock.now_ms()
        code = RequestCode.QUERY_CONSUME_TIME_SPAN

        async def ask(topic: str) -> list[QueryConsumeTimeSpanBody]:
            try:
                addresses = await self._readers_of(topic)
                header = QueryConsumeTimeSpanRequest(topic, group)
                return await self._ask_each(addresses, code, header, QueryConsumeTimeSpanBody.decode)
            except (BrokerRefused, RouteMissing):
                return []

        bodies = [body for found in await asyncio.gather(*map(ask, topics)) for body in found]
        spans = [span for body in bodies for span in body.consume_time_span_set]
        # For a group without an offset brokers return the store time of offset -1, which does not exist.
        return {
            span.message_queue.queue(): span.delay_time
            if 0 <= span.delay_time < now // 2
            else max(0, now - span.min_time_stamp)
            for span in spans
        }


def _owners(running: dict[str, ConsumerRunningInfo]) -> dict[MessageQueue, tuple[str, ProcessQueueInfo, bool]]:
    """Client, state and order of consumption by queue. A queue that is being handed over counts for its new owner."""
    found: dict[MessageQueue, tuple[str, ProcessQueueInfo, bool]] = {}
    for client, info in running.items():
        orderly = info.properties.get("PROP_CONSUMEORDERLY") == "true"
        for queue, state in info.mq_table.items():
            if queue not in found or found[queue][1].dropped:
                found[queue] = (client, state, orderly)
    return found


def _backlog(
    queue: MessageQueue,
    offsets: OffsetWrapper,
    age: int,
    owned: tuple[str, ProcessQueueInfo, bool] | None,
    online: bool,
    now: int,
) -> QueueBacklog:
    waits = offsets.broker_offset > offsets.consumer_offset
    return QueueBacklog(
        queue,
        offsets.broker_offset,
        offsets.consumer_offset,
        age if waits else 0,
        offsets.last_timestamp,
        owned[0] if owned is not None else None,
        why_blocked(waits, owned[1] if owned else None, owned is not None and owned[2], online, now),
    )


def why_blocked(waits: bool, state: ProcessQueueInfo | None, orderly: bool, online: bool, now: int) -> str | None:
    """Why a queue makes no progress; None when it does, or when there is nothing to do.

    >>> why_blocked(True, None, False, True, 0)
    'consumers are online, but none of them holds the queue'
    """
    if state is None:
        return "consumers are online, but none of them holds the queue" if waits and online else None
    if orderly and not state.locked and not state.dropped:
        return "its owner consumes in order and could not lock it"
    idle = now - state.last_consume_timestamp
    if state.cached_msg_count > 0 and state.last_consume_timestamp > 0 and idle > STILL_MS:
        return f"its owner holds {state.cached_msg_count} messages and consumed none for {idle // 1000} s"
    unpulled = now - state.last_pull_timestamp
    if waits and state.last_pull_timestamp > 0 and unpulled > UNPULLED_MS and state.cached_msg_count == 0:
        return f"its owner asked for no messages for {unpulled // 1000} s"
    return None


def variants(running: dict[str, ConsumerRunningInfo]) -> list[SubscriptionVariant]:
    """The forms of subscription in a group, with the clients of each; the most frequent one first."""
    forms: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for client, info in sorted(running.items()):
        wanted = {
            one.topic: one.sub_string if one.expression_type == "TAG" else f"{one.expression_type}: {one.sub_string}"
            for one in info.subscription_set
            if not one.topic.startswith(RETRY_PREFIX)
        }
        forms.setdefault(tuple(sorted(wanted.items())), []).append(client)
    ordered = sorted(forms.items(), key=lambda form: (-len(form[1]), form[0]))
    return [SubscriptionVariant(tuple(clients), dict(form)) for form, clients in ordered]
