"""Consumer groups: lag and time behind, owners, clients, conflicts; reset and skip with a preview."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from nicegui import ui

from ariane.client.admin.lag import SubscriptionVariant
from ariane.client.admin.offsets import END, OffsetReset
from ariane.console.pages.charts import LineChart, RangeChoice
from ariane.console.pages.dialogs import ask, confirm
from ariane.console.pages.frame import empty, facts, panel, title
from ariane.console.pages.tables import Column, DataTable, Row
from ariane.console.pages.tiles import Tiles
from ariane.console.pages.view import View, count_text, duration_text, time_text, without_secret
from ariane.message import RETRY_PREFIX
from ariane.protocol.versions import version_name

MOST_VARIANTS: Final = 20  # different subscriptions that a page tells
MOST_NAMES: Final = 10  # clients of each


async def groups_page(view: View) -> None:
    """All groups."""
    title(view.t("page.groups"), view.t("groups.lead"))

    async def with_clients(rows: list[Row]) -> None:
        counts = await view.cluster.clients_of([row["name"] for row in rows])
        for row in rows:
            row["clients"] = counts[row["name"]]

    columns = [
        Column("name", view.t("column.group"), link=lambda row: view.link("group", name=row["name"])),
        Column("lag", view.t("column.lag"), "number", color=lambda row: "deep-orange-10" if row["lag"] else None),
        Column("behind", view.t("column.behind"), "duration"),
        Column("clients", view.t("column.clients"), "number", late=True),
        Column("topics", view.t("column.topics")),
        Column("last", view.t("column.last_consumed"), "time"),
        Column("retries", view.t("column.retries"), "number"),
    ]
    table = DataTable(
        view, "groups", columns, "name", sort="lag", descending=True, enrich=with_clients, empty=view.t("groups.none")
    )
    if view.visitor.may("group.create"):
        with table.bar:
            ui.button(view.t("group.create"), icon="add", on_click=lambda: create(view)).props("unelevated no-caps")

    async def load() -> None:
        now = view.console.now()
        rows: list[Row] = [
            {
                "name": one.name,
                "lag": one.lag,
                "behind": max(0, now - one.oldest) if one.oldest else 0 if one.lag == 0 else None,
                "clients": None,
                "topics": ", ".join(sorted(name for name in one.topics if not name.startswith(RETRY_PREFIX))),
                "last": one.last_consumed,
                "retries": None if one.config is None else one.config.retry_max_times,
            }
            for one in await view.cluster.groups()
        ]
        await table.fill(rows)

    view.every(5.0, load)


async def create(view: View) -> None:
    """Ask for a name, then create a group, or change its retries."""

    def fields() -> Callable[[], dict[str, Any]]:
        name = ui.input(view.t("column.group")).classes("w-full").props("outlined dense autofocus")
        retries = ui.number(view.t("column.retries"), value=16, min=-1, max=1000, precision=0).classes("w-full")
        return lambda: {"name": name.value, "retries": retries.value}

    asked = await ask(view, view.t("group.create"), "", fields, view.t("group.create"))
    if asked is not None:
        name, retries = str(asked["name"]).strip(), int(16 if asked["retries"] is None else asked["retries"])
        work = view.console.changes.create_group(view.visitor, view.cluster, name, retries)
        await view.attempt(work, view.t("done"))


async def group_page(view: View) -> None:
    """One group."""
    name = view.query.get("name", "")
    if not await view.cluster.has_group(name):
        title(view.t("group.unknown", name=name))
        empty(view.t("group.unknown.why"), "search_off")
        return
    title(name)
    with ui.row().classes("gap-2"):
        if view.visitor.may("group.reset"):
            ui.button(view.t("group.reset"), icon="restore", on_click=lambda: reset(view, name)).props(
                "outline no-caps"
            )
            ui.button(view.t("group.skip"), icon="skip_next", on_click=lambda: reset(view, name, skip=True)).props(
                "outline no-caps"
            )
        if view.visitor.may("group.delete"):
            ui.button(view.t("group.delete"), icon="delete", on_click=lambda: delete(view, name)).props(
                "outline no-caps color=negative"
            )
    tiles = Tiles()
    warnings = ui.column().classes("w-full gap-2")
    with panel(view.t("group.trend")):
        chosen = RangeChoice(view)
        with ui.element("div").classes("two"):
            with ui.column().classes("gap-0 min-w-0"):
                ui.label(view.t("column.lag")).classes("chart-name")
                chart = LineChart(view, view.t("column.lag"), chosen)
            with ui.column().classes("gap-0 min-w-0"):
                ui.label(view.t("group.behind")).classes("chart-name")
                behind = LineChart(view, view.t("group.behind"), chosen)
    with panel(view.t("group.queues")):
        queues = DataTable(
            view,
            f"{name}-lag",
            [
                Column("topic", view.t("column.topic"), link=lambda row: view.link("topic", name=row["topic"])),
                Column("broker", view.t("column.broker")),
                Column("queue", view.t("column.queue"), "number"),
                Column("offset", view.t("column.offset"), "number"),
                Column("end", view.t("column.end"), "number"),
                Column(
                    "lag", view.t("column.lag"), "number", color=lambda row: "deep-orange-10" if row["lag"] else None
                ),
                Column("behind", view.t("column.behind"), "duration"),
                Column("owner", view.t("column.owner"), "mono"),
                Column("blocked", view.t("column.blocked")),
            ],
            "key",
            sort="lag",
            descending=True,
            small=True,
        )
    with panel(view.t("group.clients")):
        clients = DataTable(
            view,
            f"{name}-clients",
            [
                Column("client", view.t("column.client"), "mono"),
                Column("address", view.t("column.address")),
                Column("language", view.t("column.language")),
                Column("version", view.t("column.version")),
                Column("subscription", view.t("column.subscription")),
            ],
            "client",
            select=True,
            small=True,
            empty=view.t("group.offline"),
        )
        with clients.bar:
            ui.button(view.t("group.running"), icon="info", on_click=lambda: running(view, name, clients)).props(
                "flat no-caps"
            )

    told: list[tuple[str, str]] = []

    def warn(lines: list[tuple[str, str]]) -> None:
        """Show lines by their class; those that stay are not drawn, nor read out, again."""
        if lines == told:
            return
        told[:] = lines
        warnings.clear()
        with warnings:
            for kind, line in lines:
                ui.label(line).classes(kind).props("role=alert" if kind == "problem" else "")

    async def load() -> None:
        found = await view.cluster.group(name)
        forms = {client: one.expressions for one in found.variants for client in one.clients}
        tiles.show(
            {
                view.t("column.lag"): count_text(found.lag),
                view.t("column.behind"): duration_text(found.behind_ms),
                view.t("column.clients"): str(len(found.clients)),
                view.t("group.rate"): f"{count_text(found.consume_tps)}/s",
                view.t("group.model"): f"{found.message_model or '-'}",
            }
        )
        lines = [("warn", view.t("group.abandoned"))] if found.abandoned else []
        if found.in_conflict:
            lines.append(("problem", view.t("group.conflict")))
            lines += [("mono", line) for line in conflict_lines(view, found.variants)]
        for blocked in found.blocked:
            where = f"{blocked.queue.topic} {blocked.queue.broker_name}:{blocked.queue.queue_id}"
            lines.append(("warn", f"{where}: {blocked.blocked}"))
        warn(lines)
        await queues.fill(
            [
                {
                    "key": f"{one.queue.topic} {one.queue.broker_name} {one.queue.queue_id}",
                    "topic": one.queue.topic,
                    "broker": one.queue.broker_name,
                    "queue": one.queue.queue_id,
                    "offset": one.consumer_offset,
                    "end": one.broker_offset,
                    "lag": one.lag,
                    "behind": one.behind_ms,
                    "owner": one.owner,
                    "blocked": one.blocked,
                }
                for one in found.queues
            ]
        )
        await clients.fill(
            [
                {
                    "client": one.client_id,
                    "address": one.client_addr,
                    "language": one.language,
                    "version": version_name(one.version),
                    "subscription": subscription_text(forms.get(one.client_id, {})),
                }
                for one in found.clients
            ]
        )
        now = view.console.now()
        chart.show(view.trend("lag", name, chosen.hours), (now, found.lag))
        behind.show(view.trend("behind", name, chosen.hours), (now, found.behind_ms / 1000))

    view.every(3.0, load)


def conflict_lines(view: View, variants: list[SubscriptionVariant]) -> list[str]:
    """Who differs from most clients of the group, and how."""
    usual = variants[0]
    lines = [view.t("group.conflict.usual", clients=some(usual.clients), what=subscription_text(usual.expressions))]
    for one in variants[1:MOST_VARIANTS]:
        parts = [
            view.t(
                "group.conflict.topic",
                topic=topic,
                own=one.expressions.get(topic, "-"),
                usual=usual.expressions.get(topic, "-"),
            )
            for topic in sorted(usual.expressions.keys() | one.expressions.keys())
            if one.expressions.get(topic) != usual.expressions.get(topic)
        ]
        lines.append(f"{some(one.clients)}: {'; '.join(parts)}")
    return lines


def some(names: Sequence[str]) -> str:
    """Names, or the first of many.

    >>> some(["a", "b"]), some([str(number) for number in range(30)])
    ('a, b', '0, 1, 2, 3, 4, 5, 6, 7, 8, 9 … (30)')
    """
    shown = ", ".join(names[:MOST_NAMES])
    return shown if len(names) <= MOST_NAMES else f"{shown} … ({len(names)})"


def subscription_text(expressions: dict[str, str]) -> str:
    """Topics and what is wanted of each."""
    return "; ".join(f"{topic}: {words}" for topic, words in sorted(expressions.items())) or "-"


async def running(view: View, group: str, clients: DataTable) -> None:
    """Show what a selected client reports about itself, with its threads."""
    if len(clients.selected) != 1:
        ui.notify(view.t("select.one"))
        return
    client = clients.selected[0]["client"]
    info = await view.attempt(view.cluster.admin.consumer_running_info(group, client, stack=True))
    if info is None:
        return
    with ui.dialog() as dialog, ui.card().classes("dialog"):
        dialog.props["aria-label"] = view.t("group.running")
        ui.label(client).classes("dialog-title mono")
        facts(sorted((name, without_secret(name, value)) for name, value in info.properties.items()))
        for queue, state in sorted(info.mq_table.items())[:100]:
            where = f"{queue.topic} {queue.broker_name}:{queue.queue_id}"
            text = view.t("group.held", count=state.cached_msg_count, offset=state.commit_offset)
            facts([(where, text)])
        ui.label(info.jstack or view.t("group.nostack")).classes("body-text")
        ui.button(view.t("close"), on_click=dialog.close).props("flat no-caps")
    dialog.on("hide", dialog.delete)
    dialog.open()


async def reset(view: View, group: str, *, skip: bool = False, topic: str | None = None) -> None:
    """Ask for a topic and a time, show where each queue would go, then move the group."""
    found = await view.attempt(view.cluster.admin.group_lag(group))  # as it is now: an answer that is kept may be old
    if found is None:
        return
    topics = sorted({one.queue.topic for one in found.queues if not one.queue.topic.startswith(RETRY_PREFIX)})
    if not topics:
        ui.notify(view.t("group.nothing"))
        return
    name = view.t("group.skip" if skip else "group.reset")

    def fields() -> Callable[[], dict[str, Any]]:
        first = topic if topic in topics else topics[0]
        choice = ui.select(topics, value=first, label=view.t("column.topic")).classes("w-full")
        time = None
        if not skip:
            time = ui.input(view.t("group.time"), value=time_text(view.console.now() - 3_600_000)).classes("w-full")
        return lambda: {"topic": choice.value, "time": None if time is None else time.value}

    asked = await ask(view, name, view.t("group.skip.text" if skip else "group.reset.text"), fields, view.t("preview"))
    if asked is None:
        return
    topic = str(asked["topic"])
    try:
        time = END if skip else parse_time(str(asked["time"]))
    except ValueError as error:
        ui.notify(view.t("problem", error=error), type="negative")
        return
    plan = await view.attempt(view.cluster.admin.reset_offline(group, topic, time, dry_run=True))
    if plan is None:
        return
    again, skipped = sum(max(0, one.messages) for one in plan), sum(max(0, -one.messages) for one in plan)
    text = view.t("group.plan", group=group, topic=topic, again=f"{again:,}", skipped=f"{skipped:,}")
    if await confirm(view, name, text, show=lambda: show_plan(view, plan)):
        work = view.console.changes.reset(view.visitor, view.cluster, group, topic, time, plan)
        await view.attempt(work, view.t("done"))


def parse_time(text: str) -> int:
    """A time in UTC as `2026-01-31 07:00:00`, in milliseconds; ValueError for others.

    >>> parse_time("1970-01-01 00:00:01")
    1000
    """
    return int(datetime.fromisoformat(text.strip()).replace(tzinfo=UTC).timestamp() * 1000)


def show_plan(view: View, plan: list[OffsetReset]) -> None:
    """Where each queue would go."""
    names = ("broker", "queue", "offset", "after")
    ui.table(
        columns=[{"name": one, "label": view.t(f"column.{one}"), "field": one, "align": "left"} for one in names],
        rows=[
            {
                "key": number,
                "broker": one.queue.broker_name,
                "queue": one.queue.queue_id,
                "offset": one.before,
                "after": one.after,
            }
            for number, one in enumerate(plan)
        ],
        row_key="key",
        pagination=10,
    ).props("flat bordered dense").classes("w-full")


async def delete(view: View, group: str) -> None:
    """Ask, then delete a group."""
    if await confirm(view, view.t("group.delete"), view.t("group.delete.text", name=group), word=group):
        work = view.console.changes.delete_group(view.visitor, view.cluster, group)
        if await view.made(work, view.t("done")):
            ui.navigate.to(view.link("groups"))
