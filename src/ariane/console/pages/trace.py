"""The trace of a message as a timeline: sent, stored, delivered, retried, with durations."""

from typing import Any

from nicegui import ui

from ariane.client.admin.messages import TraceRecord
from ariane.console.pages.frame import panel, title
from ariane.console.pages.tables import Column, DataTable
from ariane.console.pages.view import View
from ariane.errors import RouteMissing


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
        ui.label(view.t("trace.none")).classes("warn")
        return
    records.sort(key=lambda one: one.time)
    with panel(view.t("trace.picture")):
        timeline(view, records)
    with panel(view.t("trace.records")):
        table = DataTable(
            view,
            "trace",
            [
                Column("time", view.t("column.time"), "time"),
                Column("kind", view.t("column.what")),
                Column("group", view.t("column.group")),
                Column("client", view.t("column.client")),
                Column("cost", view.t("column.cost"), "number"),
                Column(
                    "outcome", view.t("column.outcome"), color=lambda row: "positive" if row["good"] else "negative"
                ),
            ],
            "key",
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


def timeline(view: View, records: list[TraceRecord]) -> None:
    """A bar for each step, from its begin to its end, in milliseconds after the first."""
    first = min(begin(one) for one in records)
    labels = [f"{number + 1}. {step_name(view, one)} · {one.group}" for number, one in enumerate(records)]
    waits = [{"value": begin(one) - first} for one in records]
    costs: list[dict[str, Any]] = [
        {
            "value": max(1, one.cost_ms),
            "itemStyle": {"color": "#b91c1c" if not one.success else "#0f766e" if one.kind == "Pub" else "#2563eb"},
        }
        for one in records
    ]
    ui.echart(
        {
            "grid": {"left": 8, "right": 24, "top": 8, "bottom": 32, "containLabel": True},
            "tooltip": {"trigger": "axis", "axisPointer": {"type": "shadow"}, "renderMode": "richText"},
            "xAxis": {"type": "value", "name": "ms"},
            "yAxis": {"type": "category", "inverse": True, "data": labels},
            "series": [
                {
                    "type": "bar",
                    "stack": "time",
                    "silent": True,
                    "itemStyle": {"color": "transparent"},
                    "name": view.t("trace.after"),
                    "data": waits,
                },
                {"type": "bar", "stack": "time", "barMinHeight": 4, "name": view.t("column.cost"), "data": costs},
            ],
        }
    ).style(f"height: {6 + 2.5 * len(records)}rem; width: 100%")


def begin(one: TraceRecord) -> int:
    """When a step began: a consumption is recorded at its end."""
    return one.time if one.kind == "Pub" else one.time - one.cost_ms
