"""The cluster as a picture, and one broker: figures, options, draining, promotion."""

from collections.abc import Callable
from typing import Any, Final

from nicegui import ui

from ariane.client.admin.brokers import BrokerStatus
from ariane.console.changes import SAFE_OPTIONS
from ariane.console.pages.charts import LineChart, RangeChoice, sparkline
from ariane.console.pages.dialogs import ask, confirm
from ariane.console.pages.frame import empty, panel, title
from ariane.console.pages.tables import Column, DataTable
from ariane.console.pages.tiles import Tiles
from ariane.console.pages.view import View, bytes_text, count_text, without_secret
from ariane.console.watch.sampler import broker_key, disk_ratio
from ariane.errors import ArianeError

LATE_BYTES: Final = 1 << 20  # a copy that lacks more is marked


def number(one: BrokerStatus, name: str) -> float:
    """A figure of a broker; 0 when it does not report it."""
    try:
        return float(one.stats.get(name) or 0)
    except ValueError:
        return 0.0


async def cluster_page(view: View) -> None:
    """Name servers, and broker sets with their copies: live rates, lag between copies, disk."""
    title(view.t("page.cluster"), view.t("cluster.lead"))
    tiles = Tiles()
    with ui.element("section").classes("topology") as topology:
        topology.props["aria-label"] = view.t("cluster.picture")
    drawn = Topology(view, topology)

    async def load() -> None:
        brokers = await view.cluster.brokers()
        names = await view.cluster.name_servers()
        ledgers = await view.cluster.ledger_groups()
        masters = [one for one in brokers if one.broker_id == 0]
        lag = sum(one.lag for one in await view.cluster.groups())
        alarms = [one for one in view.console.alarms.active if one.cluster == view.cluster.name]
        known = {broker_key(one) for one in brokers} | {one.name for one in alarms if one.kind == "missing"}
        tiles.show(
            {
                view.t("cluster.brokers"): f"{sum(one.error is None for one in brokers)} / {len(known)}",
                view.t("cluster.in"): f"{count_text(sum(one.in_tps for one in masters))}/s",
                view.t("cluster.out"): f"{count_text(sum(one.out_tps for one in masters))}/s",
                view.t("cluster.lag"): count_text(lag),
                view.t("cluster.disk"): f"{max((disk_ratio(one) for one in brokers), default=0):.0%}",
                view.t("cluster.alarms"): f"{len(alarms)}",
            }
        )
        drawn.show(names, brokers, ledgers)

    view.every(3.0, load)


class Topology:
    """The picture: drawn again when brokers come or go, otherwise only its numbers change."""

    def __init__(self, view: View, place: ui.element) -> None:
        self._view = view
        self._place = place
        self._shape: object = None
        self._cards: dict[str, BrokerCard] = {}

    def show(self, names: dict[str, int | None], brokers: list[BrokerStatus], ledgers: set[str]) -> None:
        """Show the brokers as they are now."""
        sets: dict[str, list[BrokerStatus]] = {}
        for one in brokers:
            sets.setdefault(one.name, []).append(one)
        shape = names, [(one.name, one.broker_id, one.address, one.error is None) for one in brokers], ledgers
        if shape != self._shape:
            self._shape = shape
            self._draw(names, sets, ledgers)
        for copies in sets.values():
            end = next(
                (number(one, "commitLogMaxOffset") for one in copies if one.broker_id == 0 and not one.error), None
            )
            for one in copies:
                self._cards[one.address].show(one, end)

    def _draw(self, names: dict[str, int | None], sets: dict[str, list[BrokerStatus]], ledgers: set[str]) -> None:
        view = self._view
        self._place.clear()
        self._cards = {}
        with self._place:
            with ui.element("div").classes("servers"):
                most = max((count or 0 for count in names.values()), default=0)
                for name, count in names.items():
                    good = count is not None and count == most  # one that knows fewer brokers hides them from clients
                    with ui.element("div").classes("server" if good else "server gone"):
                        ui.icon("dns").props("aria-hidden=true")
                        ui.label(name)
                        if not good:
                            key = "cluster.server.silent" if count is None else "cluster.server.fewer"
                            ui.label(view.t(key, count=count, most=most)).classes("problem")
            if not sets:
                empty(view.t("cluster.none"), "cloud_off")
                return
            ui.element("div").classes("trunk")
            with ui.element("div").classes("sets"):
                for name, copies in sets.items():
                    with ui.element("div").classes("set"), ui.element("div").classes("set-box"):
                        with ui.element("div").classes("set-name"):
                            ui.label(name).classes("set-title")
                            led = any(one.broker_id == 0 and one.error is None for one in copies)
                            kind = "ledger" if name in ledgers else "set" if len(copies) > 1 else "single"
                            kind = kind if led else "headless"
                            ui.label(view.t(f"cluster.{kind}")).classes("soft" if led else "problem w-auto")
                        for one in copies:
                            self._cards[one.address] = BrokerCard(view, one, ledger=name in ledgers)


class BrokerCard:
    """A broker of the picture, and above a copy what it lacks."""

    def __init__(self, view: View, one: BrokerStatus, *, ledger: bool) -> None:
        self._view = view
        self._copy: ui.element | None = None
        if one.broker_id != 0:
            with ui.element("div").classes("copy") as self._copy:
                ui.icon("south").props("aria-hidden=true")
                self._behind = ui.label()
        kind = "gone" if one.error is not None else "master" if one.broker_id == 0 else "slave"
        roles = ("broker.leader", "broker.follower") if ledger else ("broker.master", "broker.slave")
        with ui.element("div").classes(f"broker-card {kind}"):
            with ui.row().classes("w-full items-center gap-2 no-wrap"):
                ui.element("span").classes("dot")
                link = ui.element("a").classes("broker-name")
                link.props["href"] = view.link("broker", address=one.address)
                with link:
                    ui.label(one.address)
                ui.label(view.t(roles[0] if one.broker_id == 0 else roles[1], id=one.broker_id)).classes(
                    "badge-role ml-auto"
                )
            if one.error is not None:
                ui.label(one.error).classes("problem")
                return
            with ui.element("div").classes("rates"):
                ui.icon("south_east").classes("rate-icon").props("aria-hidden=true")
                self._incoming = ui.label()
                ui.icon("north_east").classes("rate-icon").props("aria-hidden=true")
                self._outgoing = ui.label()
            sparkline(view.trend("in", broker_key(one), 1.0))
            self._bar = ui.linear_progress(0, show_value=False, size="6px").props("rounded")
            self._bar.props["aria-label"] = view.t("cluster.disk")
            self._disk = ui.label().classes("soft")

    def show(self, one: BrokerStatus, end: float | None) -> None:
        """Show the figures of now."""
        view = self._view
        if self._copy is not None:
            behind = None if end is None or one.error else max(0.0, end - number(one, "commitLogMaxOffset"))
            late = behind is None or behind > LATE_BYTES
            self._copy.classes(add="late" if late else "", remove="" if late else "late")
            self._behind.set_text(
                view.t("broker.copy.unknown") if behind is None
                else view.t("broker.copy.same") if behind == 0
                else view.t("broker.copy", bytes=bytes_text(behind))
            )  # fmt: skip
        if one.error is not None:
            return
        self._incoming.set_text(view.t("broker.in", rate=count_text(one.in_tps)))
        self._outgoing.set_text(view.t("broker.out", rate=count_text(one.out_tps)))
        ratio = disk_ratio(one)
        self._bar.set_value(round(ratio, 3))
        self._bar.props("color=negative" if ratio > 0.85 else "color=primary")
        self._disk.set_text(view.t("broker.disk", ratio=f"{ratio:.0%}", version=one.version or "-"))


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
        ledger = one.name in await view.cluster.ledger_groups()  # its members elect their leader
        if view.visitor.may("broker.promote") and one.broker_id != 0 and not ledger:
            ui.button(view.t("broker.promote"), icon="upgrade", on_click=lambda: promote(view, one)).props(
                "outline no-caps"
            )
    tiles = Tiles()
    with panel(view.t("broker.trend")):
        chosen = RangeChoice(view)
        with ui.element("div").classes("two"):
            with ui.column().classes("gap-0 min-w-0"):
                ui.label(view.t("broker.rates")).classes("chart-name")
                rates = LineChart(view, view.t("broker.rates"), chosen)
            with ui.column().classes("gap-0 min-w-0"):
                ui.label(view.t("history.disk")).classes("chart-name")
                disk = LineChart(view, view.t("cluster.disk"), chosen, percent=True)
    with ui.expansion(view.t("broker.figures")).classes("panel"):
        figures = DataTable(view, f"{one.name}-status", two_columns(view), "name", page=50, small=True)
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
        now = next((status for status in await view.cluster.brokers() if status.address == address), one)
        tiles.show(
            {
                view.t("cluster.in"): f"{count_text(now.in_tps)}/s",
                view.t("cluster.out"): f"{count_text(now.out_tps)}/s",
                view.t("cluster.disk"): f"{disk_ratio(now):.0%}",
                view.t("broker.log"): bytes_text(number(now, "commitLogMaxOffset") - number(now, "commitLogMinOffset")),
                view.t("column.version"): now.version or "-",
                view.t("column.cluster"): now.cluster,
            }
        )
        key = broker_key(one)
        rates.show_all(
            {
                view.t("cluster.in"): view.trend("in", key, chosen.hours),
                view.t("cluster.out"): view.trend("out", key, chosen.hours),
            }
        )
        ratios = [(time, value * 100) for time, value in view.trend("disk", key, chosen.hours)]
        disk.show_all({view.t("cluster.disk"): ratios})
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
            {"name": name, "value": without_secret(name, value), "safe": yes if name in SAFE_OPTIONS else ""}
            for name, value in found.items()
        ]
        await options.fill(rows)

    view.every(5.0, load)


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
        before = found.get(option, "")
        work = view.console.changes.configure_broker(view.visitor, view.cluster, address, option, value, before)
        await view.attempt(work, view.t("done"))
