"""The JSON dialect of Apache's peers: fastjson leaves number keys unquoted, and writes objects as keys.

`loads` reads it and strict JSON alike; an object used as a key becomes an `ObjectKey`. `dumps` writes strict JSON,
except for `ObjectKey`s, which only Apache's own tools and clients receive.
"""

import re
from typing import Any

import msgspec

from ariane.errors import ProtocolError


class ObjectKey(tuple[tuple[str, Any], ...]):
    """An object used as the key of a map: its members in order.

    >>> loads(b'{{"queueId":1,"topic":"T"}:5}')
    {(('queueId', 1), ('topic', 'T')): 5}
    """

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return dict(self)


_encoder = msgspec.json.Encoder()
_TOKEN = re.compile(r'\s*(?:([{}\[\]:,])|"((?:[^"\\]|\\.)*)"|\'((?:[^\'\\]|\\.)*)\'|([^\s{}\[\]:,"\']+))', re.DOTALL)
_WORDS = {"true": True, "false": False, "null": None}
DEEPEST = 64
"""Levels of nesting that are accepted; RocketMQ's bodies have fewer than ten."""


def dumps(value: Any) -> bytes:
    """Write a value; maps whose keys are `ObjectKey` are written as fastjson writes them."""
    if isinstance(value, dict) and any(isinstance(key, ObjectKey) for key in value):
        pairs = [dumps(k.as_dict() if isinstance(k, ObjectKey) else k) + b":" + dumps(v) for k, v in value.items()]
        return b"{" + b",".join(pairs) + b"}"
    if isinstance(value, dict):
        return b"{" + b",".join(_encoder.encode(str(k)) + b":" + dumps(v) for k, v in value.items()) + b"}"
    if isinstance(value, list | tuple | set | frozenset):
        return b"[" + b",".join(dumps(v) for v in value) + b"]"
    return _encoder.encode(value)


def loads(text: bytes) -> Any:
    """Read strict JSON or fastjson's; ProtocolError when it is neither."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _Parser(text).document()


class _Parser:
    def __init__(self, text: bytes) -> None:
        try:
            self._text = text.decode()
        except UnicodeDecodeError as error:
            raise ProtocolError(f"JSON is not UTF-8: {error}") from None
        self._at = 0

    def document(self) -> Any:
        value = self._value(0)
        if self._text[self._at :].strip():
            raise self._error("text after the end")
        return value

    def _error(self, what: str) -> ProtocolError:
        return ProtocolError(f"bad JSON at {self._at}: {what}")

    def _token(self) -> tuple[str, Any]:
        """The next token: a punctuation mark as itself, anything else as ("value", value)."""
        match = _TOKEN.match(self._text, self._at)
        if match is None:
            raise self._error("not JSON" if self._at < len(self._text) else "the text ends too early")
        self._at = match.end()
        mark, double, single, word = match.groups()
        if mark is not None:
            return mark, None
        if word is not None:
            return "value", self._word(word)
        return "value", self._string(double if double is not None else single.replace('"', '\\"'))

    def _string(self, raw: str) -> str:
        try:
            return msgspec.json.decode(f'"{raw}"', type=str) if "\\" in raw else raw
        except msgspec.DecodeError:
            raise self._error("bad escape in a text") from None

    def _word(self, word: str) -> Any:
        if word in _WORDS:
            return _WORDS[word]
        try:
            return int(word)
        except ValueError:
            pass
        try:
            return float(word)
        except ValueError:
            return word  # an unquoted name

    def _value(self, depth: int) -> Any:
        kind, value = self._token()
        return self._after(kind, value, depth)

    def _after(self, kind: str, value: Any, depth: int) -> Any:
        if depth > DEEPEST:
            raise self._error("nested too deep")
        if kind == "value":
            return value
        if kind == "{":
            return self._object(depth + 1)
        if kind == "[":
            return self._array(depth + 1)
        raise self._error(f"{kind!r} where a value should be")

    def _array(self, depth: int) -> list[Any]:
        items: list[Any] = []
        while True:
            kind, value = self._token()
            if kind == "]":
                return items
            if kind != ",":
                items.append(self._after(kind, value, depth))

    def _object(self, depth: int) -> dict[Any, Any]:
        members: dict[Any, Any] = {}
        while True:
            kind, value = self._token()
            if kind == "}":
                return members
            if kind == ",":
                continue
            key = self._after(kind, value, depth)
            if self._token()[0] != ":":
                raise self._error("no ':' after a key")
            try:
                members[_as_key(key)] = self._value(depth)
            except TypeError:
                raise self._error("an object that holds others cannot be a key") from None


def _as_key(key: Any) -> Any:
    if isinstance(key, dict):
        return ObjectKey(key.items())
    if isinstance(key, list):
        return str(key)
    return key if isinstance(key, str) else str(key)
