"""Checks of the broker's text options. Each returns the complaint, or None for a good value."""

from __future__ import annotations

import re
from ipaddress import ip_network

from ariane.settings import Value

DELAY_UNITS_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
SEVERAL_FOLDERS = "A commitlog in several folders is not available"
ADDRESS = re.compile(r"[^\s;]+:[0-9]{1,5}")
PEER = re.compile(r"[A-Za-z0-9_]+-[^\s;-][^\s;]*:[0-9]{1,5}")


def delay_levels_ms(text: str) -> tuple[int, ...]:
    """`1s 5s 10s` as milliseconds, the first for level 1; ValueError when a part is not a number with a unit.

    >>> delay_levels_ms("1s 2m")
    (1000, 120000)
    """
    return tuple(_delay_ms(part) for part in text.split(" "))


def _delay_ms(part: str) -> int:
    match = re.fullmatch(r"([0-9]{1,9})([smhd])", part)
    if match is None:
        raise ValueError(part)
    return int(match.group(1)) * DELAY_UNITS_MS[match.group(2)]


def delay_levels(text: str) -> str | None:
    """Levels such as `1s 5s 10s 30s 1m`, with one blank between."""
    try:
        delay_levels_ms(text)
    except ValueError as error:
        return f"expected delays such as 1s 5s 10s 2h with single blanks between, got {str(error)!r} among them"
    return None


def hours_of_day(text: str) -> str | None:
    """One or several hours such as `04` or `04;16`."""
    if all(re.fullmatch(r"[0-9]{1,2}", hour) and int(hour) < 24 for hour in text.split(";")):
        return None
    return f"expected hours of the day such as 04 or 04;16, got {text!r}"


def addresses(text: str) -> str | None:
    """One or several `host:port`, separated by semicolons; empty for none."""
    if not text or all(ADDRESS.fullmatch(part) for part in text.rstrip(";").split(";")):
        return None
    return f"expected addresses such as 127.0.0.1:9876;192.168.0.1:9876, got {text!r}"


def peers(text: str) -> str | None:
    """DLedger members such as `n0-127.0.0.1:40911;n1-127.0.0.1:40912`."""
    if all(PEER.fullmatch(part) for part in text.split(";")):
        return None
    return f"expected members such as n0-127.0.0.1:40911;n1-127.0.0.1:40912, got {text!r}"


def networks(text: str) -> str | None:
    """Addresses or networks such as `10.0.0.7;10.1.0.0/16`; empty for none."""
    for part in text.split(";") if text else ():
        try:
            ip_network(part.strip(), strict=False)
        except ValueError:
            return f"expected addresses or networks such as 10.0.0.7;10.1.0.0/16, got {part!r} among them"
    return None


def one_folder(path: Value) -> str | None:
    """Refuse Apache's list of folders, which has commas."""
    return f"{SEVERAL_FOLDERS}: name one" if "," in str(path) else None


def not_empty(text: str) -> str | None:
    """Refuse an empty text."""
    return None if text else "expected a name, got nothing"
