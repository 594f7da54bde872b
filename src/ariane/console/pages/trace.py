"""The trace of a message as a timeline: sent, stored, delivered, retried, with durations."""

from dataclasses import dataclass
from typing import Any

from nicegui import ui

from ariane.client.admin.messages import TraceRecord
from ariane.console.pages.charts import picture, style
from ariane.console.pages.frame import empty, panel, title
from ariane.console.pages.tables import Column, DataTable
from ariane.console.pages.view import View
from ariane.errors import ArianeError, RouteMissing


async def trace_page(view: View) -> None:
    """Search a trace by message id."""
    title(view.t("page.trace"), view.t("trace.lead"))
    with ui.row().classes("items-end gap-3"):
        number = ui.input(view.t("messages.id"), value=view.query.get("id", "")).classes("min-w-80")
        ui.button(
            view.t("search"), icon="search", on_click=lambda: ui.navigate.to(view.link("trace", id=number.value or ""))
        ).props("unelevated no-caps")
    wanted = view.query.get("id", "").strip()
    if not wanted:
        return
    try:
        records = await view.cluster.admin.message_trace(wanted)
    except RouteMissing:
        records = []
    if not records:
        with panel():
            empty(view.t("trace.none"), "timeline")
        return
    records.sort(key=begin)
    stored = await stored_time(view, records)
    with panel(view.t("trace.picture")):
        timeline(view, records, stored)
    with panel(view.t("trace.records")):
        table = DataTable(
            view,
            "trace",
            [
                Column("time", view.t("column.time"), "moment"),
                Column("kind", view.t("column.what")),
                Column("group", view.t("column.group")),
                Column("client", view.t("column.client")),
                Column("cost", view.t("column.cost"), "number"),
                Column(
                    "outcome", view.t("column.outcome"), color=lambda row: "positive" if row["good"] else "negative"
                ),
            ],
            "key",
            small=True,
        )
        await table.fill(
            [
                {
                    "key": key,
                    "time": one.time,
                    "kind": step_name(view, one),
                    "group": one.group,
                    "client": one.client_host,
                    "cost": one.cost_ms,
                    "outcome": view.t("trace.good" if one.success else "trace.bad"),
                    "good": one.success,
                }
                for key, one in enumerate(records)
            ]
        )


def step_name(view: View, one: TraceRecord) -> str:
    """What a record is about."""
    return view.t("trace.sent") if one.kind == "Pub" else view.t("trace.consumed")


async def stored_time(view: View, records: list[TraceRecord]) -> int:
    """When the broker stored the message; 0 when it is no longer there."""
    topic, number = next(((one.topic, one.message_id) for one in records if one.topic), ("", ""))
    try:
        message = await view.cluster.admin.find_message(topic, number) if topic else None
    except ArianeError:
        return 0
    return 0 if message is None else message.store_time


@dataclass(frozen=True)
class Step:
    """A bar of the timeline."""

    label: str
    begin: int
    cost: int
    color: str


def steps(view: View, records: list[TraceRecord], stored: int) -> list[Step]:
    """Sent, stored, and every delivery with its number in its group."""
    found: list[Step] = []
    tries: dict[str, int] = {}
    for one in records:
        color = "#dc2626" if not one.success else "#0d9488" if one.kind == "Pub" else "#3b82f6"
        label = f"{step_name(view, one)} · {one.group}"
        if one.kind != "Pub":
            tries[one.group] = tries.get(one.group, 0) + 1
            if tries[one.group] > 1:
                label += " · " + view.t("trace.retry", number=tries[one.group] - 1)
        found.append(Step(label, begin(one), one.cost_ms, color))
    if stored:
        found.append(Step(view.t("trace.stored"), stored, 0, "#a16207"))
    return sorted(found, key=lambda one: one.begin)


def timeline(view: View, records: list[TraceRecord], stored: int) -> None:
    """A bar for each step, from its begin to its end, in milliseconds after the first."""
    found = steps(view, records, stored)
    first = found[0].begin
    options = style(view)
    options["grid"] = {"left": 8, "right": 96, "top": 8, "bottom": 28, "containLabel": True}
    options["tooltip"] = {"trigger": "item", "renderMode": "richText"}
    options["xAxis"] |= {"type": "value", "name": "ms"}
    labels = [f"{number + 1}. {one.label}" for number, one in enumerate(found)]
    options["yAxis"] |= {"type": "category", "inverse": True, "data": labels, "splitLine": {"show": False}}
    above = {"inside": True, "align": "left", "verticalAlign": "bottom", "padding": [0, 0, 12, 0], "margin": 0}
    options["yAxis"] |= {"axisLabel": options["yAxis"]["axisLabel"] | above, "axisTick": {"show": False}, "z": 10}
    costs: list[dict[str, Any]] = [
        {
            "value": one.cost,
            "itemStyle": {"color": one.color, "borderRadius": 3},
            "label": {
                "show": True,
                "position": "right",
                "color": options["textStyle"]["color"],
                "formatter": f"+{one.begin - first} ms" + (f", {one.cost} ms" if one.cost else ""),
            },
        }
        for one in found
    ]
    options["series"] = [
        {
            "type": "bar",
            "stack": "time",
            "silent": True,
            "itemStyle": {"color": "transparent"},
            "name": view.t("trace.after"),
            "data": [one.begin - first for one in found],
        },
        {
            "type": "bar",
            "stack": "time",
            "barMinHeight": 6,
            "barMaxWidth": 16,
            "name": view.t("column.cost"),
            "data": costs,
        },
    ]
    picture(view, options, view.t("trace.picture"), f"{4 + 3.5 * len(found)}rem")


def begin(one: TraceRecord) -> int:
    """When a step began: a consumption is recorded at its end."""
    return one.time if one.kind == "Pub" else one.time - one.cost_ms
