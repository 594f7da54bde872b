"""Subcommands about clusters as a whole."""

import asyncio
import time

from ariane.cli.admin.call import Call
from ariane.client.admin.brokers import BrokerStatus
from ariane.client.connect.routes import MASTER
from ariane.errors import ArianeError
from ariane.message import DLQ_PREFIX, RETRY_PREFIX
from ariane.protocol.bodies import BrokerStatsData

BASE = "%-16s  %-22s  %-4s  %-22s %-16s %19s %19s %10s %5s %6s"
MORE = "%-16s  %-32s %14s %14s %14s %14s"
STATS = "%-64s  %-64s %12s %11s %11s %14s %14s"


async def listing(call: Call) -> None:
    """clusterList."""
    while True:
        brokers = await call.admin.brokers()
        if call.has("m"):
            totals = ("#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
            call.row(MORE, "#Cluster Name", "#Broker Name", *totals)
        else:
            head = ("#BID", "#Addr", "#Version", "#InTPS(LOAD)", "#OutTPS(LOAD)", "#PCWait(ms)", "#Hour", "#SPACE")
            call.row(BASE, "#Cluster Name", "#Broker Name", *head)
        for broker in brokers:
            _more(call, broker) if call.has("m") else _base(call, broker)
        if not call.has("i"):
            return
        await asyncio.sleep(call.number("i"))


def _base(call: Call, broker: BrokerStatus) -> None:
    stats = broker.stats
    earliest, ratio = stats.get("earliestMessageTimeStamp", ""), stats.get("commitLogDiskRatio", "")
    hours = (time.time() * 1000 - int(earliest)) / 3_600_000 if earliest else 0.0

    def load(tps: float, queue: str) -> str:
        waiting, head = stats.get(f"{queue}ThreadPoolQueueSize"), stats.get(f"{queue}ThreadPoolQueueHeadWaitTimeMills")
        return f"{tps:9.2f}({waiting or ''},{head or ''}ms)"

    call.row(
        BASE, broker.cluster, broker.name, broker.broker_id, broker.address, broker.version,
        load(broker.in_tps, "send"), load(broker.out_tps, "pull"), stats.get("pageCacheLockTimeMills", ""),
        f"{hours:2.2f}", f"{float(ratio or 0):.4f}",
    )  # fmt: skip


def _more(call: Call, broker: BrokerStatus) -> None:
    def since(kind: str, later: str, earlier: str) -> int:
        stats = broker.stats
        return int(stats.get(f"msg{kind}Total{later}", 0)) - int(stats.get(f"msg{kind}Total{earlier}", 0))

    call.row(
        MORE, broker.cluster, broker.name,
        since("Put", "TodayMorning", "YesterdayMorning"), since("Get", "TodayMorning", "YesterdayMorning"),
        since("Put", "TodayNow", "TodayMorning"), since("Get", "TodayNow", "TodayMorning"),
    )  # fmt: skip


async def stats(call: Call) -> None:
    """statsAll."""
    head = ("#Topic", "#Consumer Group", "#Accumulation", "#InTPS", "#OutTPS", "#InMsg24Hour", "#OutMsg24Hour")
    call.row(STATS, *head)
    wanted = call.optional("t")
    for topic in await call.admin.topics():
        if topic.startswith((RETRY_PREFIX, DLQ_PREFIX)) or (wanted and topic != wanted):
            continue
        try:
            await _topic(call, topic)
        except ArianeError:
            continue  # deleted meanwhile, or its broker is gone


async def _topic(call: Call, topic: str) -> None:
    data = await call.admin.route(topic)
    masters = [one.broker_addrs[MASTER] for one in data.broker_datas if MASTER in one.broker_addrs]
    groups = await call.admin.topic_groups(topic)
    in_tps, in_day = await _rate(call, masters, "TOPIC_PUT_NUMS", topic)
    active_only = call.has("a")
    if not groups and (not active_only or in_day > 0):
        call.row(STATS, topic[:64], "", 0, f"{in_tps:.2f}", "", in_day, "NO_CONSUMER")
    for group in groups:
        out_tps, out_day = await _rate(call, masters, "GROUP_GET_NUMS", f"{topic}@{group}")
        try:
            table = (await call.admin.consume_stats(group, topic)).offset_table.values()
            behind = max(0, sum(one.broker_offset - one.consumer_offset for one in table))
        except ArianeError:
            behind = 0
        if not active_only or in_day > 0 or out_day > 0:
            call.row(STATS, topic[:64], group[:64], behind, f"{in_tps:.2f}", f"{out_tps:.2f}", in_day, out_day)


async def _rate(call: Call, masters: list[str], name: str, key: str) -> tuple[float, int]:
    """Messages in a second, and of the last day, of all masters; a counter that is not there counts nothing."""
    tps, day = 0.0, 0
    for address in masters:
        try:
            counter = await call.admin.counter(address, name, key)
        except ArianeError:
            continue
        tps += counter.stats_minute.tps
        day += last_day(counter)
    return tps, day


def last_day(counter: BrokerStatsData) -> int:
    """The sum over a day, or over as much of it as has been counted."""
    return counter.stats_day.sum or counter.stats_hour.sum or counter.stats_minute.sum
