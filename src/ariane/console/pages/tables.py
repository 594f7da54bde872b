"""Tables: sorted, filtered, paged and exported on the server, so that a browser holds one page of rows only."""

import csv
import io
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from nicegui import events, ui

from ariane.console.pages.view import View, duration_text, moment_text, time_text

Row = dict[str, Any]
PAGE = 25
FEW = 10
CELL = """
<q-td :props="props">
  <a v-if="props.row[props.col.name + '__link']" :href="props.row[props.col.name + '__link']"
    :class="['cell-link', props.value.length > 36 ? 'cell-long' : '']">
    {{ props.value }}</a>
  <q-badge v-else-if="props.row[props.col.name + '__color']" :color="props.row[props.col.name + '__color']"
    :label="props.value" class="cell-badge" />
  <span v-else :class="[props.col.mono ? 'mono' : '', props.value.length > 36 ? 'cell-long' : '']">
    {{ props.value }}</span>
</q-td>
"""


CHOICE = """
<q-checkbox dense :model-value="props.selected" aria-label="NAME"
  @update:model-value="(value, event) => Object.getOwnPropertyDescriptor(props, 'selected').set(value, event)" />
"""


@dataclass(frozen=True)
class Column:
    """A column. Rows hold plain values; `kind` says how they are shown."""

    name: str
    label: str
    kind: str = "text"
    """`text`, `mono`, `number`, `time`, `moment` or `duration`."""
    link: Callable[[Row], str | None] | None = None
    color: Callable[[Row], str | None] | None = None
    late: bool = False
    """`enrich` asks for the value, of rows that are shown, exported, or sorted by it."""

    def shown(self, value: Any) -> str:
        """A value as the page shows it."""
        if value is None:
            return "-"
        if self.kind == "time":
            return time_text(value)
        if self.kind == "moment":
            return moment_text(value)
        if self.kind == "duration":
            return duration_text(value)
        if self.kind == "number":
            return f"{value:,}"
        return str(value)

    @property
    def numeric(self) -> bool:
        """Whether it is aligned right."""
        return self.kind in ("number", "duration")


class DataTable:
    """A table of rows that the page loads."""

    def __init__(
        self,
        view: View,
        name: str,
        columns: list[Column],
        key: str,
        *,
        sort: str | None = None,
        descending: bool = False,
        select: bool = False,
        enrich: Callable[[list[Row]], Awaitable[None]] | None = None,
        page: int = PAGE,
        small: bool = False,
        empty: str | None = None,
    ) -> None:
        self._view = view
        self._name = name
        self._columns = columns
        self._key = key
        self._enrich = enrich
        self._small = small  # beside others on a page: few rows need no filter
        self._rows: list[Row] = []
        self._shown = 0
        self._where: Callable[[Row], bool] | None = None
        self._linked = not small and not view.tables
        if self._linked:
            view.tables.append(name)
        asked = view.query if self._linked else {}
        self._filter = asked.get("filter", "")
        if asked.get("sort") in {one.name for one in columns}:
            sort, descending = asked["sort"], asked.get("down") == "yes"
        with ui.row().classes("w-full items-center gap-2 table-bar"):
            self._field = field = ui.input(
                placeholder=view.t("table.filter"), value=self._filter, on_change=self._filtered
            )
            field.props("dense outlined clearable debounce=200").classes("table-filter")
            field.props["aria-label"] = view.t("table.filter")
            self._count = ui.label().classes("count")
            self.bar = ui.row().classes("items-center gap-2 ml-auto")
            with self.bar:
                button = ui.button(icon="download", on_click=self._export).props("flat round dense")
                button.props["aria-label"] = view.t("table.export")
                button.tooltip(view.t("table.export"))
        self._table = ui.table(
            columns=[
                {
                    "name": one.name,
                    "label": one.label,
                    "field": one.name,
                    "sortable": True,
                    "align": "right" if one.numeric else "left",
                    "mono": one.kind == "mono",
                }
                for one in columns
            ],
            rows=[],
            row_key=key,
            selection="multiple" if select else None,
            pagination={
                "sortBy": sort or columns[0].name,
                "descending": descending,
                "page": int(asked["page"]) if asked.get("page", "").isdecimal() else 1,
                "rowsPerPage": page,
                "rowsNumber": 0,
            },
        ).classes("w-full data-table")
        self._table.props("flat bordered dense loading :rows-per-page-options=[10,25,50,100]")
        self._table.props["no-data-label"] = view.t("table.loading")
        self._empty = empty or view.t("table.empty")
        self._table.props["rows-per-page-label"] = view.t("table.rows")
        self._table.props[":pagination-label"] = "(first, end, all) => `${first}–${end} / ${all}`"
        chosen = json.dumps(view.t("table.selected"))
        self._table.props[":selected-rows-label"] = f"count => {chosen}.replace('{{count}}', count)"
        self._table.add_slot("body-cell", CELL)
        self._table.add_slot("no-data", '<span class="soft py-2">{{ props.message }}</span>')
        if select:
            for slot, label in (("header-selection", "select.all"), ("body-selection", "select.row")):
                self._table.add_slot(slot, CHOICE.replace("NAME", escape(view.t(label))))
        self._table.on("request", self._requested)
        self._table.on_pagination_change(self._echoed)

    @property
    def selected(self) -> list[Row]:
        """The rows that are selected, as they were loaded."""
        keys = {row[self._key] for row in self._table.selected}
        return [row for row in self._rows if row[self._key] in keys]

    def clear_selection(self) -> None:
        """Select nothing."""
        self._table.selected = []

    async def where(self, test: Callable[[Row], bool] | None) -> None:
        """Show only the rows that pass a test, before the filter."""
        self._where = test
        await self.show()

    async def fill(self, rows: list[Row]) -> None:
        """Take new rows, and keep filter, order and page."""
        self._rows = rows
        keys = {row[self._key] for row in rows}
        if any(
            row[self._key] not in keys for row in self._table.selected
        ):  # Quasar keeps and counts rows that are gone
            self._table.selected = [row for row in self._table.selected if row[self._key] in keys]
        self._field.set_visibility(not self._small or len(rows) > FEW or bool(self._filter))
        self._table.props["no-data-label"] = self._empty
        self._table.props.pop("loading", None)
        await self.show()

    async def _matching(self) -> list[Row]:
        rows = [row for row in self._rows if self._where is None or self._where(row)]
        words, order = self._filter.lower().split(), self._table.pagination.get("sortBy")
        if any(one.late and (one.name == order or (words and not one.numeric)) for one in self._columns):
            await self._ask(rows)
        if words:
            names = [one.name for one in self._columns if not (one.late and one.numeric)]
            rows = [row for row in rows if _has_all(words, row, names)]
        if order:
            rows.sort(key=lambda row: _sort_key(row.get(order)), reverse=bool(self._table.pagination.get("descending")))
        return rows

    async def _ask(self, rows: list[Row]) -> None:
        if self._enrich is not None:
            await self._enrich(rows)

    async def show(self) -> None:
        """Send the rows of the current page to the browser."""
        rows = await self._matching()
        pagination = dict(self._table.pagination)
        size = int(pagination.get("rowsPerPage") or PAGE)
        last = max(1, -(-len(rows) // size))
        page = min(int(pagination.get("page") or 1), last)
        visible = rows[(page - 1) * size : page * size]
        await self._ask(visible)
        self._shown = len(rows)
        self._count.set_text(self._view.t("table.count", shown=len(rows), all=len(self._rows)) if self._rows else "")
        self._table.pagination = pagination | {"page": page, "rowsNumber": len(rows)}
        self._table.rows = [self._cells(row) for row in visible]

    def _cells(self, row: Row) -> Row:
        cells: Row = {self._key: row[self._key]}
        for column in self._columns:
            cells[column.name] = column.shown(row.get(column.name))
            if column.link is not None and (target := column.link(row)) is not None:
                cells[f"{column.name}__link"] = target
            if column.color is not None and (color := column.color(row)) is not None:
                cells[f"{column.name}__color"] = color
        return cells

    def _echoed(self) -> None:
        """A browser echoes the first pagination when it draws the table, which must not undo a later one."""
        if self._table.pagination.get("rowsNumber") != self._shown:
            self._table.pagination = dict(self._table.pagination) | {"rowsNumber": self._shown}

    async def _requested(self, event: events.GenericEventArguments) -> None:
        asked = event.args.get("pagination") if isinstance(event.args, dict) else None
        if not isinstance(asked, dict):
            return
        names = {column.name for column in self._columns}
        self._table.pagination = dict(self._table.pagination) | {
            "sortBy": asked.get("sortBy") if asked.get("sortBy") in names else None,
            "descending": bool(asked.get("descending")),
            "page": max(1, _whole(asked.get("page"), 1)),
            "rowsPerPage": min(100, max(1, _whole(asked.get("rowsPerPage"), PAGE))),
        }
        await self._changed()

    async def _filtered(self, event: events.ValueChangeEventArguments[Any]) -> None:
        self._filter = str(event.value or "")[:200]
        await self._changed()

    async def _changed(self) -> None:
        """Show what was asked for, and put it into the page's address."""
        self._view.check()
        if await self._view.attempt(self._shown_rows()) is not None and self._linked:
            now = self._table.pagination
            self._view.put(
                filter=self._filter,
                sort=str(now.get("sortBy") or ""),
                down="yes" if now.get("descending") else "",
                page=str(now["page"]) if now.get("page", 1) > 1 else "",
            )

    async def _shown_rows(self) -> int:
        await self.show()
        return self._shown

    async def _export(self) -> None:
        self._view.check()
        rows = await self._matching()
        await self._ask(rows)
        content = csv_text([column.label for column in self._columns], [self._values(row) for row in rows])
        ui.download.content(content.encode("utf-8-sig"), f"{self._name}.csv", "text/csv")

    def _values(self, row: Row) -> list[Any]:
        return [
            one.shown(row.get(one.name)) if one.kind in ("time", "moment") else row.get(one.name)
            for one in self._columns
        ]


def csv_text(head: list[str], rows: list[list[Any]]) -> str:
    """Rows as CSV. Text that a spreadsheet would take for a formula begins with an apostrophe.

    >>> csv_text(["a", "b"], [["=1+1", -5]])
    "a,b\\r\\n'=1+1,-5\\r\\n"
    """
    out = io.StringIO()
    writer = csv.writer(out)
    for row in [head, *rows]:
        writer.writerow([_guarded(value) for value in row])
    return out.getvalue()


def _guarded(value: Any) -> Any:
    if isinstance(value, int | float):
        return value
    text = "" if value is None else str(value)
    return f"'{text}" if text.lstrip(" ")[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") and text != "-" else text


def _has_all(words: list[str], row: Row, names: list[str]) -> bool:
    line = " ".join(str(row.get(name, "")) for name in names).lower()
    return all(word in line for word in words)


def _sort_key(value: Any) -> tuple[int, float, str]:
    if isinstance(value, int | float):
        return (1, value, "")
    return (0, 0, "") if value is None else (2, 0, str(value).lower())


def _whole(value: Any, default: int) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else default
