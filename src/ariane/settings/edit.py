"""Changes values in the text of a properties file and keeps everything else in it as it is."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ariane.env import Files
from ariane.settings.properties import NATURAL_LINE_END, parse_properties


def edited(text: str, changes: Mapping[str, str]) -> str:
    """Set values in the text; a new key is appended at the end.

    >>> edited("# ours\\norderMessageEnable = false\\nlistenPort=9876\\n", {"orderMessageEnable": "true"})
    '# ours\\norderMessageEnable=true\\nlistenPort=9876\\n'
    """
    entries = parse_properties(text)
    lines = NATURAL_LINE_END.split(text.removesuffix("\n")) if text else []
    result = lines[: entries[0].line - 1] if entries else lines
    left = dict(changes)
    for number, entry in enumerate(entries):
        end = entries[number + 1].line - 1 if number + 1 < len(entries) else len(lines)
        block = lines[entry.line - 1 : end]
        result += block if entry.key not in changes else _changed(entry.key, left, block)
    return "".join(f"{line}\n" for line in [*result, *(_line(key, value) for key, value in left.items())])


def rewrite(files: Files, path: Path, changes: Mapping[str, str]) -> None:
    """Set values in a file, which is created if it does not exist. Raises OSError or UnicodeDecodeError."""
    files.make_folder(path.parent)
    before = files.read(path).decode() if files.exists(path) else ""
    files.replace(path, edited(before, changes).encode(), secret=True)


def _changed(key: str, left: dict[str, str], block: list[str]) -> list[str]:
    """The lines of an entry with its new value and the comments after it; a second entry of a key is dropped."""
    comments = [line for line in block[1:] if not line.strip() or line.lstrip()[0] in "#!"]
    return [_line(key, left.pop(key)), *comments] if key in left else comments


def _line(key: str, value: str) -> str:
    """A line that is read back as this value: a line break in it must not start another option."""
    escaped = value.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")
    return f"{key}={escaped}"
