"""Dialogs of the access rules: an account, and the addresses that need none."""

import secrets
from collections.abc import Callable
from typing import Any, Final

from nicegui import ui

from ariane.console.access import Account, having, read_access
from ariane.console.pages.dialogs import ask, confirm, show_once
from ariane.console.pages.view import View

PERMISSIONS: Final = ["DENY", "PUB", "SUB", "PUB|SUB"]
GROUP_PERMISSIONS: Final = ["DENY", "SUB"]


async def edit(view: View, key: str | None) -> None:
    """Ask for an account, show what changes, then write it to every broker; without a key, a new one."""
    brokers = [one for one in await read_access(view.cluster) if one.problem is None]
    known = having(brokers, key) if key is not None else {}
    now = next(iter(known.values()), None)
    title = view.t("access.edit" if now else "access.add")
    asked = await ask(view, title, view.t("access.edit.text"), lambda: account_fields(view, key, now), view.t("next"))
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


def account_fields(view: View, key: str | None, now: Account | None) -> Callable[[], dict[str, Any]]:
    """The form of an account; returns what reads it: the account, and whether it gets a new secret key."""
    first = now or Account(key or "")
    name = ui.input(view.t("column.account"), value=first.access_key).classes("w-full").props("outlined dense")
    if now is not None:
        name.props("readonly")
    admin = ui.checkbox(view.t("column.admin"), value=first.admin)
    topic = ui.select(PERMISSIONS, value=first.default_topic, label=view.t("column.default_topic"))
    usual = GROUP_PERMISSIONS if first.default_group in GROUP_PERMISSIONS else PERMISSIONS
    group = ui.select(usual, value=first.default_group, label=view.t("column.default_group"))
    topics = ui.textarea(view.t("access.topics"), value="\n".join(first.topics))
    groups = ui.textarea(view.t("access.groups"), value="\n".join(first.groups))
    white = ui.input(view.t("access.account.white"), value=first.white)
    for field in (topic, group, topics, groups, white):
        field.classes("w-full")
    for area in (topics, groups):
        area.props("outlined autogrow input-class=mono")
    fresh = ui.checkbox(view.t("access.fresh"), value=now is None)
    if now is None:
        fresh.disable()
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


async def delete(view: View, key: str) -> None:
    """Ask, then delete an account everywhere."""
    known = having([one for one in await read_access(view.cluster) if one.problem is None], key)
    text = view.t("access.delete.text", key=key, addresses=", ".join(known))
    if await confirm(view, view.t("access.delete"), text, word=key):
        work = view.console.changes.delete_account(view.visitor, view.cluster, key, known)
        await view.attempt(work, view.t("done"))


async def edit_white(view: View, address: str) -> None:
    """Ask for the addresses from which a broker asks for no keys, then set them."""
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
