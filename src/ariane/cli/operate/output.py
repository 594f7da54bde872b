"""Tables that people read and that survive a pipe, and JSON for programs."""

import dataclasses
import json
import sys
from collections.abc import Sequence
from enum import Enum
from typing import Any

import msgspec

from ariane.message import ReceivedMessage

BOLD, PLAIN = "\033[1m", "\033[0m"


def plain(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, ReceivedMessage):
        return message_row(value)
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.to_builtins(value, str_keys=True))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: plain(getattr(value, one.name)) for one in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value


def message_row(message: ReceivedMessage) -> dict[str, Any]:
    """A message for programs. `body` is its text; a body that is no UTF-8 is `body_base64`."""
    row: dict[str, Any] = {
        "topic": message.topic,
        "message_id": message.message_id,
        "offset_id": message.offset_id,
        "broker_name": message.queue.broker_name,
        "queue_id": message.queue.queue_id,
        "queue_offset": message.queue_offset,
        "store_time": message.store_time,
        "born_time": message.born_time,
        "born_host": message.born_host,
        "store_host": message.store_host,
        "reconsume_times": message.reconsume_times,
        "tags": message.tags,
        "keys": message.keys,
        "properties": message.properties,
    }
    try:
        row["body"] = message.body.decode()
    except UnicodeDecodeError:
        import base64

        row["body_base64"] = base64.b64encode(message.body).decode()
    return row


def print_json(value: Any) -> None:
    """Print a value as one JSON document."""
    print(json.dumps(plain(value), ensure_ascii=False, indent=None if not sys.stdout.isatty() else 2), flush=True)


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]], empty: str) -> None:
    """Print columns as wide as their content; numbers to the right. Nothing is cut, so that a pipe gets all of it."""
    if not rows:
        print(empty, file=sys.stderr)
        return
    texts = [[cell(one) for one in row] for row in rows]
    columns = [[row[at] for row in rows if row[at] is not None] for at in range(len(head))]
    right = [bool(column) and all(isinstance(one, int | float) for one in column) for column in columns]
    widths = [max(len(head[at]), *(len(row[at]) for row in texts)) for at in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = [
            one.rjust(width) if is_right else one.ljust(width)
            for one, width, is_right in zip(cells, widths, right, strict=True)
        ]
        return "  ".join(padded).rstrip()

    title = line([name.upper() for name in head])
    print(f"{BOLD}{title}{PLAIN}" if sys.stdout.isatty() else title)
    for row in texts:
        print(line(row))
    sys.stdout.flush()


def cell(value: object) -> str:
    """A value in a table.

    >>> cell("two\\nlines"), cell("\\x1b[2J"), cell(None)
    ('two\\\\nlines', '\\\\x1b[2J', '-')
    """
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.1f}"
    # A body or a key may hold anything, also what moves a terminal's cursor.
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in str(value))


def print_facts(facts: Sequence[tuple[str, object]]) -> None:
    """Print names and values in two columns."""
    width = max(len(name) for name, _ in facts)
    for name, value in facts:
        print(f"{name:<{width}}  {cell(value)}")


def clear_screen() -> None:
    """Begin a new picture on a terminal; a pipe gets a line between two."""
    sys.stdout.write("\033[H\033[2J\033[3J" if sys.stdout.isatty() else "\n")
