"""Delayed messages: how many are due when."""

from typing import Final

from nicegui import ui

from ariane.console.cluster import Cluster
from ariane.console.pages.charts import bar_chart
from ariane.console.pages.cluster import tile
from ariane.console.pages.frame import panel, title
from ariane.console.pages.view import View
from ariane.errors import BrokerRefused, RouteMissing
from ariane.message import SCHEDULE_TOPIC

LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"


async def delays_page(view: View) -> None:
    """A histogram by delay level."""
    title(view.t("page.delays"), view.t("delays.lead"))
    tiles = ui.element("div").classes("tiles")
    with panel(view.t("delays.picture")):
        picture = ui.column().classes("w-full")
    shown: list[list[float]] = []

    async def load() -> None:
        levels, waiting = await view.cluster.ask("delays", 5.0, lambda: delays(view.cluster))
        tiles.clear()
        with tiles:
            tile(view.t("delays.waiting"), f"{sum(waiting):,.0f}")
        if shown != [waiting]:
            shown[:] = [waiting]
            picture.clear()
            with picture:
                bar_chart(levels, waiting)

    view.every(5.0, load)


async def delays(cluster: Cluster) -> tuple[list[str], list[float]]:
    """The delay levels of the cluster, and how many messages wait in each.

    Level n waits in queue n - 1 of the schedule topic. Brokers report up to where each was delivered, and nothing of a
    level that has delivered none.
    """
    masters = await cluster.master_names()
    try:
        queues = (await cluster.admin.topic_stats(SCHEDULE_TOPIC)).offset_table
    except (RouteMissing, BrokerRefused):
        queues = {}  # the topic is created with the first delayed message
    levels = LEVELS.split()
    reported: dict[str, dict[int, int]] = {}
    for broker, address in masters.items():
        levels = (await cluster.admin.broker_options(address)).get("messageDelayLevel", "").split() or levels
        reported[broker] = delivered(await cluster.admin.broker_stats(address))
    waiting = [0.0] * len(levels)
    for queue, offsets in queues.items():
        if queue.queue_id < len(levels):
            first = reported.get(queue.broker_name, {}).get(queue.queue_id + 1, offsets.min_offset)
            waiting[queue.queue_id] += max(0, offsets.max_offset - first)
    return levels, waiting


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
