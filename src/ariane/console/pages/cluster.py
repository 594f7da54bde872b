"""The cluster as a picture, and one broker: figures, options, draining, promotion."""

from collections.abc import Callable
from typing import Any

from nicegui import ui

from ariane.client.admin.brokers import BrokerStatus
from ariane.console.changes import SAFE_OPTIONS
from ariane.console.pages.dialogs import ask, confirm
from ariane.console.pages.frame import facts, panel, title
from ariane.console.pages.tables import Column, DataTable
from ariane.console.pages.view import View, bytes_text
from ariane.errors import ArianeError


def number(one: BrokerStatus, name: str) -> float:
    """A figure of a broker; 0 when it does not report it."""
    try:
        return float(one.stats.get(name) or 0)
    except ValueError:
        return 0.0


async def cluster_page(view: View) -> None:
    """Name servers, masters and slaves with live rates, lag between copies and disk."""
    title(view.t("page.cluster"), view.t("cluster.lead"))
    tiles = ui.element("div").classes("tiles")
    servers = ui.row().classes("w-full justify-center gap-2")
    ui.element("div").classes("wire")
    picture = ui.element("div").classes("map")

    async def load() -> None:
        brokers = await view.cluster.brokers()
        names = await view.cluster.admin.name_servers()
        masters = [one for one in brokers if one.broker_id == 0]
        tiles.clear()
        with tiles:
            tile(view.t("cluster.brokers"), str(len(brokers)))
            tile(view.t("cluster.silent"), str(sum(one.error is not None for one in brokers)))
            tile(view.t("cluster.in"), f"{sum(one.in_tps for one in masters):,.1f}/s")
            tile(view.t("cluster.out"), f"{sum(one.out_tps for one in masters):,.1f}/s")
            tile(
                view.t("cluster.disk"), f"{max((number(one, 'commitLogDiskRatio') for one in brokers), default=0):.0%}"
            )
        servers.clear()
        with servers:
            for name in names:
                ui.chip(name, icon="dns").props("outline color=primary")
        picture.clear()
        with picture:
            ends = {one.name: number(one, "commitLogMaxOffset") for one in masters}
            for one in brokers:
                broker_card(view, one, ends.get(one.name))
            if not brokers:
                ui.label(view.t("cluster.none")).classes("warn")

    view.every(3.0, load)


def tile(name: str, value: str) -> None:
    """A figure in large letters."""
    with ui.element("div").classes("tile"):
        ui.label(name).classes("tile-name")
        ui.label(value).classes("tile-value")


def broker_card(view: View, one: BrokerStatus, master_end: float | None) -> None:
    """A broker of the picture."""
    kind = "gone" if one.error is not None else "master" if one.broker_id == 0 else "slave"
    with ui.element("div").classes(f"broker-card {kind}"):
        with ui.row().classes("w-full items-center justify-between no-wrap"):
            link = ui.element("a").classes("broker-name")
            link.props["href"] = view.link("broker", address=one.address)
            with link:
                ui.label(one.name)
            role = view.t("broker.master") if one.broker_id == 0 else view.t("broker.slave", id=one.broker_id)
            ui.badge(role).props("color=primary" if one.broker_id == 0 else "color=secondary")
        ui.label(f"{one.address} · {one.version or '-'}").classes("soft")
        if one.error is not None:
            ui.label(one.error).classes("problem")
            return
        ui.label(view.t("broker.rates", incoming=f"{one.in_tps:,.1f}", outgoing=f"{one.out_tps:,.1f}"))
        ratio = number(one, "commitLogDiskRatio")
        bar = ui.linear_progress(min(1.0, max(0.0, ratio)), show_value=False, size="8px")
        bar.props("rounded color=negative" if ratio > 0.85 else "rounded")
        bar.props["aria-label"] = view.t("cluster.disk")
        ui.label(view.t("broker.disk", ratio=f"{ratio:.0%}")).classes("soft")
        if one.broker_id != 0 and master_end is not None:
            behind = max(0.0, master_end - number(one, "commitLogMaxOffset"))
            ui.label(view.t("broker.copy", bytes=bytes_text(behind))).classes("soft")


async def broker_page(view: View) -> None:
    """One broker."""
    address = view.query.get("address", "")
    one = next((status for status in await view.cluster.brokers() if status.address == address), None)
    if one is None:
        title(view.t("broker.unknown", address=address))
        return
    title(f"{one.name} · {address}")
    with ui.row().classes("gap-2"):
        if view.visitor.may("broker.drain") and one.broker_id == 0:
            for undo in (False, True):
                ui.button(
                    view.t("broker.undrain" if undo else "broker.drain"),
                    icon="play_arrow" if undo else "block",
                    on_click=lambda undo=undo: drain(view, one.name, undo=undo),
                ).props("outline no-caps")
        if view.visitor.may("broker.promote") and one.broker_id != 0:
            ui.button(view.t("broker.promote"), icon="upgrade", on_click=lambda: promote(view, one)).props(
                "outline no-caps"
            )
    with panel(view.t("broker.status")):
        facts(
            [
                (view.t("column.cluster"), one.cluster),
                (view.t("column.version"), one.version),
                (view.t("cluster.in"), f"{one.in_tps:,.1f}/s"),
                (view.t("cluster.out"), f"{one.out_tps:,.1f}/s"),
                (view.t("cluster.disk"), f"{number(one, 'commitLogDiskRatio'):.0%}"),
            ]
        )
    with ui.expansion(view.t("broker.figures")).classes("panel"):
        figures = DataTable(view, f"{one.name}-status", two_columns(view), "name", page=50)
    with panel(view.t("broker.options")):
        ui.label(view.t("broker.options.lead")).classes("soft")
        options = DataTable(
            view, f"{one.name}-options", [*two_columns(view), Column("safe", view.t("column.safe"))], "name"
        )
        if view.visitor.may("broker.configure"):
            with options.bar:
                ui.button(view.t("broker.configure"), icon="tune", on_click=lambda: configure(view, address)).props(
                    "flat no-caps"
                )

    async def load() -> None:
        stats = await view.cluster.ask(f"stats {address}", 2.0, lambda: view.cluster.admin.broker_stats(address))
        await figures.fill([{"name": name, "value": value} for name, value in stats.items()])
        try:
            found = await view.cluster.ask(
                f"options {address}", 5.0, lambda: view.cluster.admin.broker_options(address)
            )
        except ArianeError as error:
            found = {"": str(error)}
        yes = view.t("yes")
        rows = [
            {"name": name, "value": shown_option(name, value), "safe": yes if name in SAFE_OPTIONS else ""}
            for name, value in found.items()
        ]
        await options.fill(rows)

    view.every(5.0, load)


def shown_option(name: str, value: str) -> str:
    """The value of an option as a page shows it: no secrets."""
    secret = any(word in name.lower() for word in ("secret", "password", "token"))
    return "***" if secret and value else value


def two_columns(view: View) -> list[Column]:
    """Names and values."""
    return [Column("name", view.t("column.name"), "mono"), Column("value", view.t("column.value"), "mono")]


async def drain(view: View, name: str, *, undo: bool) -> None:
    """Ask, then take a broker out of the routes for writing, or let it back."""
    key = "broker.undrain" if undo else "broker.drain"
    if await confirm(view, view.t(key), view.t(f"{key}.text", name=name), word=None if undo else name):
        work = view.console.changes.drain(view.visitor, view.cluster, name, undo=undo)
        await view.attempt(work, view.t("done"))


async def promote(view: View, one: BrokerStatus) -> None:
    """Ask, then make a slave the master."""
    if await confirm(view, view.t("broker.promote"), view.t("broker.promote.text", name=one.address), word=one.address):
        work = view.console.changes.promote(view.visitor, view.cluster, one.address, one.name)
        await view.attempt(work, view.t("done"))


async def configure(view: View, address: str) -> None:
    """Ask for an option and its value, show both values, then change it."""
    found = await view.attempt(view.cluster.admin.broker_options(address))
    if found is None:
        return
    known = sorted(SAFE_OPTIONS & found.keys())

    def fields() -> Callable[[], dict[str, Any]]:
        option = ui.select(known, label=view.t("column.name"), value=known[0], with_input=True).classes("w-full")
        value = ui.input(view.t("column.value"), value=found[known[0]]).classes("w-full")
        option.on_value_change(lambda event: value.set_value(found.get(event.value, "")))
        return lambda: {"option": option.value, "value": value.value}

    asked = await ask(view, view.t("broker.configure"), "", fields, view.t("next"))
    if asked is None:
        return
    option, value = str(asked["option"]), str(asked["value"])
    text = view.t("broker.configure.text", option=option, before=found.get(option, ""), after=value, address=address)
    if await confirm(view, view.t("broker.configure"), text):
        work = view.console.changes.configure_broker(view.visitor, view.cluster, address, option, value)
        await view.attempt(work, view.t("done"))
