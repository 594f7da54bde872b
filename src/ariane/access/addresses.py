"""Patterns of addresses in RocketMQ's form: `10.1.2.3`, `10.1.2.*`, `10.1.2.3-9`, `10.1.2.{3,4}`, lists, IPv6.

Every part of a pattern is checked. Apache's broker checks only the first `*` or range and admits more addresses; it
also accepts patterns that fail at each request, which are errors here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import Final

EVERYBODY: Final = ("*", "*.*.*.*", "*:*:*:*:*:*:*:*")
_MAPPED: Final = bytes(10) + b"\xff\xff"  # an IPv4 address inside of an IPv6 address
_FORMS: Final = "expected an address, `*`, 10.1.2.*, 10.1.2.3-9, 10.1.2.{3,4}, 10.1.2.3,10.1.2.4 or the same of IPv6"

Span = tuple[int, int]
Spans = tuple[Span, ...]
"""The lowest and highest value of each part: 4 of IPv4, 8 of IPv6."""


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """A set of addresses, given as text.

    >>> AddressPattern.parse("127.0.0.*").matches(bytes([127, 0, 0, 9]))
    True
    """

    text: str
    everybody: bool = False
    alternatives: tuple[Spans, ...] = ()

    @classmethod
    def parse(cls, text: str) -> AddressPattern:
        """Parse a pattern; a blank one matches no address. ValueError says what is wrong."""
        if not text.strip():
            return cls(text)
        if text in EVERYBODY:
            return cls(text, everybody=True)
        if text.endswith("}"):
            return cls(text, alternatives=tuple(_exact(one) for one in _listed(text)))
        if "," in text:
            return cls(text, alternatives=tuple(_exact(one) for one in text.split(",")))
        if "*" in text or "-" in text:
            return cls(text, alternatives=(_ranges_v6(text) if ":" in text else _ranges_v4(text),))
        return cls(text, alternatives=(_exact(text),))

    def matches(self, address: bytes) -> bool:
        """Whether a packed address is one of these."""
        if self.everybody:
            return True
        if not self.alternatives:
            return False
        parts = _parts(address)
        return any(
            len(spans) == len(parts)
            and all(low <= part <= high for part, (low, high) in zip(parts, spans, strict=True))
            for spans in self.alternatives
        )


def _parts(address: bytes) -> tuple[int, ...]:
    if len(address) == 16 and address.startswith(_MAPPED):
        address = address[12:]
    if len(address) == 4:
        return tuple(address)
    return tuple(int.from_bytes(address[at : at + 2], "big") for at in range(0, len(address), 2))


def _exact(text: str) -> Spans:
    try:
        packed = IPv6Address(text).packed if ":" in text and "%" not in text else IPv4Address(text).packed
    except AddressValueError:
        raise ValueError(f"{text!r} is no address: {_FORMS}") from None
    return tuple((part, part) for part in _parts(packed))


def _listed(text: str) -> list[str]:
    """Expand `10.1.2.{3,4}` to two addresses: a list is allowed in the last part only."""
    head, bracket, last = text[:-1].rpartition("{")
    if not bracket or not head.endswith((".", ":")) or "{" in head:
        raise ValueError(f"{text!r}: a list in braces stands for the last part of an address alone: {_FORMS}")
    return [head + one for one in last.split(",")] if last else []


def _ranges_v4(text: str) -> Spans:
    parts = [part.strip() for part in text.split(".")]
    if len(parts) != 4:
        raise ValueError(f"{text!r} has {len(parts)} parts, not 4: {_FORMS}")
    if not parts[0].isdecimal():
        raise ValueError(f"{text!r}: the first part must be a number")
    return tuple(_span(part, 10, 255, text) for part in parts)


def _ranges_v6(text: str) -> Spans:
    left, gap, right = text.partition("::")
    if "::" in right:
        raise ValueError(f"{text!r} has `::` twice")
    before = [part.strip() for part in left.split(":")] if left else []
    after = [part.strip() for part in right.split(":")] if right else []
    if not before:
        raise ValueError(f"{text!r}: the first part must be a number")
    missing = 8 - len(before) - len(after)
    if missing < (1 if gap else 0) or (missing and not gap):
        raise ValueError(f"{text!r} does not have 8 parts: {_FORMS}")
    parts = [*before, *["0"] * missing, *after]
    fixed = parts[:-1] if parts[-1] == "*" or "-" in parts[-1] else parts
    if parts[-1] == "*" and "-" in fixed[-1]:
        fixed = fixed[:-1]
    if any("*" in part or "-" in part for part in fixed):
        raise ValueError(f"{text!r}: `*` stands last, and a range last or before it, in a pattern of IPv6")
    return tuple(_span(part, 16, 0xFFFF, text) for part in parts)


def _span(part: str, base: int, most: int, text: str) -> Span:
    if part == "*":
        return 0, most
    low, minus, high = part.partition("-")
    span = _number(low, base, most, text), _number(high, base, most, text) if minus else -1
    if not minus:
        return span[0], span[0]
    if not span[0] <= span[1] or span[1] == 0:
        raise ValueError(f"{text!r}: {part} is no range: the second number must be the greater")
    return span


def _number(digits: str, base: int, most: int, text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,3}" if base == 10 else r"[0-9A-Fa-f]{1,4}", digits, re.ASCII):
        raise ValueError(f"{text!r}: {digits!r} is no number of an address: {_FORMS}")
    value = int(digits, base)
    if value > most:
        raise ValueError(f"{text!r}: {digits} is above {most}")
    return value
