"""Dead letters: which groups have them, why, since when; sent again in bulk, and exported."""

from nicegui import ui

from ariane.client.admin.dead_letters import DeadLetter
from ariane.console.changes import RESEND_MOST
from ariane.console.pages.dialogs import confirm
from ariane.console.pages.frame import panel, title
from ariane.console.pages.tables import Column, DataTable, Row
from ariane.console.pages.view import View

MOST = 500  # letters that a page shows


async def dead_letters_page(view: View) -> None:
    """Groups with dead letters, or the letters of one."""
    group = view.query.get("group", "")
    if group:
        await letters_of(view, group)
        return
    title(view.t("page.dead-letters"), view.t("letters.lead"))
    columns = [
        Column("group", view.t("column.group"), link=lambda row: view.link("dead-letters", group=row["group"])),
        Column("count", view.t("column.letters"), "number"),
        Column("last", view.t("column.last_stored"), "time"),
    ]
    table = DataTable(view, "dead-letters", columns, "group", sort="count", descending=True)

    async def load() -> None:
        counts = await view.cluster.ask("letters", 10.0, view.cluster.admin.dead_letter_groups)
        await table.fill([{"group": one.group, "count": one.count, "last": one.last_time} for one in counts])

    view.every(10.0, load)


async def letters_of(view: View, group: str) -> None:
    """The letters of a group."""
    title(group, view.t("letters.of", most=MOST))
    with panel():
        columns = [
            Column("id", view.t("column.id"), "mono", link=lambda row: view.link("message", id=row["letter"])),
            Column("topic", view.t("column.topic")),
            Column("since", view.t("column.dead_since"), "time"),
            Column("attempts", view.t("column.attempts"), "number"),
            Column("keys", view.t("column.keys")),
            Column("why", view.t("column.why")),
            Column("body", view.t("column.body"), "mono"),
        ]
        table = DataTable(view, f"{group}-dead-letters", columns, "letter", sort="since", descending=True, select=True)
        if view.visitor.may("letters.resend"):
            with table.bar:
                ui.button(view.t("letters.resend"), icon="redo", on_click=lambda: resend(view, group, table)).props(
                    "outline no-caps"
                )
                ui.button(view.t("letters.all"), icon="fast_forward", on_click=lambda: resend(view, group, None)).props(
                    "outline no-caps"
                )

    async def load() -> None:
        key = f"letters {group}"
        letters = await view.cluster.ask(key, 10.0, lambda: view.cluster.admin.dead_letters(group, limit=MOST))
        await table.fill([letter_row(one) for one in letters])

    view.every(15.0, load)


def letter_row(letter: DeadLetter) -> Row:
    """A letter of the table."""
    message = letter.message
    why = [
        value for name, value in message.properties.items() if "error" in name.lower() or "exception" in name.lower()
    ]
    return {
        "letter": letter.letter_id,
        "id": message.message_id,
        "topic": letter.topic,
        "since": message.store_time,
        "attempts": letter.attempts,
        "keys": " ".join(message.keys),
        "why": "; ".join(why)[:200],
        "body": message.body[:80].decode(errors="replace"),
    }


async def resend(view: View, group: str, table: DataTable | None) -> None:
    """Ask, then send the selected letters, or all, to their topics again."""
    letters = None if table is None else [row["letter"] for row in table.selected]
    if letters == []:
        ui.notify(view.t("select.some"))
        return
    count = RESEND_MOST if letters is None else len(letters)
    key = "letters.all.text" if letters is None else "letters.resend.text"
    if not await confirm(view, view.t("letters.resend"), view.t(key, count=count, group=group)):
        return
    resent = await view.attempt(view.console.changes.resend_letters(view.visitor, view.cluster, group, letters))
    if resent is not None:
        failed = sum(one.error is not None for one in resent)
        sent, skipped = sum(not one.skipped and one.error is None for one in resent), sum(one.skipped for one in resent)
        text = view.t("letters.resent", sent=sent, skipped=skipped, failed=failed)
        ui.notify(text, type="warning" if failed else "positive")
        if table is not None:
            table.clear_selection()
