"""Alarms: what is on, what was, when one begins, and who is told."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final

from nicegui import ui

from ariane.console.pages.dialogs import ask, confirm
from ariane.console.pages.frame import facts, panel, title
from ariane.console.pages.tables import Column, DataTable, Row
from ariane.console.pages.tiles import Tiles
from ariane.console.pages.view import View, time_text
from ariane.console.watch.alarms import Alarm, Notice, changed_rules
from ariane.errors import ArianeError

PAGE_OF: Final = {
    "lag": "group",
    "conflict": "group",
    "letters": "dead-letters",
    "disk": "broker",
    "missing": "cluster",
}


async def alarms_page(view: View) -> None:
    """All alarms of the cluster."""
    title(view.t("page.alarms"), view.t("alarms.lead"))
    tiles = Tiles()
    with panel(view.t("alarms.active")):
        active = DataTable(
            view, "alarms", columns(view, past=False), "key", sort="since", descending=True, empty=view.t("alarms.none")
        )
    with ui.element("div").classes("two"):
        with panel(view.t("alarms.rules")):
            rules = ui.column().classes("w-full")
            if view.visitor.may("alarms.change"):
                ui.button(view.t("alarms.change"), icon="tune", on_click=lambda: change(view)).props("outline no-caps")
        with panel(view.t("alarms.channels")):
            channels = ui.column().classes("w-full")
            if view.visitor.may("alarms.test") and view.console.notifier.channels:
                ui.button(view.t("alarms.test"), icon="send", on_click=lambda: test(view)).props("outline no-caps")
    with panel(view.t("alarms.past")):
        past = DataTable(
            view, "past-alarms", columns(view, past=True), "key", sort="ended", descending=True, small=True
        )

    async def load() -> None:
        alarms = view.console.alarms
        now = [one for one in alarms.active if one.cluster == view.cluster.name]
        current = alarms.rules.current
        quiet = current.is_quiet(view.console.now())
        tiles.show(
            {
                view.t("alarms.active"): f"{len(now)}",
                view.t("alarms.quiet"): view.t("yes" if quiet else "no"),
                view.t("alarms.channels"): f"{len(view.console.notifier.channels)}",
            }
        )
        await active.fill([row(view, one) for one in now])
        await past.fill([row(view, one) for one in alarms.past() if one.cluster == view.cluster.name])
        rules.clear()
        with rules:
            facts([(view.t(f"rule.{name}"), shown(view, value)) for name, value in asdict(current).items()])
        channels.clear()
        with channels:
            if not view.console.notifier.channels:
                ui.label(view.t("alarms.nowhere")).classes("soft")
            for one in view.console.notifier.channels:
                ui.label(f"{view.t('channel.' + one.name)} · {one.where}")
                ui.label(view.t("channel.sent", time=time_text(one.sent))).classes("soft")
                if one.error:
                    ui.label(one.error).classes("problem")

    view.every(5.0, load)


def columns(view: View, *, past: bool) -> list[Column]:
    """The columns of alarms."""
    return [
        Column("kind", view.t("column.what"), color=lambda _: None if past else "negative"),
        Column("name", view.t("column.subject"), link=lambda row: row["link"]),
        Column("value", view.t("column.value")),
        Column("since", view.t("column.since"), "time"),
        *([Column("ended", view.t("column.ended"), "time")] if past else []),
        Column("noticed", view.t("column.noticed"), "time"),
    ]


def row(view: View, one: Alarm) -> Row:
    """An alarm of a table."""
    page = PAGE_OF.get(one.kind, "cluster")
    query = {
        "group": {"name": one.name},
        "dead-letters": {"group": one.name},
        "broker": {"address": one.name.partition(" ")[2]},
    }
    return {
        "key": f"{one.kind} {one.name} {one.since}",
        "kind": view.t(f"alarm.kind.{one.kind}"),
        "name": one.name or one.cluster,
        "link": view.link(page, **query.get(page, {})),
        "value": f"{one.value:.0%}"
        if one.kind == "disk"
        else f"{one.value:,.0f}"
        if one.kind in ("lag", "letters")
        else None,
        "since": one.since,
        "ended": one.ended,
        "noticed": one.noticed,
    }


def shown(view: View, value: Any) -> str:
    """A rule as text."""
    return view.t("yes" if value else "no") if isinstance(value, bool) else f"{value}" if value != "" else "-"


async def change(view: View) -> None:
    """Ask for other rules, show what changes, then change them."""
    now = view.console.alarms.rules.current

    def fields() -> Callable[[], dict[str, Any]]:
        numbers = {
            name: ui.number(view.t(f"rule.{name}"), value=getattr(now, name), min=0, precision=0).classes("w-full")
            for name in ("lag", "letters", "disk_percent", "remind_hours")
        }
        switches = {
            name: ui.checkbox(view.t(f"rule.{name}"), value=getattr(now, name)) for name in ("missing", "conflicts")
        }
        texts = {
            name: ui.input(view.t(f"rule.{name}"), value=getattr(now, name)).classes("w-full")
            for name in ("quiet", "muted")
        }
        return lambda: {
            **{name: int(field.value or 0) for name, field in numbers.items()},
            **{name: bool(field.value) for name, field in switches.items()},
            **{name: str(field.value or "").strip() for name, field in texts.items()},
        }

    asked = await ask(view, view.t("alarms.change"), view.t("alarms.change.text"), fields, view.t("next"))
    if asked is None:
        return
    try:
        rules = changed_rules(now, asked)
    except ArianeError as error:
        ui.notify(str(error), type="negative")
        return
    changed = [
        f"{view.t('rule.' + name)}: {shown(view, before)} → {shown(view, asked[name])}"
        for name, before in asdict(now).items()
        if asked[name] != before
    ]
    if changed and await confirm(view, view.t("alarms.change"), "\n".join(changed)):
        await view.attempt(view.console.changes.change_rules(view.visitor, rules, now), view.t("done"))


async def test(view: View) -> None:
    """Ask, then send a notice that says it is a test."""
    if await confirm(view, view.t("alarms.test"), view.t("alarms.test.text")):
        notice = Notice(Alarm(view.cluster.name, "test", view.visitor.user.name, 0, view.console.now()), "begins")
        await view.attempt(view.console.changes.test_notices(view.visitor, [notice]), view.t("done"))
