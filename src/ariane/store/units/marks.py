"""Tags, keys and unique key of a message, found in the stored bytes of its properties."""

from types import FunctionType
from typing import Final

from ariane.protocol.fast.matching import equal_span, has_byte, stands_at
from ariane.protocol.native import i64
from ariane.store.units.hashes import tags_code

_TAGS: Final = b"TAGS\x01"
_UNIQUE: Final = b"UNIQ_KEY\x01"
_KEYS: Final = b"KEYS\x01"
_T: Final = ord("T")
_U: Final = ord("U")
_K: Final = ord("K")
_SEPARATOR: Final = 2


class Marks:
    """The parts of stored properties used by queue and index: tags code, keys, position of the unique key."""

    __slots__ = ("_sample", "keys", "tags_code", "unique_at", "unique_end")

    def __init__(self, properties: bytes) -> None:
        self._sample = properties
        self.tags_code = 0
        self.keys: bytes | None = None
        self.unique_at: i64 = 0
        self.unique_end: i64 = 0
        """The end of the unique key; 0 when there is none."""
        if PLAIN:
            self._look_by_parts(properties)
        else:
            self._look_by_bytes(properties)

    def fit(self, properties: bytes) -> bool:
        """Whether these properties differ from the sample in the unique key alone, so that the marks hold for them."""
        return self.fit_part(properties, 0, len(properties))

    def fit_part(self, text: bytes, start: i64, stop: i64) -> bool:
        """The same for the properties that are `text[start:stop]`."""
        sample = self._sample
        size = stop - start
        if size != len(sample):
            return False
        at, end = self.unique_at, self.unique_end
        if PLAIN:
            return (
                text[start : start + at] == sample[:at] and text[start + end : stop] == sample[end:]
                and text.find(_SEPARATOR, start + at, start + end) < 0
            )  # fmt: skip
        if not equal_span(sample, 0, text, start, at) or not equal_span(sample, end, text, start + end, size - end):
            return False
        return not has_byte(text, start + at, start + end, _SEPARATOR)

    def _look_by_parts(self, properties: bytes) -> None:
        tags = value_of(properties, _TAGS)
        self.keys = value_of(properties, _KEYS)
        if tags is not None:
            self.tags_code = tags_code(tags)
        text = b"\x02" + properties
        found = text.rfind(b"\x02" + _UNIQUE)
        while found >= 0:
            at = found + len(_UNIQUE)
            end = properties.find(_SEPARATOR, at)
            if end < 0:
                end = len(properties)
            if end > at:
                self.unique_at, self.unique_end = at, end
                return
            found = text.rfind(b"\x02" + _UNIQUE, 0, found)  # an empty one does not count

    def _look_by_bytes(self, properties: bytes) -> None:
        """Like `_look_by_parts`, in one pass over the bytes."""
        size: i64 = len(properties)
        at: i64 = 0
        while at < size:
            first: i64 = properties[at]
            end = at
            while end < size and properties[end] != _SEPARATOR:
                end += 1
            if first == _U and end > at + 9 and stands_at(_UNIQUE, properties, at):
                self.unique_at = at + 9
                self.unique_end = end
            elif first == _T and end > at + 5 and stands_at(_TAGS, properties, at):
                self.tags_code = tags_code(properties[at + 5 : end])
            elif first == _K and end > at + 5 and stands_at(_KEYS, properties, at):
                self.keys = properties[at + 5 : end]
            at = end + 1


def value_of(properties: bytes, name: bytes) -> bytes | None:
    """The value of a property; None when it is missing or empty. `name` ends with the separator."""
    return _found_by_parts(properties, name) if PLAIN else _found_by_bytes(properties, name)


def _found_by_parts(properties: bytes, name: bytes) -> bytes | None:
    """The cheapest search in plain Python."""
    before, found, rest = properties.partition(name)
    while found and before and before[-1] != 2:  # matched the end of a longer name
        before, found, rest = rest.partition(name)
    return rest.partition(b"\x02")[0] or None if found else None


def _found_by_bytes(properties: bytes, name: bytes) -> bytes | None:
    """The cheapest search when compiled: a look at each byte costs less than a call."""
    size: i64 = len(properties)
    width: i64 = len(name)
    first: i64 = name[0]
    at: i64 = 0
    while at + width <= size:
        if properties[at] == first and properties[at : at + width] == name:
            at += width
            end = at
            while end < size and properties[end] != 2:
                end += 1
            return properties[at:end] or None
        while at < size and properties[at] != 2:
            at += 1
        at += 1
    return None


PLAIN: Final = isinstance(value_of, FunctionType)
"""Whether this module is not compiled."""
