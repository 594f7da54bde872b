"""A stored message as user filters read it: properties, plain body, and values of a JSON body by path."""

from __future__ import annotations

import re
from struct import Struct
from typing import Any

import msgspec

from ariane.errors import ProtocolError
from ariane.filter.errors import FilterFailed
from ariane.protocol.compression import decompress
from ariane.protocol.properties import decode_properties
from ariane.protocol.units import COMPRESSED, SYS_FLAG_AT, body_bounds, stored_properties

_I32 = Struct(">i")
_STEP = re.compile(r"\.([^.\[\]]+)|\[([0-9]+)\]")
_NOT_PARSED = object()

Path = tuple[str | int, ...]


def path_of(name: str) -> Path:
    """The steps of a path into the body.

    >>> path_of("body.items[0].sku")
    ('items', 0, 'sku')
    """
    return tuple(key or int(index) for key, index in _STEP.findall(name))


def parts_of(unit: memoryview) -> tuple[bytes, bytes]:
    """The stored properties and the plain body of a unit; FilterFailed when the body cannot be decompressed."""
    sys_flag = _I32.unpack_from(unit, SYS_FLAG_AT)[0]
    start, end = body_bounds(unit)
    body = bytes(unit[start:end])
    if sys_flag & COMPRESSED:
        try:
            body = decompress(body, sys_flag)
        except ProtocolError as error:
            raise FilterFailed("body", str(error)) from None
    return stored_properties(unit), body


class JsonMessage:
    """Properties by name and values of the body by path; the body is parsed when a path is first looked up."""

    __slots__ = ("_body", "_parsed", "get")

    def __init__(self, properties: dict[str, str], body: bytes) -> None:
        self.get = properties.get
        self._body = body
        self._parsed: Any = _NOT_PARSED

    @classmethod
    def of_unit(cls, unit: memoryview) -> JsonMessage:
        """The message of a stored unit."""
        properties, body = parts_of(unit)
        return cls(decode_properties(properties.decode(errors="replace")), body)

    def at(self, path: Path) -> str | None:
        """The value as text; None when the body is not JSON, or has nothing or null there."""
        value = self._parsed
        if value is _NOT_PARSED:
            value = self._parsed = _parse(self._body)
        for step in path:
            if isinstance(step, str):
                value = value.get(step) if isinstance(value, dict) else None
            else:
                value = value[step] if isinstance(value, list) and step < len(value) else None
        if value is None or isinstance(value, str):
            return value
        return msgspec.json.encode(value).decode()


def _parse(body: bytes) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
        return None
