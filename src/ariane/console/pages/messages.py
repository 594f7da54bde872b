"""Messages: found by id, key or time; one message with its body, where each group stands with it, and changes."""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from nicegui import ui

from ariane.console.cluster import Cluster
from ariane.console.pages.dialogs import ask, confirm
from ariane.console.pages.frame import facts, panel, title
from ariane.console.pages.groups import parse_time
from ariane.console.pages.tables import Column, DataTable, Row
from ariane.console.pages.view import View, bytes_text, time_text
from ariane.errors import ArianeError, ClientError
from ariane.message import MessageQueue, ReceivedMessage
from ariane.protocol.ids import host_text, parse_offset_id

T = TypeVar("T")
MOST: Final = 2000  # messages of a search
PAGE: Final = 100  # of them at a time
PATIENCE: Final = 20.0
MOST_BODY: Final = 64 * 1024  # bytes of a body that a page shows
MOST_HEX: Final = 4096
PIECE: Final = 32


async def messages_page(view: View) -> None:
    """Search messages. The search is in the page's address."""
    title(view.t("page.messages"), view.t("messages.lead"))
    query, now = view.query, view.console.now()
    if query.get("topic"):
        await view.cluster.topic(query["topic"])  # it may be newer than the list that is kept
    known = sorted(one.name for one in await view.cluster.topics())
    with panel(), ui.element("div").classes("search-grid"):
        topic = ui.select(
            known,
            value=query.get("topic") if query.get("topic") in known else None,
            label=view.t("column.topic"),
            with_input=True,
        ).props("outlined dense")
        key = ui.input(view.t("messages.key"), value=query.get("key", "")).props("outlined dense")
        number = ui.input(view.t("messages.id"), value=query.get("id", "")).props("outlined dense")
        since = ui.input(view.t("messages.since"), value=query.get("since") or time_text(now - 3_600_000))
        until = ui.input(view.t("messages.until"), value=query.get("until") or time_text(now + 60_000))
        for field in (since, until):
            field.props("outlined dense")
        ui.button(view.t("search"), icon="search", on_click=lambda: search()).props("unelevated no-caps")
    columns = [
        Column("id", view.t("column.id"), "mono", link=lambda row: row["link"]),
        Column("stored", view.t("column.stored"), "time"),
        Column("broker", view.t("column.broker")),
        Column("queue", view.t("column.queue"), "number"),
        Column("offset", view.t("column.offset"), "number"),
        Column("tags", view.t("column.tags")),
        Column("keys", view.t("column.keys")),
        Column("body", view.t("column.body"), "mono"),
    ]
    table = DataTable(view, "messages", columns, "key", sort="stored", empty=view.t("messages.none"))
    with ui.row().classes("items-center gap-3"):
        following = ui.button(view.t("messages.more"), icon="expand_more", on_click=lambda: more())
        following.props("outline no-caps").set_visibility(False)
        hint = ui.label().classes("soft")
    rows: list[Row] = []
    range_search: list[TimeSearch] = []

    async def search() -> None:
        wanted, named = (number.value or "").strip(), (key.value or "").strip()
        if not topic.value and not wanted:
            ui.notify(view.t("messages.topic"))
            return
        fields = {"topic": topic, "key": key, "id": number, "since": since, "until": until}
        view.put(**{name: str(field.value or "").strip() for name, field in fields.items()})
        try:
            begin, end = parse_time(since.value or ""), parse_time(until.value or "")
        except ValueError as error:
            ui.notify(view.t("problem", error=error), type="negative")
            return
        view.check()
        rows.clear()
        range_search.clear()
        if not wanted and not named:
            range_search.append(TimeSearch(view.cluster, topic.value, begin, end))
            await more()
            return
        found = await view.attempt(find(view.cluster, topic.value or "", named, wanted, begin, end))
        if found is not None:
            rows.extend(message_row(view, one) for one in found)
            await table.fill(list(rows))
        following.set_visibility(False)
        hint.set_text("")

    async def more() -> None:
        one = range_search[0]
        view.check()
        found = await view.attempt(one.more(PAGE))
        if found is None or one not in range_search:  # another search was begun meanwhile
            return
        rows.extend(message_row(view, message) for message in found)
        await table.fill(list(rows))
        full = len(rows) >= MOST
        following.set_visibility(not one.ended and not full)
        hint.set_text(view.t("messages.cut", most=MOST) if full and not one.ended else "")

    if query.get("topic") in known or query.get("id"):
        ui.timer(0.1, search, once=True)
    else:
        await table.fill([])


def message_row(view: View, message: ReceivedMessage) -> Row:
    """A message of a table."""
    return {
        "key": f"{message.offset_id} {message.queue_offset}",
        "id": message.message_id,
        "link": view.link("message", id=message.offset_id, topic=message.topic),
        "stored": message.store_time,
        "broker": message.queue.broker_name or message.store_host,
        "queue": message.queue.queue_id,
        "offset": message.queue_offset,
        "tags": message.tags,
        "keys": " ".join(message.keys),
        "body": message.body[:80].decode(errors="replace"),
    }


async def find(cluster: Cluster, topic: str, key: str, number: str, begin: int, end: int) -> list[ReceivedMessage]:
    """Messages of a topic: by id, else by key."""
    admin = cluster.admin
    if number:
        found = await admin.find_messages(topic, number) if topic else []
        if not found:  # an offset id says where the message is, whatever its topic
            try:
                found = [await by_offset_id(cluster, number)]
            except (ArianeError, ValueError):
                found = []
        return found
    return await admin.query_messages(topic, key, begin=begin, end=end)


async def by_offset_id(cluster: Cluster, number: str) -> ReceivedMessage:
    """A message by its offset id. The id holds an address, and only brokers of the cluster are connected to."""
    host = host_text(parse_offset_id(number)[0])
    if host not in {one.address for one in await cluster.brokers()}:
        raise ClientError(f"{host} is not a broker of the cluster")
    return await cluster.admin.view_message(number)


class TimeSearch:
    """Messages of a topic that were stored in a range of time, oldest first over all queues, page by page."""

    def __init__(self, cluster: Cluster, topic: str, begin: int, end: int) -> None:
        self._cluster = cluster
        self._topic = topic
        self._begin, self._end = begin, end
        self._offsets: dict[MessageQueue, int] | None = None
        self._read: dict[MessageQueue, deque[ReceivedMessage]] = {}
        self.ended = False
        """Whether there are no more."""

    async def more(self, count: int) -> list[ReceivedMessage]:
        """The next messages."""
        slots, admin = asyncio.Semaphore(8), self._cluster.admin

        async def bounded(work: Awaitable[T]) -> T:
            async with slots:
                return await work

        try:
            async with asyncio.timeout(PATIENCE):
                if self._offsets is None:
                    queues = await admin.queues(self._topic)
                    first = await asyncio.gather(*(bounded(admin.search_offset(one, self._begin)) for one in queues))
                    self._offsets = dict(zip(queues, first, strict=True))
                found: list[ReceivedMessage] = []
                while len(found) < count:
                    lacking = [queue for queue in self._offsets if not self._read.get(queue)]
                    await asyncio.gather(*(bounded(self._fill(queue)) for queue in lacking))
                    heads = [queue for queue, messages in self._read.items() if messages]
                    if not heads:
                        self.ended = True
                        break
                    found.append(self._read[min(heads, key=self._place)].popleft())
                return found
        except TimeoutError:
            raise ClientError(f"the cluster did not answer within {PATIENCE:.0f} s") from None

    def _place(self, queue: MessageQueue) -> tuple[int, int]:
        """Where the next message of a queue comes; a broker stores several in a millisecond."""
        message = self._read[queue][0]
        return message.store_time, message.physical_offset

    async def _fill(self, queue: MessageQueue) -> None:
        """Read the next messages of a queue that are in the range; the queue is left out when there are none."""
        assert self._offsets is not None
        while True:
            messages, following = await self._cluster.admin.read(queue, self._offsets[queue], PIECE)
            inside = [one for one in messages if self._begin <= one.store_time <= self._end]
            if following <= self._offsets[queue] or (messages and messages[-1].store_time > self._end):
                del self._offsets[queue]
            else:
                self._offsets[queue] = following
            if inside or queue not in self._offsets:
                self._read[queue] = deque(inside)
                return


def body_forms(body: bytes) -> dict[str, str]:
    """A body as JSON and text where it is such, and as hexadecimal digits.

    >>> sorted(body_forms(b'{"a": 1}')), sorted(body_forms(bytes([255, 0])))
    (['hex', 'json', 'text'], ['hex'])
    """
    shown = body[:MOST_BODY]
    forms: dict[str, str] = {}
    try:
        text: str | None = shown.decode()
    except UnicodeDecodeError:
        text = None if len(shown) == len(body) else shown.decode(errors="replace")
    if text is not None:
        if (indented := indented_json(text)) is not None:
            forms["json"] = indented
        forms["text"] = text
    lines = []
    for start in range(0, min(len(body), MOST_HEX), 16):
        piece = body[start : start + 16]
        letters = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in piece)
        lines.append(f"{start:08x}  {piece.hex(' '):47}  {letters}")
    forms["hex"] = "\n".join(lines)
    return forms


def indented_json(text: str) -> str | None:
    """A JSON object or list with a line for each part; None for other texts.

    Indentation can make a body of 64 KiB a thousand times as long: the text is cut at four times MOST_BODY. Halves of
    surrogate pairs, which JSON may escape and no page can carry, are shown as U+FFFD.

    >>> indented_json('{"a": "\\\\ud800"}'), indented_json("7")
    ('{\\n  "a": "\ufffd"\\n}', None)
    """
    try:
        value = json.loads(text)
        if not isinstance(value, dict | list):
            return None
        pieces, size = [], 0
        for piece in json.JSONEncoder(indent=2, ensure_ascii=False).iterencode(value):
            pieces.append(piece)
            size += len(piece)
            if size > 4 * MOST_BODY:
                pieces.append("\n…")
                break
    except (ValueError, RecursionError):
        return None
    return "".join(pieces).encode("utf-16", "surrogatepass").decode("utf-16", "replace")


async def message_page(view: View) -> None:
    """One message."""
    number, topic = view.query.get("id", ""), view.query.get("topic", "")
    try:
        message = await by_offset_id(view.cluster, number)
    except (ArianeError, ValueError):
        found = await view.cluster.admin.find_message(topic, number) if topic and number else None
        if found is None:
            raise ClientError(view.t("message.unknown", id=number)) from None
        message = found
    title(message.message_id)
    with ui.row().classes("gap-2"):
        if view.visitor.may("message.resend"):
            ui.button(view.t("message.resend"), icon="redo", on_click=lambda: resend(view, message)).props(
                "outline no-caps"
            )
        if view.visitor.may("message.consume"):
            ui.button(view.t("message.consume"), icon="replay", on_click=lambda: consume(view, message)).props(
                "outline no-caps"
            )
        if "trace" in view.console.pages:
            target = view.link("trace", id=message.message_id)
            ui.button(view.t("page.trace"), icon="timeline", on_click=lambda: ui.navigate.to(target)).props(
                "flat no-caps"
            )
    with panel(view.t("column.body")):
        forms = body_forms(message.body)
        decoded = await asyncio.to_thread(view.console.schemas.decode, message.topic, message.body)
        if decoded is not None:
            forms = {decoded[0]: decoded[1][: 4 * MOST_BODY], **forms}
        if message.decode_error is not None:
            ui.label(view.t("message.undecoded", error=message.decode_error)).classes("warn")
        with ui.tabs().props("dense align=left no-caps") as tabs:
            for form in forms:
                ui.tab(form, label=view.t(f"body.{form}"))
        with ui.tab_panels(tabs, value=next(iter(forms))).classes("w-full"):
            for form, text in forms.items():
                with ui.tab_panel(form).classes("p-0"):
                    ui.label(text).classes("body-text").mark(f"body-{form}")
        if len(message.body) > MOST_BODY:
            ui.label(view.t("body.cut", all=bytes_text(len(message.body)))).classes("soft")
    with panel(view.t("message.groups")):
        table = DataTable(
            view,
            "track",
            [
                Column("group", view.t("column.group"), link=lambda row: view.link("group", name=row["group"])),
                Column("state", view.t("column.state")),
                Column("error", view.t("column.error")),
            ],
            "group",
            small=True,
            empty=view.t("topic.unread"),
        )
    with panel(view.t("message.facts")):
        facts(
            [
                (view.t("column.topic"), message.topic),
                (view.t("column.offset_id"), message.offset_id),
                (view.t("column.queue"), f"{message.store_host} · {message.queue.queue_id} · {message.queue_offset}"),
                (view.t("column.born"), f"{time_text(message.born_time)} · {message.born_host}"),
                (view.t("column.stored"), time_text(message.store_time)),
                (view.t("column.attempts"), str(message.reconsume_times)),
                (view.t("column.size"), bytes_text(message.store_size)),
            ]
        )
    with panel(view.t("message.properties")):
        properties = DataTable(
            view,
            "properties",
            [Column("name", view.t("column.name"), "mono"), Column("value", view.t("column.value"), "mono")],
            "name",
            small=True,
            empty=view.t("message.no_properties"),
        )
        await properties.fill([{"name": name, "value": value} for name, value in message.properties.items()])

    async def load() -> None:
        key = f"track {message.offset_id}"
        tracks = await view.cluster.ask(key, 5.0, lambda: view.cluster.admin.track(message))
        rows = [
            {"group": one.group, "state": view.t(f"track.{one.state.name.lower()}"), "error": one.error}
            for one in tracks
        ]
        await table.fill(rows)

    view.every(10.0, load)


async def resend(view: View, message: ReceivedMessage) -> None:
    """Ask, then send a message again."""
    if await confirm(view, view.t("message.resend"), view.t("message.resend.text", topic=message.topic)):
        sent = await view.attempt(view.console.changes.resend(view.visitor, view.cluster, message))
        if sent is not None:
            ui.notify(view.t("topic.sent", id=sent.message_id), type="positive")


async def consume(view: View, message: ReceivedMessage) -> None:
    """Ask for a group and a client, then have it consume the message."""
    groups = await view.attempt(view.cluster.admin.topic_groups(message.topic)) or []
    clients: dict[str, list[str]] = {}
    for group in groups[:50]:
        try:
            online = await view.cluster.admin.consumer_connections(group)
        except ArianeError:
            continue
        if online.connection_set:
            clients[group] = sorted(one.client_id for one in online.connection_set)
    if not clients:
        ui.notify(view.t("message.nobody"))
        return
    first = next(iter(clients))

    def fields() -> Callable[[], dict[str, Any]]:
        group = ui.select(list(clients), value=first, label=view.t("column.group")).classes("w-full")
        client = ui.select(clients[first], value=clients[first][0], label=view.t("column.client")).classes("w-full")
        group.on_value_change(lambda event: client.set_options(clients[event.value], value=clients[event.value][0]))
        return lambda: {"group": group.value, "client": client.value}

    text = view.t("message.consume.text")
    asked = await ask(view, view.t("message.consume"), text, fields, view.t("message.consume"))
    if asked is not None:
        work = view.console.changes.consume_again(
            view.visitor, view.cluster, message, str(asked["group"]), str(asked["client"])
        )
        result = await view.attempt(work)
        if result is not None:
            ui.notify(f"{result.consume_result} {result.remark or ''} ({result.spent_time_mills} ms)")
