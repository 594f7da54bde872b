"""Producers that are online, and transactions that are open."""

from nicegui import ui

from ariane.console.pages.dialogs import confirm
from ariane.console.pages.frame import title
from ariane.console.pages.tables import Column, DataTable
from ariane.console.pages.view import View


async def producers_page(view: View) -> None:
    """Producers by group and broker."""
    title(view.t("page.producers"), view.t("producers.lead"))
    columns = [
        Column("group", view.t("column.group")),
        Column("client", view.t("column.client"), "mono"),
        Column("address", view.t("column.address")),
        Column("language", view.t("column.language")),
        Column("broker", view.t("column.broker")),
        Column("last", view.t("column.last_seen"), "time"),
    ]
    table = DataTable(view, "producers", columns, "key", empty=view.t("producers.none"))

    async def load() -> None:
        rows = [
            {
                "key": f"{broker} {group} {number}",
                "group": group,
                "client": info.client_id,
                "address": info.remote_ip,
                "language": info.language,
                "broker": broker,
                "last": info.last_update_timestamp,
            }
            for number, (broker, group, info) in enumerate(await view.cluster.producers())
        ]
        await table.fill(rows)

    view.every(5.0, load)


async def transactions_page(view: View) -> None:
    """Half messages whose transaction is open."""
    title(view.t("page.transactions"), view.t("transactions.lead"))
    columns = [
        Column("id", view.t("column.id"), "mono"),
        Column("topic", view.t("column.topic")),
        Column("group", view.t("column.group")),
        Column("broker", view.t("column.broker")),
        Column("checks", view.t("column.checks"), "number"),
        Column("open", view.t("column.open_for"), "duration"),
    ]
    table = DataTable(
        view,
        "transactions",
        columns,
        "id",
        sort="open",
        descending=True,
        select=True,
        empty=view.t("transactions.none"),
    )
    if view.visitor.may("transaction.end"):
        with table.bar:
            for commit in (True, False):
                ui.button(
                    view.t("transaction.commit" if commit else "transaction.rollback"),
                    icon="check" if commit else "undo",
                    on_click=lambda commit=commit: end(view, table, commit=commit),
                ).props("outline no-caps")

    async def load() -> None:
        halves = await view.cluster.ask("halves", 5.0, view.cluster.admin.half_messages)
        now = view.console.now()
        rows = [
            {
                "id": one.message.message_id,
                "topic": one.topic,
                "group": one.producer_group,
                "broker": one.broker_name,
                "checks": one.checks,
                "open": max(0, now - one.message.born_time),
            }
            for one in halves
        ]
        await table.fill(rows)

    view.every(5.0, load)


async def end(view: View, table: DataTable, *, commit: bool) -> None:
    """Ask, then end the selected transactions."""
    chosen = [row["id"] for row in table.selected]
    if not chosen:
        ui.notify(view.t("select.some"))
        return
    name = view.t("transaction.commit" if commit else "transaction.rollback")
    if await confirm(view, name, view.t("transaction.text", count=len(chosen))):
        for number in chosen:
            work = view.console.changes.end_transaction(view.visitor, view.cluster, number, commit=commit)
            await view.attempt(work, view.t("done"))
        table.clear_selection()
