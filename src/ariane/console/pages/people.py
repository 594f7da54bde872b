"""Users of the console, and the log of what they did."""

import json
from collections.abc import Callable
from typing import Any

from nicegui import ui

from ariane.console.pages.dialogs import ask, confirm, show_once
from ariane.console.pages.frame import title
from ariane.console.pages.tables import Column, DataTable
from ariane.console.pages.view import View
from ariane.console.rights import Role


async def audit_page(view: View) -> None:
    """The newest entries of the audit log."""
    title(view.t("page.audit"), view.t("audit.lead"))
    columns = [
        Column("time", view.t("column.time"), "time"),
        Column("user", view.t("column.user")),
        Column("address", view.t("column.address")),
        Column("what", view.t("column.what")),
        Column("cluster", view.t("column.cluster")),
        Column("subject", view.t("column.subject")),
        Column("outcome", view.t("column.outcome"), color=lambda row: None if row["outcome"] == "done" else "negative"),
        Column("before", view.t("column.before"), "mono"),
        Column("after", view.t("column.after"), "mono"),
    ]
    table = DataTable(view, "audit", columns, "key", sort="time", descending=True)

    async def load() -> None:
        rows = [
            {
                "key": number,
                "time": one.time,
                "user": one.user,
                "address": one.address,
                "what": one.what,
                "cluster": one.cluster,
                "subject": one.subject,
                "outcome": one.outcome,
                "before": shown(one.before),
                "after": shown(one.after),
            }
            for number, one in enumerate(view.console.audit.newest())
        ]
        await table.fill(rows)

    view.every(5.0, load)


def shown(value: Any) -> str | None:
    """A state before or after a change, as text."""
    return value if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)[:500]


async def users_page(view: View) -> None:
    """Users of the console."""
    title(view.t("page.users"), view.t("users.lead"))
    columns = [
        Column("name", view.t("column.user")),
        Column("role", view.t("column.role"), color=lambda row: "primary" if row["admin"] else "secondary"),
        Column("one_time", view.t("column.one_time")),
    ]
    table = DataTable(view, "users", columns, "name", select=True)

    def chosen() -> str | None:
        if len(table.selected) != 1:
            ui.notify(view.t("select.one"))
            return None
        return str(table.selected[0]["name"])

    with table.bar:
        ui.button(view.t("user.add"), icon="person_add", on_click=lambda: add(view)).props("unelevated no-caps")
        ui.button(view.t("user.role"), icon="badge", on_click=lambda: set_role(view, chosen())).props("outline no-caps")
        ui.button(view.t("user.reset"), icon="key", on_click=lambda: reset(view, chosen())).props("outline no-caps")
        ui.button(view.t("user.remove"), icon="person_remove", on_click=lambda: remove(view, chosen())).props(
            "outline no-caps color=negative"
        )

    async def load() -> None:
        rows = [
            {
                "name": one.name,
                "role": view.t(f"role.{one.role.name.lower()}"),
                "admin": one.role is Role.ADMIN,
                "one_time": view.t("yes") if one.one_time else "",
            }
            for one in view.console.users.all()
        ]
        await table.fill(rows)

    view.every(3.0, load)


def roles(view: View) -> dict[str, str]:
    """The roles by name."""
    return {role.name: view.t(f"role.{role.name.lower()}") for role in Role}


async def add(view: View) -> None:
    """Ask for a name and a role, then create a user and show the one-time password."""

    def fields() -> Callable[[], dict[str, Any]]:
        name = ui.input(view.t("column.user")).classes("w-full").props("outlined dense autofocus")
        role = ui.select(roles(view), value="VIEWER", label=view.t("column.role")).classes("w-full")
        return lambda: {"name": name.value, "role": role.value}

    asked = await ask(view, view.t("user.add"), "", fields, view.t("user.add"))
    if asked is not None:
        name = str(asked["name"]).strip()
        work = view.console.changes.add_user(view.visitor, name, Role[str(asked["role"])])
        password = await view.attempt(work)
        if password is not None:
            show_once(view, name, view.t("user.password"), password)


async def set_role(view: View, name: str | None) -> None:
    """Ask for a role, then give it to a user."""
    known = None if name is None else view.console.users.get(name)
    if name is None or known is None:
        return

    def fields() -> Callable[[], dict[str, Any]]:
        role = ui.select(roles(view), value=known.role.name, label=view.t("column.role")).classes("w-full")
        return lambda: {"role": role.value}

    asked = await ask(view, view.t("user.role"), name, fields, view.t("confirm"))
    if asked is not None:
        work = view.console.changes.set_user_role(view.visitor, name, Role[str(asked["role"])])
        await view.attempt(work, view.t("done"))


async def reset(view: View, name: str | None) -> None:
    """Ask, then give a user a new one-time password."""
    if name is not None and await confirm(view, view.t("user.reset"), view.t("user.reset.text", name=name)):
        password = await view.attempt(view.console.changes.reset_user(view.visitor, name))
        if password is not None:
            show_once(view, name, view.t("user.password"), password)


async def remove(view: View, name: str | None) -> None:
    """Ask, then delete a user."""
    if name is not None and await confirm(view, view.t("user.remove"), name, word=name):
        await view.attempt(view.console.changes.remove_user(view.visitor, name), view.t("done"))
