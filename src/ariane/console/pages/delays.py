"""Delayed messages: how many are due when."""

import asyncio
from dataclasses import dataclass
from typing import Final

from ariane.console.cluster import Cluster
from ariane.console.pages.charts import BarChart
from ariane.console.pages.frame import panel, title
from ariane.console.pages.tiles import Tiles
from ariane.console.pages.view import View, count_text
from ariane.errors import BrokerRefused, RouteMissing
from ariane.message import SCHEDULE_TOPIC, MessageQueue

LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"
UNITS: Final = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
EDGES: Final = (0, 10_000, 60_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 86_400_000)
"""Where the bars of the histogram begin, in milliseconds from now; the first holds what is overdue."""
EDGE_NAMES: Final = ("≤ 10 s", "≤ 1 min", "≤ 5 min", "≤ 10 min", "≤ 30 min", "≤ 1 h", "≤ 2 h", "≤ 1 d", "> 1 d")
AT_ONCE: Final = 8


@dataclass(frozen=True)
class Delays:
    """What waits."""

    levels: list[str]
    by_level: list[float]
    by_due: list[float]
    """For each name of EDGE_NAMES."""
    timed: int
    """Messages with a delivery time of their own; they are in `by_due` where brokers tell when they are due."""


async def delays_page(view: View) -> None:
    """Histograms: what is due when, and what waits in each level."""
    title(view.t("page.delays"), view.t("delays.lead"))
    tiles = Tiles()
    with panel(view.t("delays.due")):
        due = BarChart(view, view.t("delays.due"))
    with panel(view.t("delays.picture")):
        levels = BarChart(view, view.t("delays.picture"))

    async def load() -> None:
        found = await view.cluster.ask("delays", 5.0, lambda: delays(view.cluster, view.console.now()))
        tiles.show(
            {
                view.t("delays.waiting"): count_text(sum(found.by_level) + found.timed),
                view.t("delays.soon"): count_text(sum(found.by_due[:2])),
                view.t("delays.timed"): count_text(found.timed),
            }
        )
        due.show(list(EDGE_NAMES), found.by_due)
        levels.show(found.levels, found.by_level)

    view.every(5.0, load)


async def delays(cluster: Cluster, now: int) -> Delays:
    """What waits in the cluster, by level and by the time when it is due.

    Level n waits in queue n - 1 of the schedule topic, in the order of storing: what is due before an edge was stored
    before the edge less the level's delay. Brokers report up to where each level was delivered, and nothing of a level
    that has delivered none.
    """
    masters = await cluster.master_names()
    try:
        queues = (await cluster.admin.topic_stats(SCHEDULE_TOPIC)).offset_table
    except (RouteMissing, BrokerRefused):
        queues = {}  # the topic is created with the first delayed message
    levels, timed = LEVELS.split(), 0
    by_due = [0.0] * len(EDGE_NAMES)
    reported: dict[str, dict[int, int]] = {}
    for broker, address in masters.items():
        levels = (await cluster.admin.broker_options(address)).get("messageDelayLevel", "").split() or levels
        stats = await cluster.admin.broker_stats(address)
        reported[broker] = delivered(stats)
        timed += int(stats.get("timerPending", "0")) if stats.get("timerPending", "0").isdigit() else 0
        for edge, count in timers_due(stats).items():
            by_due[EDGES.index(edge) - 1] += count
    by_level = [0.0] * len(levels)
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(queue: MessageQueue, first: int, end: int, last: int, delay: int) -> None:
        before = first
        for number, edge in enumerate(EDGES[1:]):
            if now + edge - delay >= last:  # the last one is due by then, and all before it
                by_due[number] += end - before
                return
            async with slots:
                found = await cluster.admin.search_offset(queue, now + edge - delay)
            found = min(max(found, before), end)
            by_due[number] += found - before
            before = found
        by_due[-1] += end - before

    waiting = []
    for queue, offsets in queues.items():
        if queue.queue_id < len(levels):
            first = reported.get(queue.broker_name, {}).get(queue.queue_id + 1, offsets.min_offset)
            if offsets.max_offset > first:
                by_level[queue.queue_id] += offsets.max_offset - first
                delay = delay_ms(levels[queue.queue_id])
                waiting.append(one(queue, first, offsets.max_offset, offsets.last_update_timestamp, delay))
    await asyncio.gather(*waiting)
    return Delays(levels, by_level, by_due, timed)


def delay_ms(level: str) -> int:
    """A delay level in milliseconds.

    >>> delay_ms("30s"), delay_ms("2h")
    (30000, 7200000)
    """
    return int(level[:-1]) * UNITS[level[-1]] if level[:-1].isdigit() and level[-1] in UNITS else 0


def timers_due(stats: dict[str, str]) -> dict[int, int]:
    """Messages with a time of their own by the edge before which they are due; 0 for those after all.

    >>> timers_due({"timerDueSeconds": "10:2 86400:1 0:4"})
    {10000: 2, 86400000: 1, 0: 4}
    """
    pairs = [pair.partition(":") for pair in stats.get("timerDueSeconds", "").split()]
    found = {int(edge) * 1000: int(count) for edge, _, count in pairs if edge.isdigit() and count.isdigit()}
    return {edge: count for edge, count in found.items() if edge in EDGES}


def delivered(stats: dict[str, str]) -> dict[int, int]:
    """Up to where each level was delivered, from a broker's figures.

    >>> delivered({"scheduleMessageOffset_3": "5,9"})
    {3: 5}
    """
    found: dict[int, int] = {}
    for name, value in stats.items():
        level, offset = name.removeprefix("scheduleMessageOffset_"), value.partition(",")[0].strip()
        if level != name and level.isdigit() and offset.isdigit():
            found[int(level)] = int(offset)
    return found
