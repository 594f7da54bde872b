"""Reads a value in Avro's binary encoding by its schema.

Written here because bodies come from strangers: a list nested 65,000 deep ends the process inside of fastavro. Here
depth and the number of values are bounded.
"""

import struct
from collections.abc import Iterator
from typing import Any, Final

DEEPEST: Final = 64
MOST: Final = 100_000  # values of a body

PRIMITIVES: Final = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})


class AvroError(ValueError):
    """The body does not have this schema, or the schema is no schema."""


class AvroReader:
    """Reads bodies of one schema.

    >>> AvroReader({"type": "record", "name": "A", "fields": [{"name": "n", "type": "int"}]}).read(b"\\x06")
    {'n': 3}
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._collect(schema, "", 0)

    def _collect(self, schema: Any, space: str, depth: int) -> None:
        """Find the named types, and check that the schema is one."""
        if depth > DEEPEST:
            raise AvroError("the schema is nested too deep")
        if isinstance(schema, list):
            for one in schema:
                self._collect(one, space, depth + 1)
            return
        if isinstance(schema, str):
            return
        if not isinstance(schema, dict) or "type" not in schema:
            raise AvroError("not a schema")
        kind = schema["type"]
        if kind in ("record", "error", "enum", "fixed"):
            name, space = str(schema.get("name", "")), str(schema.get("namespace", space))
            full = name if "." in name or not space else f"{space}.{name}"
            space = full.rpartition(".")[0]
            self._named.setdefault(full, schema)
            self._named.setdefault(name, schema)
            for one in schema.get("fields", ()):
                self._collect(one.get("type"), space, depth + 1)
        elif kind in ("array", "map"):
            self._collect(schema.get("items" if kind == "array" else "values"), space, depth + 1)
        elif not isinstance(kind, str):
            self._collect(kind, space, depth + 1)

    def read(self, body: bytes) -> Any:
        """The value of a body; AvroError when it has another schema."""
        reader = _Bytes(body)
        try:
            value = self._value(self._schema, reader, 0)
        except (KeyError, TypeError, AttributeError, struct.error) as error:
            raise AvroError(f"not a schema: {error!r}") from None
        if reader.at != len(body):
            raise AvroError(f"{len(body) - reader.at} bytes are left over")
        return value

    def _value(self, schema: Any, data: "_Bytes", depth: int) -> Any:
        data.values += 1
        if depth > DEEPEST or data.values > MOST:
            raise AvroError("the value is nested too deep or has too many parts")
        if isinstance(schema, list):
            index = data.long()
            if not 0 <= index < len(schema):
                raise AvroError("a union has no such branch")
            return self._value(schema[index], data, depth + 1)
        kind = schema if isinstance(schema, str) else schema["type"]
        if isinstance(kind, str) and kind in PRIMITIVES:
            return _primitive(kind, data)
        if isinstance(schema, str):
            if schema not in self._named:
                raise AvroError(f"the schema does not define {schema}")
            return self._value(self._named[schema], data, depth + 1)
        if kind in ("record", "error"):
            return {one["name"]: self._value(one["type"], data, depth + 1) for one in schema["fields"]}
        if kind == "enum":
            index = data.long()
            if not 0 <= index < len(schema["symbols"]):
                raise AvroError("an enum has no such symbol")
            return schema["symbols"][index]
        if kind == "fixed":
            return data.take(int(schema["size"])).hex()
        if kind == "array":
            return [self._value(schema["items"], data, depth + 1) for _ in data.blocks()]
        if kind == "map":
            return {
                data.take(data.long()).decode(errors="replace"): self._value(schema["values"], data, depth + 1)
                for _ in data.blocks()
            }
        return self._value(kind, data, depth + 1)


def _primitive(kind: str, data: "_Bytes") -> Any:
    if kind == "null":
        return None
    if kind == "boolean":
        return data.take(1) != b"\0"
    if kind in ("int", "long"):
        return data.long()
    if kind == "float":
        return struct.unpack("<f", data.take(4))[0]
    if kind == "double":
        return struct.unpack("<d", data.take(8))[0]
    found = data.take(data.long())
    return found.hex() if kind == "bytes" else found.decode(errors="replace")


class _Bytes:
    """The bytes of a body, from left to right."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self.at = 0
        self.values = 0

    def take(self, count: int) -> bytes:
        if count < 0 or self.at + count > len(self._body):
            raise AvroError("the body ends early")
        self.at += count
        return self._body[self.at - count : self.at]

    def long(self) -> int:
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)
            if shift > 63:
                raise AvroError("a number is too long")

    def blocks(self) -> Iterator[None]:
        """Once for each item of an array or map."""
        while (count := self.long()) != 0:
            if count < 0:
                self.long()  # the size of the block in bytes
                count = -count
            for _ in range(min(count, MOST + 1)):
                self.values += 1
                if self.values > MOST:
                    raise AvroError("the value has too many parts")
                yield None
