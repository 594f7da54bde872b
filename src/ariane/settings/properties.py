"""The properties file format as `java.util.Properties` reads it, with the line number of each entry."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from ariane.errors import ConfigError

BLANKS = " \t\f"
NATURAL_LINE_END = re.compile(r"\r\n|\n|\r")
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key = value` and the number of its first line."""

    key: str
    value: str
    line: int


def parse_properties(text: str, file: str = "") -> list[Entry]:
    """Parse a properties file: all entries in order, repeated keys included.

    >>> parse_properties("# comment\\nbrokerName = a\\\\\\n    b\\n")
    [Entry(key='brokerName', value='ab', line=2)]
    """
    return [_entry(content, line, file) for line, content in _logical_lines(text)]


def format_properties(values: Mapping[str, str] | Iterable[tuple[str, str]]) -> str:
    """Format `key=value` lines without escaping, as Apache's broker sends and writes its own settings."""
    items = values.items() if isinstance(values, Mapping) else values
    return "".join(f"{key}={value}\n" for key, value in items)


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines with continuations joined, without comments and blank lines, each with its first line number."""
    joined = ""
    start = 0
    for number, raw in enumerate(NATURAL_LINE_END.split(text), 1):
        line = raw.lstrip(BLANKS)
        if not joined and (not line or line[0] in "#!"):
            continue
        start = start if joined else number
        continued = _ends_with_continuation(line)
        joined += line[:-1] if continued else line
        if not continued:
            yield start, joined
            joined = ""
    if joined:
        yield start, joined


def _ends_with_continuation(line: str) -> bool:
    """An odd number of backslashes at the end: the last one escapes the line break."""
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _entry(content: str, line: int, file: str) -> Entry:
    end = _key_end(content)
    value = content[end:].lstrip(BLANKS)
    if value[:1] in ("=", ":"):
        value = value[1:].lstrip(BLANKS)
    try:
        return Entry(_unescape(content[:end]), _unescape(value), line)
    except ConfigError as error:
        raise error.at(file, line) from None


def _key_end(content: str) -> int:
    """The end of the key: the first separator or blank that is not escaped."""
    position = 0
    while position < len(content):
        character = content[position]
        if character in "=:" or character in BLANKS:
            return position
        position += 2 if character == "\\" else 1
    return len(content)


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    units = re.sub(r"\\(u.{0,4}|.)", _replacement, text, flags=re.DOTALL)
    try:  # each escape is a UTF-16 unit: a character beyond the first 65,536 is written as two
        return units.encode("utf-16", "surrogatepass").decode("utf-16")
    except UnicodeDecodeError:
        raise ConfigError("a \\uxxxx escape is half of a surrogate pair; write the other half too") from None


def _replacement(match: re.Match[str]) -> str:
    escape = match.group(1)
    if escape[0] != "u":
        return ESCAPES.get(escape, escape)
    if not re.fullmatch(r"u[0-9a-fA-F]{4}", escape):
        raise ConfigError(f"malformed \\uxxxx escape {match.group(0)!r}")
    return chr(int(escape[1:], 16))
