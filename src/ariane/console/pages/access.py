"""Access rules: accounts and permissions of the brokers, without secrets; questions; changes on every broker."""

from ipaddress import ip_address

from nicegui import ui

from ariane.console.access import BrokerAccess, having, may, read_access
from ariane.console.pages.account_dialogs import delete, edit, edit_white
from ariane.console.pages.frame import empty, panel, title
from ariane.console.pages.tables import Column, DataTable, Row
from ariane.console.pages.view import View


async def access_page(view: View) -> None:
    """The accounts of all brokers, the addresses that need none, and "may A do X?"."""
    title(view.t("page.access"), view.t("access.lead"))
    brokers = await rules_of(view)
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
    account = question(view, sorted({key for one in ruled for key in one.accounts}))
    accounts, white = accounts_table(view), white_table(view)

    async def load() -> None:
        good = [one for one in await rules_of(view) if one.problem is None]
        known = sorted({key for one in good for key in one.accounts})
        account.set_options(known, value=account.value if account.value in known else None)
        await accounts.fill([account_row(view, good, key) for key in known])
        await white.fill([white_row(one) for one in good])

    view.every(10.0, load)


async def rules_of(view: View) -> list[BrokerAccess]:
    """The rules of every broker."""
    return await view.cluster.ask("access", 5.0, lambda: read_access(view.cluster))


def accounts_table(view: View) -> DataTable:
    """The accounts, and what changes them."""
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
        ui.label(view.t("access.secrets")).classes("soft")

    async def edit_chosen() -> None:
        if (key := chosen(view, table, "key")) is not None:
            await edit(view, key)

    async def delete_chosen() -> None:
        if (key := chosen(view, table, "key")) is not None:
            await delete(view, key)

    with table.bar:
        ui.button(view.t("access.add"), icon="add", on_click=lambda: edit(view, None)).props("unelevated no-caps")
        ui.button(view.t("access.edit"), icon="edit", on_click=edit_chosen).props("outline no-caps")
        ui.button(view.t("access.delete"), icon="delete", on_click=delete_chosen).props(
            "outline no-caps color=negative"
        )
    return table


def white_table(view: View) -> DataTable:
    """The addresses that need no account, by broker."""
    with panel(view.t("access.white")):
        table = DataTable(
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

    async def edit_chosen() -> None:
        if (address := chosen(view, table, "address")) is not None:
            await edit_white(view, address)

    with table.bar:
        ui.button(view.t("access.white.edit"), icon="edit", on_click=edit_chosen).props("outline no-caps")
    return table


def chosen(view: View, table: DataTable, column: str) -> str | None:
    """The value of the one selected row; None, and a notice, when there is not one."""
    if len(table.selected) != 1:
        ui.notify(view.t("select.one"))
        return None
    return str(table.selected[0][column])


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


def white_row(one: BrokerAccess) -> Row:
    """A broker of the table of addresses."""
    return {
        "broker": one.broker,
        "address": one.address,
        "white": ", ".join(one.white) or None,
        "open": any(pattern.startswith("*") for pattern in one.white),
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
        brokers = await rules_of(view)
        topic, group = (wanted, "") if kind.value == "topic" else ("", wanted)
        answers.clear()
        with answers:
            for one in (one for one in brokers if one.problem is None):
                good, why = may(one, str(account.value), str(right.value), topic, group, source)
                ui.label(f"{one.broker} {one.address} · {view.t('yes' if good else 'no')}: {why}").classes(
                    "good-note" if good else "warn"
                )

    return account
