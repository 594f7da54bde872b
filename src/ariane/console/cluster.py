"""The queries of one cluster: cached for seconds, made once for all who ask at the same time, bounded in time."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from ariane.client.admin import Admin
from ariane.client.admin.brokers import BrokerStatus
from ariane.client.admin.groups import is_system_group
from ariane.client.admin.lag import GroupLag
from ariane.client.options import ClientOptions
from ariane.env import Env
from ariane.errors import ArianeError, BrokerRefused
from ariane.message import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    DLQ_PREFIX,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    REPLY_TOPIC_SUFFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TIMER_TOPIC,
    TRACE_TOPIC,
    MessageQueue,
    is_valid_name,
)
from ariane.protocol.bodies import ProducerInfo, SubscriptionGroupConfig
from ariane.protocol.codes import ResponseCode

T = TypeVar("T")
PATIENCE: Final = 20.0  # seconds for a query
NAMES_PATIENCE: Final = 3.0  # for the answer of a name server
SHARE: Final = 0.05  # of the time that a query may be under way
AT_ONCE: Final = 8  # requests at a time for the rows of a table
CLIENTS_RATE: Final = 20.0  # requests a second, in the mean, for the clients of groups
DELAYED: Final = frozenset({SCHEDULE_TOPIC, TIMER_TOPIC})
TRANSACTIONAL: Final = frozenset({HALF_TOPIC, HALF_OP_TOPIC, CHECK_MAX_TIME_TOPIC})
SYSTEM: Final = frozenset({AUTO_CREATE_TOPIC, SELF_TEST_TOPIC, BENCHMARK_TOPIC, OFFSET_MOVED_TOPIC, TRACE_TOPIC})


@dataclass(frozen=True)
class TopicRow:
    """A topic as the list shows it."""

    name: str
    kind: str
    brokers: tuple[str, ...]
    read_queues: int
    write_queues: int
    perm: int
    order: bool


@dataclass
class GroupRow:
    """A group as the list shows it: made of one request a broker, whatever the number of groups."""

    name: str
    lag: int = 0
    topics: set[str] = field(default_factory=set)
    last_consumed: int = 0
    oldest: int = 0
    """When the last consumed message of the slowest queue with lag was stored; 0 when that is not known."""
    config: SubscriptionGroupConfig | None = None


class _Flight:
    """A query under way, and who waits for it."""

    def __init__(self, task: "asyncio.Task[Any]") -> None:
        self.task = task
        self.waiting = 0


class Cluster:
    """One cluster: its client, and what was asked lately."""

    def __init__(self, name: str, options: ClientOptions, env: Env) -> None:
        self.name = name
        self.admin = Admin(options=options, env=env)
        self._clock = env.clock
        self._known: dict[str, tuple[float, Any]] = {}
        self._flights: dict[str, _Flight] = {}

    async def start(self) -> None:
        """Start the client."""
        await self.admin.start()

    async def stop(self) -> None:
        """Stop the client and the queries under way."""
        for flight in self._flights.values():
            flight.task.cancel()
        await self.admin.close()

    async def ask(self, key: str, seconds: float, make: Callable[[], Awaitable[T]]) -> T:
        """The answer to a query, at most so many seconds old. The query is cancelled when nobody waits for it."""
        now = self._clock.monotonic()
        known = self._known.get(key)
        if known is not None and known[0] > now:
            answer: T = known[1]
            return answer
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(asyncio.ensure_future(self._make(key, seconds, make)))
        flight.waiting += 1
        try:
            result: T = await asyncio.shield(flight.task)
            return result
        finally:
            flight.waiting -= 1
            if flight.waiting == 0 and not flight.task.done():
                flight.task.cancel()

    async def _make(self, key: str, seconds: float, make: Callable[[], Awaitable[T]]) -> T:
        begun = self._clock.monotonic()
        try:
            async with asyncio.timeout(PATIENCE):
                answer = await make()
        except TimeoutError:
            raise ArianeError(f"the cluster did not answer within {PATIENCE:.0f} s") from None
        finally:
            own = self._flights.get(key)
            current = own is not None and own.task is asyncio.current_task()
            if current:
                del self._flights[key]
        now = self._clock.monotonic()
        self._known = {other: entry for other, entry in self._known.items() if entry[0] > now}
        if current:  # nothing was changed since it began
            # A large cluster is asked less often.
            self._known[key] = (now + max(seconds, (now - begun) / SHARE), answer)
        return answer

    def forget(self) -> None:
        """Ask again: something was changed. Queries under way answer those who wait for them, and are not kept."""
        self._known.clear()
        self._flights.clear()

    async def name_servers(self) -> dict[str, int | None]:
        """How many brokers each name server knows; None for one that does not answer."""

        async def one(address: str) -> int | None:
            try:
                async with asyncio.timeout(NAMES_PATIENCE):
                    found = await self.admin.cluster_info(address)
            except (ArianeError, TimeoutError):
                return None
            return sum(len(broker.broker_addrs) for broker in found.broker_addr_table.values())

        async def make() -> dict[str, int | None]:
            names = await self.admin.name_servers()
            return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))

        return await self.ask("name servers", 10.0, make)

    async def brokers(self) -> list[BrokerStatus]:
        """Every broker with its figures."""
        return await self.ask("brokers", 2.0, self.admin.brokers)

    async def master_names(self) -> dict[str, str]:
        """The addresses of masters, by broker name."""
        return {one.name: one.address for one in await self.brokers() if one.broker_id == 0}

    async def topics(self) -> list[TopicRow]:
        """All topics, from one request a master."""
        return await self.ask("topics", 5.0, self._topics)

    async def topic(self, name: str) -> TopicRow | None:
        """One topic; the brokers are asked again before there is none of this name, as it may be new."""
        for _ in range(2):
            if (row := next((one for one in await self.topics() if one.name == name), None)) is not None:
                return row
            self._known.pop("topics", None)
        return None

    async def _topics(self) -> list[TopicRow]:
        masters = await self.master_names()
        tables = await asyncio.gather(*(self.admin.topic_configs(address) for address in masters.values()))
        found: dict[str, list[tuple[str, Any]]] = {}
        for broker, table in zip(masters, tables, strict=True):
            for name, config in table.topic_config_table.items():
                found.setdefault(name, []).append((broker, config))
        own = {*masters, *(one.cluster for one in await self.brokers())}
        rows: list[TopicRow] = []
        for name, configs in sorted(found.items()):
            kind = "system" if name in own else topic_kind(name)
            rows.append(
                TopicRow(
                    name,
                    kind,
                    tuple(broker for broker, _ in configs),
                    sum(config.read_queue_nums for _, config in configs),
                    sum(config.write_queue_nums for _, config in configs),
                    min(config.perm for _, config in configs),
                    any(config.order for _, config in configs),
                )
            )
        return rows

    async def groups(self) -> list[GroupRow]:
        """All groups with their lag, from two requests a master."""
        return (await self.ask("groups", 5.0, self._progress))[0]

    async def ends(self) -> dict[str, int]:
        """Where the queues of each topic that a group consumes end, added up; of the same requests as the groups."""
        return (await self.ask("groups", 5.0, self._progress))[1]

    async def _progress(self) -> tuple[list[GroupRow], dict[str, int]]:
        masters = list((await self.master_names()).values())
        configs, progress = await asyncio.gather(
            asyncio.gather(*(self.admin.groups(address) for address in masters)),
            asyncio.gather(*(self.admin.broker_progress(address) for address in masters)),
        )
        rows: dict[str, GroupRow] = {}
        ends: dict[MessageQueue, int] = {}
        for table in configs:
            for name, config in table.subscription_group_table.items():
                rows.setdefault(name, GroupRow(name)).config = config
        for broker in progress:
            for name, stats in broker.groups.items():
                row = rows.setdefault(name, GroupRow(name))
                for one in stats:
                    for queue, offsets in one.offset_table.items():
                        row.topics.add(queue.topic)
                        ends[queue] = max(ends.get(queue, 0), offsets.broker_offset)
                        row.lag += max(0, offsets.broker_offset - max(0, offsets.consumer_offset))
                        row.last_consumed = max(row.last_consumed, offsets.last_timestamp)
                        if offsets.broker_offset > max(0, offsets.consumer_offset) and offsets.last_timestamp > 0:
                            row.oldest = min(row.oldest or offsets.last_timestamp, offsets.last_timestamp)
        totals: dict[str, int] = {}
        for queue, end in ends.items():
            totals[queue.topic] = totals.get(queue.topic, 0) + end
        found = sorted((row for row in rows.values() if not is_system_group(row.name)), key=lambda row: row.name)
        return found, totals

    async def unconsumed(self, topic: str, broker: str, first: int) -> dict[str, int]:
        """How many messages of the queues from `first` on wait on a broker, by group; asked anew."""
        found: dict[str, int] = {}
        for group in await self.admin.topic_groups(topic):
            table = (await self.admin.consume_stats(group, topic)).offset_table
            waiting = sum(
                max(0, offsets.broker_offset - max(0, offsets.consumer_offset))
                for queue, offsets in table.items()
                if queue.topic == topic and queue.broker_name == broker and queue.queue_id >= first
            )
            if waiting:
                found[group] = waiting
        return found

    async def ledger_groups(self) -> set[str]:
        """The broker names whose copies are members of a ledger (DLedger); of brokers that show their options."""

        async def one(address: str) -> bool:
            try:
                return (await self.admin.broker_options(address)).get("enableDLegerCommitLog") == "true"
            except ArianeError:
                return False

        async def make() -> set[str]:
            names = {status.name: status.address for status in await self.brokers() if status.error is None}
            found = await asyncio.gather(*map(one, names.values()))
            return {name for name, ledger in zip(names, found, strict=True) if ledger}

        return await self.ask("ledger groups", 60.0, make)

    async def has_group(self, name: str) -> bool:
        """Whether a broker or a consumer knows a group. One newer than the list is found without the lag of all."""
        if any(one.name == name for one in await self.groups()):
            return True
        if not is_valid_name(name):
            return False
        masters = await self.master_names()
        tables = await asyncio.gather(*(self.admin.groups(address) for address in masters.values()))
        if any(name in table.subscription_group_table for table in tables):
            return True
        found = await self.group(name)
        return bool(found.queues or found.clients)

    async def group(self, name: str) -> GroupLag:
        """One group: queues, owners, clients, conflicts."""
        return await self.ask(f"group {name}", 2.0, lambda: self.admin.group_lag(name))

    async def clients_of(self, groups: list[str]) -> dict[str, int]:
        """How many consumers of each group are online; each group needs a request, so many are asked rarely."""
        slots, seconds = asyncio.Semaphore(AT_ONCE), max(10.0, len(groups) / CLIENTS_RATE)

        async def one(group: str) -> int:
            async with slots:
                return await self.ask(f"clients {group}", seconds, lambda: self._clients(group))

        return dict(zip(groups, await asyncio.gather(*map(one, groups)), strict=True))

    async def _clients(self, group: str) -> int:
        try:
            return len((await self.admin.consumer_connections(group)).connection_set)
        except BrokerRefused as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
            return 0

    async def producers(self) -> list[tuple[str, str, ProducerInfo]]:
        """Producers as (broker, group, producer)."""
        return await self.ask("producers", 5.0, self._producers)

    async def _producers(self) -> list[tuple[str, str, ProducerInfo]]:
        masters = await self.master_names()
        tables = await asyncio.gather(*(self.admin.producers(address) for address in masters.values()))
        return [
            (broker, group, info)
            for broker, table in zip(masters, tables, strict=True)
            for group, infos in sorted(table.items())
            for info in infos
        ]


def topic_kind(name: str) -> str:
    """What a topic is for, by its name.

    >>> topic_kind("orders"), topic_kind("%RETRY%billing"), topic_kind("%DLQ%billing")
    ('normal', 'retry', 'dead-letter')
    """
    if name.startswith(RETRY_PREFIX):
        return "retry"
    if name.startswith(DLQ_PREFIX):
        return "dead-letter"
    if name in DELAYED:
        return "delay"
    if name in TRANSACTIONAL:
        return "transaction"
    own = name in SYSTEM or name.startswith("rmq_sys_") or name.endswith(f"_{REPLY_TOPIC_SUFFIX}")
    return "system" if own else "normal"
