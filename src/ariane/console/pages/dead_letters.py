"""Dead letters: which groups have them, why, since when; sent again in bulk, and exported."""

import asyncio

from nicegui import ui

from ariane.client.admin.dead_letters import DeadLetter
from ariane.console.changes import RESEND_MOST
from ariane.console.cluster import AT_ONCE, Cluster
from ariane.console.pages.dialogs import confirm
from ariane.console.pages.frame import empty, panel, title
from ariane.console.pages.tables import Column, DataTable, Row
from ariane.console.pages.view import View
from ariane.errors import BrokerRefused, RouteMissing
from ariane.message import ReceivedMessage, dead_letter_topic, is_valid_name

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
        Column("count", view.t("column.letters"), "number", color=lambda row: "negative" if row["count"] else None),
        Column("hour", view.t("column.new_letters"), "number"),
        Column("first", view.t("column.dead_since"), "time", late=True),
        Column("last", view.t("column.last_stored"), "time"),
        Column("why", view.t("column.last_why"), late=True),
    ]

    async def with_last(rows: list[Row]) -> None:
        """Ask for the last letter of the groups shown, and since when there are letters."""
        slots = asyncio.Semaphore(AT_ONCE)

        async def one(group: str) -> tuple[int, ReceivedMessage | None]:
            async with slots:
                return await ends_of(view.cluster, group)

        found = await asyncio.gather(*(one(row["group"]) for row in rows))
        for row, (first, last) in zip(rows, found, strict=True):
            row["first"] = first
            row["why"] = "" if last is None else why_text(view, last)

    table = DataTable(
        view,
        "dead-letters",
        columns,
        "group",
        sort="count",
        descending=True,
        enrich=with_last,
        empty=view.t("letters.none"),
    )

    async def load() -> None:
        now = view.console.now()
        counts = await view.cluster.ask("letters", 10.0, view.cluster.admin.dead_letter_groups)
        rows: list[Row] = []
        for one in counts:
            series = view.console.history.series(view.cluster.name, "letters", one.group, now - 3_600_000, now)
            hour = int(series[-1][1] - series[0][1]) if len(series) > 1 else 0
            rows.append({"group": one.group, "count": one.count, "hour": max(0, hour), "last": one.last_time})
        await table.fill(rows)

    view.every(10.0, load)


async def ends_of(cluster: Cluster, group: str) -> tuple[int, ReceivedMessage | None]:
    """When the oldest letter of a group was stored, and the newest letter."""

    async def make() -> tuple[int, ReceivedMessage | None]:
        found: list[ReceivedMessage] = []
        try:
            for queue in (await cluster.admin.queues(dead_letter_topic(group)))[:8]:
                first, end = await cluster.admin.min_offset(queue), await cluster.admin.max_offset(queue)
                for offset in {first, end - 1} if end > first else ():
                    if (message := await cluster.admin.message_at(queue, offset)) is not None:
                        found.append(message)
        except (BrokerRefused, RouteMissing):
            return 0, None
        if not found:
            return 0, None
        return min(one.store_time for one in found), max(found, key=lambda one: one.store_time)

    return await cluster.ask(f"letter ends {group}", 30.0, make)


def errors_of(message: ReceivedMessage) -> str:
    """What the properties of a letter say about its failure."""
    found = [
        value for name, value in message.properties.items() if "error" in name.lower() or "exception" in name.lower()
    ]
    return "; ".join(found)[:200]


def why_text(view: View, message: ReceivedMessage) -> str:
    """Why a message is a dead letter: its own words, and how often it was tried."""
    tries = view.t("letters.tries", count=message.reconsume_times)
    errors = errors_of(message)
    return f"{errors} ({tries})" if errors else tries


async def letters_of(view: View, group: str) -> None:
    """The letters of a group."""
    if not is_valid_name(dead_letter_topic(group)) or await view.cluster.topic(dead_letter_topic(group)) is None:
        title(group)
        empty(view.t("letters.none.of"), "inbox")
        return
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
        with table.bar:
            if view.visitor.may("letters.export"):
                ui.button(view.t("letters.export"), icon="file_download", on_click=lambda: export(view, group)).props(
                    "outline no-caps"
                )
            if view.visitor.may("letters.resend"):
                ui.button(view.t("letters.resend"), icon="redo", on_click=lambda: resend(view, group, table)).props(
                    "outline no-caps"
                )
                ui.button(view.t("letters.all"), icon="fast_forward", on_click=lambda: resend(view, group, None)).props(
                    "outline no-caps"
                )

    async def load() -> None:
        key = f"letters {group}"
        letters = await view.cluster.ask(key, 10.0, lambda: view.cluster.admin.dead_letters(group, limit=MOST))
        await table.fill([letter_row(view, one) for one in letters])

    view.every(15.0, load)


def letter_row(view: View, letter: DeadLetter) -> Row:
    """A letter of the table."""
    message = letter.message
    return {
        "letter": letter.letter_id,
        "id": message.message_id,
        "topic": letter.topic,
        "since": message.store_time,
        "attempts": letter.attempts,
        "keys": " ".join(message.keys),
        "why": why_text(view, message),
        "body": message.body[:80].decode(errors="replace"),
    }


async def export(view: View, group: str) -> None:
    """Download the letters of a group with their whole bodies, a JSON object a line."""
    content = await view.attempt(view.console.changes.export_letters(view.visitor, view.cluster, group))
    if content is not None:
        ui.download.content(content, f"{group.replace('%', '_')}-dead-letters.jsonl", "application/x-ndjson")


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
