"""Print results of pipelines as tables, or tab-separated when piped."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import typer
from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from ariane.spark.pipelines.analyse import Answers

SHOWN: Final = 40  # windows on a screen; other programs get all


def print_table(out: Console, columns: Sequence[str], rows: Iterable[Sequence[Any]], title: str = "") -> None:
    """Print one table; when piped, with its title in a line above."""
    cells = [[_cell(value) for value in row] for row in rows]
    if not out.is_terminal:
        typer.echo("\n".join([*([title] if title else []), *("\t".join(row) for row in [columns, *cells])]))
        return
    table = Table(*columns, title=title or None, title_justify="left")
    for row in cells:
        table.add_row(*row)
    out.print(table)


def _cell(value: Any) -> str:
    """Format times in UTC: Spark returns them in the driver's time zone."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(" ", "seconds")
    return "" if value is None else str(value)


def print_answers(out: Console, answers: "Answers") -> None:
    """Print all results of an analysis."""
    print_table(out, ["total", "value"], answers.totals.items(), "totals")
    for name, rows in answers.tables.items():
        shown = rows[-SHOWN:] if out.is_terminal else rows
        if shown:
            print_table(out, list(shown[0]), [list(row.values()) for row in shown], name)
        if len(shown) < len(rows):
            out.print(f"{len(rows) - len(shown):,} earlier rows of {name} are not shown; --parquet writes all windows")
