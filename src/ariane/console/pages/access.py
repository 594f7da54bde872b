"""Access rules: accounts and permissions of the brokers, without secrets; questions; changes on every broker."""

import secrets
from collections.abc import Callable
from ipaddress import ip_address
from typing import Any, Final

from nicegui import ui

from ariane.console.access import Account, BrokerAccess, having, may, read_access
from ariane.console.pages.dialogs import ask, confirm, show_once
from ariane.console.pages.frame import empty, panel, title
from ariane.console.pages.tables import Column, DataTable, Row
from ariane.console.pages.view import View

PERMISSIONS: Final = ["DENY", "PUB", "SUB", "PUB|SUB"]


async def access_page(view: View) -> None:
    """The accounts of all brokers, the addresses that need none, and "may A do X?"."""
    title(view.t("page.access"), view.t("access.lead"))
    brokers = await view.cluster.ask("access", 5.0, lambda: read_access(view.cluster))
    ruled = [one for one in brokers if one.problem is None]
    for one in brokers:
        if one.problem not in (None, "off"):
            ui.label(f"{one.broker} {one.address}: {one.problem}").classes("problem").props("role=alert")
    if not ruled:
        with panel():
            empty(view.t("access.off"), "lock_open")
        return
    off = [one.address for one in brokers if one.problem == "off"]
    if off:
        ui.label(view.t("access.partly", addresses=", ".join(off))).classes("warn")
    keys = sorted({key for one in ruled for key in one.accounts})
    account = question(view, keys)
    with panel(view.t("access.accounts")):
        table = DataTable(
            view,
            "accounts",
            [
                Column("key", view.t("column.account"), "mono"),
                Column("admin", view.t("column.admin"), color=lambda row: "negative" if row["is_admin"] else None),
                Column("topic", view.t("column.default_topic")),
                Column("group", view.t("column.default_group")),
                Column("topics", view.t("column.topics")),
                Column("groups", view.t("column.groups")),
                Column("white", view.t("column.white")),
                Column(
                    "brokers", view.t("column.brokers"), color=lambda row: "deep-orange-10" if row["differs"] else None
                ),
            ],
            "key",
            select=True,
        )
        with table.bar:
            ui.button(view.t("access.add"), icon="add", on_click=lambda: edit(view, None)).props("unelevated no-caps")
            ui.button(view.t("access.edit"), icon="edit", on_click=lambda: edit(view, chosen(view, table))).props(
                "outline no-caps"
            )
            ui.button(view.t("access.delete"), icon="delete", on_click=lambda: delete(view, chosen(view, table))).props(
                "outline no-caps color=negative"
            )
        ui.label(view.t("access.secrets")).classes("soft")
    with panel(view.t("access.white")):
        white = DataTable(
            view,
            "white-addresses",
            [
                Column("broker", view.t("column.broker")),
                Column("address", view.t("column.address"), "mono"),
                Column("white", view.t("column.white"), "mono", color=lambda row: "negative" if row["open"] else None),
            ],
            "address",
            select=True,
            small=True,
        )
        with white.bar:
            ui.button(view.t("access.white.edit"), icon="edit", on_click=lambda: edit_white(view, white)).props(
                "outline no-caps"
            )

    async def load() -> None:
        found = await view.cluster.ask("access", 5.0, lambda: read_access(view.cluster))
        good = [one for one in found if one.problem is None]
        known = sorted({key for one in good for key in one.accounts})
        account.set_options(known, value=account.value if account.value in known else None)
        await table.fill([account_row(view, good, key) for key in known])
        await white.fill(
            [
                {
                    "broker": one.broker,
                    "address": one.address,
                    "white": ", ".join(one.white) or None,
                    "open": any(pattern.startswith("*") for pattern in one.white),
                }
                for one in good
            ]
        )

    view.every(10.0, load)


def account_row(view: View, brokers: list[BrokerAccess], key: str) -> Row:
    """An account of the table: as the first broker has it, and whether others differ."""
    accounts = having(brokers, key)
    first = next(iter(accounts.values()))
    differs = len(set(accounts.values())) > 1 or len(accounts) < len(brokers)
    where = view.t("access.all") if len(accounts) == len(brokers) else ", ".join(accounts)
    if len(set(accounts.values())) > 1:
        where = view.t("access.differs", addresses=", ".join(accounts))
    return {
        "key": key,
        "admin": view.t("yes" if first.admin else "no"),
        "is_admin": first.admin,
        "topic": first.default_topic,
        "group": first.default_group,
        "topics": ", ".join(first.topics) or None,
        "groups": ", ".join(first.groups) or None,
        "white": first.white or None,
        "brokers": where,
        "differs": differs,
    }


def question(view: View, keys: list[str]) -> ui.select:
    """The form "may A do X?", answered for each broker with the rule that decides."""
    with panel(view.t("access.question")):
        with ui.row().classes("w-full items-end gap-3"):
            account = ui.select(keys, label=view.t("column.account"), value=keys[0] if keys else None, with_input=True)
            right = ui.select(["PUB", "SUB"], value="PUB", label=view.t("access.right"))
            kind = ui.select(
                {"topic": view.t("column.topic"), "group": view.t("column.group")},
                value="topic",
                label=view.t("column.kind"),
            )
            name = ui.input(view.t("column.name"), value=view.query.get("name", ""))
            address = ui.input(view.t("access.from"))
            ui.button(view.t("access.ask"), icon="help", on_click=lambda: answer()).props("unelevated no-caps")
        answers = ui.column().classes("w-full gap-1").props("aria-live=polite")

    async def answer() -> None:
        wanted = (name.value or "").strip()
        if not account.value or not wanted:
            ui.notify(view.t("access.incomplete"))
            return
        try:
            source = ip_address(address.value.strip()).packed if (address.value or "").strip() else None
        except ValueError as error:
            ui.notify(str(error), type="negative")
            return
        brokers = await view.cluster.ask("access", 5.0, lambda: read_access(view.cluster))
        topic, group = (wanted, "") if kind.value == "topic" else ("", wanted)
        answers.clear()
        with answers:
            for one in (one for one in brokers if one.problem is None):
                good, why = may(one, str(account.value), str(right.value), topic, group, source)
                ui.label(f"{one.broker} {one.address} · {view.t('yes' if good else 'no')}: {why}").classes(
                    "good-note" if good else "warn"
                )

    return account


def chosen(view: View, table: DataTable) -> str | None:
    """The one selected account."""
    if len(table.selected) != 1:
        ui.notify(view.t("select.one"))
        return ""
    key: str = table.selected[0]["key"]
    return key


async def edit(view: View, key: str | None) -> None:
    """Ask for an account, show what changes, then write it to every broker."""
    if key == "":
        return
    brokers = [one for one in await read_access(view.cluster) if one.problem is None]
    known = having(brokers, key) if key is not None else {}
    now = next(iter(known.values()), None)

    def fields() -> Callable[[], dict[str, Any]]:
        name = ui.input(view.t("column.account"), value=key or "").classes("w-full").props("outlined dense")
        if now is not None:
            name.props("readonly")
        admin = ui.checkbox(view.t("column.admin"), value=now is not None and now.admin)
        topic = ui.select(
            PERMISSIONS, value=now.default_topic if now else "DENY", label=view.t("column.default_topic")
        ).classes("w-full")
        group = ui.select(
            ["DENY", "SUB"] if now is None or now.default_group in ("DENY", "SUB") else PERMISSIONS,
            value=now.default_group if now else "DENY",
            label=view.t("column.default_group"),
        ).classes("w-full")
        topics = ui.textarea(view.t("access.topics"), value="\n".join(now.topics) if now else "").classes("w-full")
        groups = ui.textarea(view.t("access.groups"), value="\n".join(now.groups) if now else "").classes("w-full")
        white = ui.input(view.t("access.account.white"), value=now.white if now else "").classes("w-full")
        fresh = ui.checkbox(view.t("access.fresh"), value=now is None)
        if now is None:
            fresh.disable()
        for area in (topics, groups):
            area.props("outlined autogrow input-class=mono")
        return lambda: {
            "account": Account(
                (name.value or "").strip() if now is None else now.access_key,
                bool(admin.value),
                str(topic.value),
                str(group.value),
                lines(topics.value),
                lines(groups.value),
                (white.value or "").strip(),
            ),
            "fresh": now is None or bool(fresh.value),
        }

    asked = await ask(
        view, view.t("access.edit" if now else "access.add"), view.t("access.edit.text"), fields, view.t("next")
    )
    if asked is None:
        return
    account: Account = asked["account"]
    if now is None and having(brokers, account.access_key):
        ui.notify(view.t("access.exists", key=account.access_key), type="negative")
        return
    secret = secrets.token_urlsafe(24) if asked["fresh"] else None
    addresses = [one.address for one in brokers]
    text = "\n".join(differences(view, now or Account(account.access_key), account)) or view.t("access.same")
    if secret is not None:
        text += "\n" + view.t("access.fresh")
    text += "\n" + view.t("access.where", addresses=", ".join(addresses))
    if not await confirm(view, account.access_key, text, word=account.access_key if account.admin else None):
        return
    work = view.console.changes.update_account(view.visitor, view.cluster, account, secret, known, addresses)
    if await view.made(work, view.t("done")) and secret is not None:
        show_once(view, account.access_key, view.t("access.secret.once"), secret)


def lines(text: str | None) -> tuple[str, ...]:
    """The entries of a field, one a line."""
    return tuple(line.strip() for line in (text or "").splitlines() if line.strip())


def differences(view: View, before: Account, after: Account) -> list[str]:
    """What changes, a line each."""
    names = {
        "admin": "column.admin", "default_topic": "column.default_topic", "default_group": "column.default_group",
        "topics": "column.topics", "groups": "column.groups", "white": "column.white",
    }  # fmt: skip
    found: list[str] = []
    for name, label in names.items():
        old, new = getattr(before, name), getattr(after, name)
        if old != new:
            found.append(f"{view.t(label)}: {shown(view, old)} → {shown(view, new)}")
    return found


def shown(view: View, value: object) -> str:
    """A field of an account as text."""
    if isinstance(value, bool):
        return view.t("yes" if value else "no")
    return ", ".join(value) or "-" if isinstance(value, tuple) else str(value) or "-"


async def delete(view: View, key: str | None) -> None:
    """Ask, then delete an account everywhere."""
    if not key:
        return
    known = having([one for one in await read_access(view.cluster) if one.problem is None], key)
    text = view.t("access.delete.text", key=key, addresses=", ".join(known))
    if await confirm(view, view.t("access.delete"), text, word=key):
        work = view.console.changes.delete_account(view.visitor, view.cluster, key, known)
        await view.attempt(work, view.t("done"))


async def edit_white(view: View, table: DataTable) -> None:
    """Ask for the addresses that a broker asks for no keys, then set them."""
    if len(table.selected) != 1:
        ui.notify(view.t("select.one"))
        return
    address = table.selected[0]["address"]
    now = next((one.white for one in await read_access(view.cluster) if one.address == address), ())

    def fields() -> Callable[[], dict[str, Any]]:
        field = ui.textarea(view.t("column.white"), value="\n".join(now)).classes("w-full").props("outlined autogrow")
        return lambda: {"patterns": lines(field.value)}

    asked = await ask(view, view.t("access.white.edit"), view.t("access.white.text"), fields, view.t("next"))
    if asked is None:
        return
    patterns: tuple[str, ...] = asked["patterns"]
    text = f"{address}\n{', '.join(now) or '-'} → {', '.join(patterns) or '-'}"
    if any(pattern.startswith("*") for pattern in patterns):
        text += "\n" + view.t("access.white.open")
    if await confirm(view, view.t("access.white.edit"), text, word=address):
        work = view.console.changes.set_white(view.visitor, view.cluster, address, patterns, now)
        await view.attempt(work, view.t("done"))
