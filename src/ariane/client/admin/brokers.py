"""Brokers: options, statistics, cleaning, and the entries of their queues."""

import asyncio
from dataclasses import dataclass

import msgspec

from ariane.client.admin.requests import AdminRequests
from ariane.errors import ArianeError, ClientError, ProtocolError
from ariane.message import MessageQueue
from ariane.protocol import fastjson
from ariane.protocol.bodies import ConsumeStats, FilterList, FilterRecord, KVTable, QueryConsumeQueueResponseBody
from ariane.protocol.codes import GET_FILTER, GET_FILTER_LIST, PROMOTE_BROKER, REMOVE_FILTER, RequestCode
from ariane.protocol.headers import (
    FilterOfGroupRequest,
    GetConsumeStatsInBrokerRequest,
    PromoteBrokerRequest,
    PromoteBrokerResponse,
    QueryConsumeQueueRequest,
)
from ariane.settings import format_properties, parse_properties


@dataclass(frozen=True)
class BrokerProgress:
    """The progress of every group of a broker."""

    address: str
    groups: dict[str, list[ConsumeStats]]
    """By group; one entry for each topic."""
    total: int
    """The lag of all groups in messages."""


@dataclass(frozen=True)
class BrokerStatus:
    """A broker of the cluster and its figures; when it does not answer, `stats` is empty and `error` says why."""

    cluster: str
    name: str
    broker_id: int
    address: str
    stats: dict[str, str]
    error: str | None = None

    @property
    def version(self) -> str:
        """The version that it reports."""
        return self.stats.get("brokerVersionDesc", "")

    @property
    def in_tps(self) -> float:
        """Messages stored in a second, over the last ten."""
        return first_rate(self.stats.get("putTps", ""))

    @property
    def out_tps(self) -> float:
        """Messages delivered in a second, over the last ten."""
        return first_rate(self.stats.get("getTransferedTps", ""))


@dataclass(frozen=True)
class PendingTimers:
    """Messages of a broker that wait for their delivery time."""

    address: str
    pending: int
    minute: int
    """Due within a minute."""
    hour: int
    """Due within an hour, after the minute."""
    day: int
    """Due within a day, after the hour."""
    later: int
    delivered: int
    """Since the broker started."""


class BrokerAdmin(AdminRequests):
    """Administers brokers."""

    async def brokers(self) -> list[BrokerStatus]:
        """Every broker of every cluster, with its figures."""
        info = await self.cluster_info()
        rows = [
            (cluster, name, broker_id, address)
            for cluster, names in sorted(info.cluster_addr_table.items())
            for name in sorted(names)
            if name in info.broker_addr_table
            for broker_id, address in sorted(info.broker_addr_table[name].broker_addrs.items())
        ]
        return list(await asyncio.gather(*(self._status(*row) for row in rows)))

    async def _status(self, cluster: str, name: str, broker_id: int, address: str) -> BrokerStatus:
        try:
            return BrokerStatus(cluster, name, broker_id, address, await self.broker_stats(address))
        except ArianeError as error:
            return BrokerStatus(cluster, name, broker_id, address, {}, str(error))

    async def broker_config(self, address: str) -> str:
        """The configuration of a broker, as lines of a properties file."""
        return (await self._running().wire.ask(address, RequestCode.GET_BROKER_CONFIG)).body.decode()

    async def broker_options(self, address: str) -> dict[str, str]:
        """The configuration of a broker, by option."""
        return {entry.key: entry.value for entry in parse_properties(await self.broker_config(address))}

    async def update_broker(self, address: str, changes: dict[str, str]) -> None:
        """Change options of a running broker; it refuses those that need a restart."""
        body = format_properties(changes).encode()
        await self._running().wire.ask(address, RequestCode.UPDATE_BROKER_CONFIG, None, body)

    async def promote_broker(
        self, address: str, name: str, *, force: bool = False, sync: bool = False
    ) -> tuple[int, int]:
        """Make an Ariane slave the master of its broker name; returns the new epoch and where it begins in the log.

        Refused while the master answers, or when another slave has more of the log, unless `force`.
        """
        header = PromoteBrokerRequest(name, force, sync)
        response = await self._running().wire.ask(address, PROMOTE_BROKER, header, timeout=60)
        answer = PromoteBrokerResponse.parse(response.fields)
        return answer.broker_epoch, answer.log_max

    async def filters(self, address: str) -> list[FilterRecord]:
        """The filter modules that consumers have uploaded to an Ariane broker."""
        return FilterList.decode((await self._running().wire.ask(address, GET_FILTER_LIST)).body).filters

    async def filter_module(self, address: str, group: str, topic: str) -> bytes:
        """The bytes of the filter module of a group for a topic."""
        return (await self._running().wire.ask(address, GET_FILTER, FilterOfGroupRequest(group, topic))).body

    async def remove_filter(self, address: str, group: str, topic: str) -> None:
        """Remove a filter module: pulls of the group are refused until one of its consumers uploads a filter again.

        Consumers upload at their start. To keep a filter away, take the group off `filterGroups`.
        """
        await self._running().wire.ask(address, REMOVE_FILTER, FilterOfGroupRequest(group, topic))

    async def broker_stats(self, address: str) -> dict[str, str]:
        """The runtime statistics of a broker."""
        response = await self._running().wire.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
        return KVTable.decode(response.body).table

    async def pending_timers(self, address: str) -> PendingTimers:
        """How many messages wait for their delivery time, by when they are due; none at a broker that has no timers."""
        stats = await self.broker_stats(address)
        names = ("Pending", "DueMinute", "DueHour", "DueDay", "DueLater", "Delivered")
        return PendingTimers(address, *(int(stats.get(f"timer{name}", "0")) for name in names))

    async def broker_progress(
        self, address: str, *, order: bool = False, timeout: float | None = None
    ) -> BrokerProgress:
        """The progress of every group of a broker in one request; with `order`, in ordered topics only."""
        header = GetConsumeStatsInBrokerRequest(order)
        response = await self._running().wire.ask(
            address, RequestCode.GET_BROKER_CONSUME_STATS, header, timeout=timeout or 50.0
        )
        body = fastjson.loads(response.body)
        groups: dict[str, list[ConsumeStats]] = {}
        try:
            for table in body.get("consumeStatsList") or []:
                for group, stats in table.items():
                    groups.setdefault(group, []).extend(ConsumeStats.from_builtins(one) for one in stats)
            return BrokerProgress(address, groups, int(body.get("totalDiff") or 0))
        except (AttributeError, TypeError, ValueError, msgspec.ValidationError) as error:
            raise ProtocolError(f"{address}: not the progress of groups: {error}") from None

    async def clean_expired_queues(self, address: str) -> None:
        """Delete consumequeue files whose messages are no longer in the log."""
        await self._running().wire.ask(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE, timeout=30.0)

    async def clean_unused_topics(self, address: str) -> None:
        """Delete the queues of topics that are no longer configured."""
        await self._running().wire.ask(address, RequestCode.CLEAN_UNUSED_TOPIC, timeout=30.0)

    async def delete_expired_commitlog(self, address: str) -> None:
        """Delete expired commitlog files now."""
        await self._running().wire.ask(address, RequestCode.DELETE_EXPIRED_COMMITLOG, timeout=30.0)

    async def consumequeue(
        self, address: str, queue: MessageQueue, index: int, *, count: int = 10, group: str | None = None
    ) -> QueryConsumeQueueResponseBody:
        """Entries of a consumequeue; with a group, whether each passes its filter."""
        header = QueryConsumeQueueRequest(queue.topic, queue.queue_id, index, count, group)
        response = await self._running().wire.ask(address, RequestCode.QUERY_CONSUME_QUEUE, header)
        if not response.body:
            raise ClientError(f"{queue.topic} queue {queue.queue_id} has no entry {index}: {response.remark}")
        return QueryConsumeQueueResponseBody.decode(response.body)


def first_rate(text: str) -> float:
    """The first of the rates that brokers report over 10 s, a minute and ten; 0 before they have any.

    >>> first_rate("2.5 1.0 0.1"), first_rate("")
    (2.5, 0.0)
    """
    try:
        return float(text.split()[0])
    except (IndexError, ValueError):
        return 0.0
