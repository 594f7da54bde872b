"""Topics: the list, and one topic with its queues, route, groups and changes."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from nicegui import ui

from ariane.console.pages.charts import LineChart, RangeChoice
from ariane.console.pages.dialogs import ask, confirm
from ariane.console.pages.frame import panel, title
from ariane.console.pages.groups import reset
from ariane.console.pages.tables import Column, DataTable, Row
from ariane.console.pages.tiles import Tiles
from ariane.console.pages.view import View, count_text
from ariane.protocol.bodies import READ, WRITE

KINDS: Final = ("normal", "retry", "dead-letter", "delay", "transaction", "system")
COLORS: Final = {"normal": "primary", "retry": "deep-orange-10", "dead-letter": "negative"}
PERMS: Final = {6: "RW", 4: "R", 2: "W", 0: "-"}


def perm_text(perm: int) -> str:
    """A permission as letters."""
    return ("R" if perm & READ else "") + ("W" if perm & WRITE else "") or "-"


async def topics_page(view: View) -> None:
    """All topics."""
    title(view.t("page.topics"), view.t("topics.lead"))
    wanted = view.query.get("kinds", "normal,retry,dead-letter").split(",")
    chosen = {kind: kind in wanted for kind in KINDS}
    with ui.row().classes("gap-3"):
        for kind in KINDS:
            ui.checkbox(
                view.t(f"kind.{kind}"), value=chosen[kind], on_change=lambda event, kind=kind: choose(kind, event.value)
            )
    columns = [
        Column("name", view.t("column.topic"), link=lambda row: view.link("topic", name=row["name"])),
        Column("kind", view.t("column.kind"), color=lambda row: COLORS.get(row["kind_name"], "secondary")),
        Column("brokers", view.t("column.brokers")),
        Column("read", view.t("column.read_queues"), "number"),
        Column("write", view.t("column.write_queues"), "number"),
        Column("perm", view.t("column.perm")),
    ]
    table = DataTable(view, "topics", columns, "name", empty=view.t("topics.none"))
    if view.visitor.may("topic.create"):
        with table.bar:
            ui.button(view.t("topic.create"), icon="add", on_click=lambda: create(view)).props("unelevated no-caps")

    async def choose(kind: str, wanted: bool) -> None:
        chosen[kind] = bool(wanted)
        view.put(kinds=",".join(kind for kind, shown in chosen.items() if shown) or "none")
        await table.show()

    await table.where(lambda row: chosen.get(row["kind_name"], True))

    async def load() -> None:
        rows: list[Row] = [
            {
                "name": one.name,
                "kind": view.t(f"kind.{one.kind}"),
                "kind_name": one.kind,
                "brokers": ", ".join(one.brokers),
                "read": one.read_queues,
                "write": one.write_queues,
                "perm": perm_text(one.perm),
            }
            for one in await view.cluster.topics()
        ]
        await table.fill(rows)

    view.every(5.0, load)


async def create(view: View) -> None:
    """Ask for a name and queues, then create a topic."""

    def fields() -> Callable[[], dict[str, Any]]:
        name = ui.input(view.t("column.topic")).classes("w-full").props("outlined dense autofocus")
        queues = ui.number(view.t("topic.queues"), value=8, min=1, max=1024, precision=0).classes("w-full")
        queues.props("outlined dense")
        return lambda: {"name": name.value, "queues": queues.value}

    asked = await ask(view, view.t("topic.create"), view.t("topic.create.text"), fields, view.t("topic.create"))
    if asked is not None:
        name, queues = str(asked["name"]).strip(), int(asked["queues"] or 8)
        work = view.console.changes.create_topic(view.visitor, view.cluster, name, queues)
        if await view.made(work, view.t("done")):
            ui.navigate.to(view.link("topic", name=name))


async def topic_page(view: View) -> None:
    """One topic."""
    name = view.query.get("name", "")
    row = await view.cluster.topic(name)
    if row is None:
        title(view.t("topic.unknown", name=name))
        return
    title(name, view.t(f"kind.{row.kind}"))
    with ui.row().classes("gap-2"):
        if view.visitor.may("message.send") and row.kind == "normal":
            ui.button(view.t("topic.send"), icon="send", on_click=lambda: send(view, name)).props("outline no-caps")
        if view.visitor.may("topic.change"):
            change_button = ui.button(
                view.t("topic.change"), icon="tune", on_click=lambda: change(view, name, row.brokers)
            )
            change_button.props("outline no-caps")
            ui.button(view.t("topic.remove"), icon="compress", on_click=lambda: shrink(view, name, row.brokers)).props(
                "outline no-caps"
            )
        if view.visitor.may("topic.delete") and row.kind not in ("system", "delay", "transaction"):
            ui.button(view.t("topic.delete"), icon="delete", on_click=lambda: delete(view, name)).props(
                "outline no-caps color=negative"
            )
        if "messages" in view.console.pages:
            ui.button(
                view.t("page.messages"), icon="mail", on_click=lambda: ui.navigate.to(view.link("messages", topic=name))
            ).props("flat no-caps")
    tiles = Tiles()
    with panel(view.t("topic.trend")):
        chosen = RangeChoice(view)
        chart = LineChart(view, view.t("history.in"), chosen)
    with panel(view.t("topic.status")):
        queues = DataTable(
            view,
            "queues",
            [
                Column("broker", view.t("column.broker")),
                Column("queue", view.t("column.queue"), "number"),
                Column("first", view.t("column.first"), "number"),
                Column("end", view.t("column.end"), "number"),
                Column("messages", view.t("column.messages"), "number"),
                Column("last", view.t("column.last_stored"), "time"),
            ],
            "key",
            sort="broker",
            small=True,
        )
    with panel(view.t("topic.route")):
        route = DataTable(
            view,
            "route",
            [
                Column("broker", view.t("column.broker")),
                Column("addresses", view.t("column.addresses")),
                Column("read", view.t("column.read_queues"), "number"),
                Column("write", view.t("column.write_queues"), "number"),
                Column("perm", view.t("column.perm")),
            ],
            "broker",
            small=True,
        )
    with panel(view.t("topic.groups")):
        groups = DataTable(
            view,
            "groups",
            [
                Column("group", view.t("column.group"), link=lambda one: view.link("group", name=one["group"])),
                Column(
                    "lag", view.t("column.lag"), "number", color=lambda one: "deep-orange-10" if one["lag"] else None
                ),
            ],
            "group",
            small=True,
            select=view.visitor.may("group.reset"),
            empty=view.t("topic.unread"),
        )
        if view.visitor.may("group.reset"):
            with groups.bar:
                ui.button(view.t("group.reset"), icon="restore", on_click=lambda: reset_one()).props("flat no-caps")

    async def reset_one() -> None:
        if len(groups.selected) != 1:
            ui.notify(view.t("select.one"))
            return
        await reset(view, groups.selected[0]["group"], topic=name)

    earlier: dict[str, float] = {}

    async def load() -> None:
        admin = view.cluster.admin
        stats, data, names = await asyncio.gather(
            view.cluster.ask(f"stats of {name}", 2.0, lambda: admin.topic_stats(name)),
            view.cluster.ask(f"route of {name}", 5.0, lambda: admin.route(name)),
            view.cluster.ask(f"groups of {name}", 5.0, lambda: admin.topic_groups(name)),
        )
        rows: list[Row] = [
            {
                "key": f"{queue.broker_name}:{queue.queue_id}",
                "broker": queue.broker_name,
                "queue": queue.queue_id,
                "first": offsets.min_offset,
                "end": offsets.max_offset,
                "messages": offsets.max_offset - offsets.min_offset,
                "last": offsets.last_update_timestamp,
            }
            for queue, offsets in stats.offset_table.items()
        ]
        end, now = sum(one["end"] for one in rows), asyncio.get_running_loop().time()
        rate = (end - earlier["end"]) / (now - earlier["time"]) if earlier and now > earlier["time"] else None
        earlier.update(end=end, time=now)
        tiles.show(
            {
                view.t("column.messages"): count_text(sum(one["messages"] for one in rows)),
                view.t("topic.rate"): "…" if rate is None else f"{count_text(max(0.0, rate))}/s",
                view.t("column.queues"): f"{len(rows)}",
                view.t("column.groups"): f"{len(names)}",
            }
        )
        point = None if rate is None else (view.console.now(), max(0.0, rate))
        chart.show(view.trend("stored", name, chosen.hours), point)
        await queues.fill(rows)
        addresses = {one.broker_name: one.broker_addrs for one in data.broker_datas}
        await route.fill(
            [
                {
                    "broker": one.broker_name,
                    "addresses": ", ".join(
                        f"{key}: {value}" for key, value in sorted(addresses.get(one.broker_name, {}).items())
                    ),
                    "read": one.read_queue_nums,
                    "write": one.write_queue_nums,
                    "perm": perm_text(one.perm),
                }
                for one in data.queue_datas
            ]
        )
        shown = names[:50]  # each needs a request
        lags = await asyncio.gather(*(lag_of(view, group, name) for group in shown))
        await groups.fill([{"group": group, "lag": lag} for group, lag in zip(shown, lags, strict=True)])

    view.every(3.0, load)


async def lag_of(view: View, group: str, topic: str) -> int:
    """The lag of a group in a topic."""
    return await view.cluster.ask(f"lag {group} {topic}", 3.0, lambda: view.cluster.admin.lag(group, topic))


async def send(view: View, topic: str) -> None:
    """Ask for a message, then send it."""

    def fields() -> Callable[[], dict[str, Any]]:
        body = ui.textarea(view.t("column.body")).classes("w-full").props("outlined autofocus")
        tags = ui.input(view.t("column.tags")).classes("w-full").props("outlined dense")
        keys = ui.input(view.t("column.keys")).classes("w-full").props("outlined dense")
        return lambda: {"body": body.value or "", "tags": tags.value or "", "keys": keys.value or ""}

    asked = await ask(view, view.t("topic.send"), topic, fields, view.t("topic.send"))
    if asked is not None:
        changes = view.console.changes
        sent = await view.attempt(
            changes.send(view.visitor, view.cluster, topic, asked["body"], asked["tags"], asked["keys"])
        )
        if sent is not None:
            ui.notify(view.t("topic.sent", id=sent.message_id), type="positive")


async def change(view: View, topic: str, brokers: tuple[str, ...]) -> None:
    """Change queues and permission on one broker; a shrink explains its safe order."""
    masters = await view.cluster.master_names()
    tables = {one: await view.cluster.admin.topic_configs(masters[one]) for one in brokers if one in masters}
    configs = {
        one: table.topic_config_table[topic] for one, table in tables.items() if topic in table.topic_config_table
    }
    if not configs:
        ui.notify(view.t("topic.nowhere"), type="negative")
        return
    broker = min(configs)

    def fields() -> Callable[[], dict[str, Any]]:
        where = ui.select(sorted(configs), value=broker, label=view.t("column.broker")).classes("w-full")
        read, write = (
            ui.number(view.t(label), value=value, min=least, max=1024, precision=0).classes("w-full")
            for label, value, least in (
                ("column.read_queues", configs[broker].read_queue_nums, 1),
                ("column.write_queues", configs[broker].write_queue_nums, 0),
            )
        )
        perm = ui.select(PERMS, value=configs[broker].perm & 6, label=view.t("column.perm")).classes("w-full")

        def other(event: Any) -> None:
            config = configs[event.value]
            read.set_value(config.read_queue_nums)
            write.set_value(config.write_queue_nums)
            perm.set_value(config.perm & 6)

        where.on_value_change(other)
        return lambda: {"broker": where.value, "read": read.value, "write": write.value, "perm": perm.value}

    asked = await ask(view, view.t("topic.change"), view.t("topic.shrink"), fields, view.t("next"))
    if asked is None:
        return
    read, write, perm, broker = (
        int(asked["read"] or 0),
        int(asked["write"] or 0),
        int(asked["perm"]),
        str(asked["broker"]),
    )
    now = configs[broker]
    if read < now.read_queue_nums:
        ui.notify(view.t("topic.shrink.use"), type="warning")
        return
    text = view.t(
        "topic.change.text",
        topic=topic,
        broker=broker,
        before=f"{now.read_queue_nums}/{now.write_queue_nums} {perm_text(now.perm)}",
        after=f"{read}/{write} {perm_text(perm)}",
    )
    if await confirm(view, view.t("topic.change"), text):
        before = {"read": now.read_queue_nums, "write": now.write_queue_nums, "perm": now.perm}
        work = view.console.changes.change_topic(view.visitor, view.cluster, topic, broker, read, write, perm, before)
        await view.attempt(work, view.t("done"))


async def shrink(view: View, topic: str, brokers: tuple[str, ...]) -> None:
    """Remove queues in the order that loses nothing: show where it stands, and offer the next step."""
    masters = await view.cluster.master_names()

    def fields() -> Callable[[], dict[str, Any]]:
        known = sorted(one for one in brokers if one in masters)
        where = ui.select(known, value=known[0] if known else None, label=view.t("column.broker")).classes("w-full")
        count = ui.number(view.t("topic.remove.left"), value=1, min=1, max=1024, precision=0).classes("w-full")
        return lambda: {"broker": where.value, "count": count.value}

    asked = await ask(view, view.t("topic.remove"), view.t("topic.shrink"), fields, view.t("next"))
    if asked is None or not asked["broker"]:
        return
    broker, count = str(asked["broker"]), max(1, int(asked["count"] or 1))
    found = await view.attempt(view.cluster.admin.topic_configs(masters[broker]))
    waiting = await view.attempt(view.cluster.unconsumed(topic, broker, count))
    if found is None or waiting is None:
        return
    now = found.topic_config_table.get(topic)
    if now is None:
        ui.notify(view.t("topic.nowhere"), type="negative")
        return
    if count >= now.read_queue_nums:
        ui.notify(view.t("topic.remove.none", count=now.read_queue_nums))
        return
    unwritten, consumed = now.write_queue_nums <= count, not waiting
    groups = ", ".join(f"{group}: {lag:,}" for group, lag in sorted(waiting.items())[:10])

    def steps() -> None:
        with ui.element("div").classes("steps"):
            step(view.t("topic.remove.write", count=count), done=unwritten)
            step(view.t("topic.remove.wait") + (f" ({groups})" if groups else ""), done=unwritten and consumed)
            step(view.t("topic.remove.read", count=count), done=False)

    if unwritten and not consumed:
        await confirm(view, view.t("topic.remove"), view.t("topic.remove.later"), show=steps)
        return
    key = "topic.remove.now.read" if unwritten else "topic.remove.now.write"
    if await confirm(
        view, view.t("topic.remove"), view.t(key, count=count), show=steps, word=topic if unwritten else None
    ):
        before = {"read": now.read_queue_nums, "write": now.write_queue_nums, "perm": now.perm}
        read = count if unwritten else now.read_queue_nums
        work = view.console.changes.change_topic(
            view.visitor, view.cluster, topic, broker, read, min(count, now.write_queue_nums), now.perm, before
        )
        await view.attempt(work, view.t("done" if unwritten else "topic.remove.again"))


def step(text: str, *, done: bool) -> None:
    """A step of a plan."""
    with ui.element("div").classes("step"):
        ui.icon("check_circle" if done else "radio_button_unchecked", color="positive" if done else "secondary")
        ui.label(text)


async def delete(view: View, topic: str) -> None:
    """Ask, then delete a topic."""
    if await confirm(view, view.t("topic.delete"), view.t("topic.delete.text", name=topic), word=topic):
        work = view.console.changes.delete_topic(view.visitor, view.cluster, topic)
        if await view.made(work, view.t("done")):
            ui.navigate.to(view.link("topics"))
