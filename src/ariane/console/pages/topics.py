"""Topics: the list, and one topic with its queues, route, groups and changes."""

import asyncio
from collections.abc import Callable
from typing import Any, Final

from nicegui import ui

from ariane.console.pages.cluster import tile
from ariane.console.pages.dialogs import ask, confirm
from ariane.console.pages.frame import panel, title
from ariane.console.pages.tables import Column, DataTable, Row
from ariane.console.pages.view import View
from ariane.protocol.bodies import READ, WRITE

KINDS: Final = ("normal", "retry", "dead-letter", "delay", "transaction", "system")
COLORS: Final = {"normal": "primary", "retry": "orange-9", "dead-letter": "negative"}
PERMS: Final = {6: "RW", 4: "R", 2: "W", 0: "-"}


def perm_text(perm: int) -> str:
    """A permission as letters."""
    return ("R" if perm & READ else "") + ("W" if perm & WRITE else "") or "-"


async def topics_page(view: View) -> None:
    """All topics."""
    title(view.t("page.topics"), view.t("topics.lead"))
    chosen = {kind: kind in ("normal", "retry", "dead-letter") for kind in KINDS}
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
    table = DataTable(view, "topics", columns, "name")
    if view.visitor.may("topic.create"):
        with table.bar:
            ui.button(view.t("topic.create"), icon="add", on_click=lambda: create(view)).props("unelevated no-caps")

    async def choose(kind: str, wanted: bool) -> None:
        chosen[kind] = bool(wanted)
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
        if await view.attempt(done(work), view.t("done")):
            ui.navigate.to(view.link("topic", name=name))


async def done(work: Any) -> bool:
    """Await a change; True when it was made."""
    await work
    return True


async def topic_page(view: View) -> None:
    """One topic."""
    name = view.query.get("name", "")
    row = next((one for one in await view.cluster.topics() if one.name == name), None)
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
        if view.visitor.may("topic.delete") and row.kind not in ("system", "delay", "transaction"):
            ui.button(view.t("topic.delete"), icon="delete", on_click=lambda: delete(view, name)).props(
                "outline no-caps color=negative"
            )
        if "messages" in view.console.pages:
            ui.button(
                view.t("page.messages"), icon="mail", on_click=lambda: ui.navigate.to(view.link("messages", topic=name))
            ).props("flat no-caps")
    tiles = ui.element("div").classes("tiles")
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
        )
    with panel(view.t("topic.groups")):
        groups = DataTable(
            view,
            "groups",
            [
                Column("group", view.t("column.group"), link=lambda one: view.link("group", name=one["group"])),
                Column("lag", view.t("column.lag"), "number"),
            ],
            "group",
        )
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
        tiles.clear()
        with tiles:
            tile(view.t("column.messages"), f"{sum(one['messages'] for one in rows):,}")
            tile(view.t("topic.rate"), "…" if rate is None else f"{max(0.0, rate):,.1f}/s")
            tile(view.t("column.queues"), f"{len(rows)}")
            tile(view.t("column.groups"), f"{len(names)}")
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
    broker = brokers[0]
    masters = await view.cluster.master_names()
    configs = {
        one: (await view.cluster.admin.topic_configs(masters[one])).topic_config_table[topic]
        for one in brokers
        if one in masters
    }

    def fields() -> Callable[[], dict[str, Any]]:
        where = ui.select(sorted(configs), value=broker, label=view.t("column.broker")).classes("w-full")
        read = ui.number(
            view.t("column.read_queues"), value=configs[broker].read_queue_nums, min=1, max=1024, precision=0
        )
        write = ui.number(
            view.t("column.write_queues"), value=configs[broker].write_queue_nums, min=0, max=1024, precision=0
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
    text = view.t(
        "topic.change.text",
        topic=topic,
        broker=broker,
        before=f"{now.read_queue_nums}/{now.write_queue_nums} {perm_text(now.perm)}",
        after=f"{read}/{write} {perm_text(perm)}",
    )
    if read < now.read_queue_nums:
        text += "\n" + view.t("topic.shrink.warning")
    if await confirm(view, view.t("topic.change"), text, word=topic if read < now.read_queue_nums else None):
        work = view.console.changes.change_topic(view.visitor, view.cluster, topic, broker, read, write, perm)
        await view.attempt(work, view.t("done"))


async def delete(view: View, topic: str) -> None:
    """Ask, then delete a topic."""
    if await confirm(view, view.t("topic.delete"), view.t("topic.delete.text", name=topic), word=topic):
        work = view.console.changes.delete_topic(view.visitor, view.cluster, topic)
        if await view.attempt(done(work), view.t("done")):
            ui.navigate.to(view.link("topics"))
