"""Numbers as Java prints them in the runtime info."""

from __future__ import annotations

import math
from decimal import Decimal

UNITS = "KMGTPE"


def double_text(number: float) -> str:
    """`Double.toString`.

    >>> double_text(246.9), double_text(0.0), double_text(12345678.0), double_text(0.00012)
    ('246.9', '0.0', '1.2345678E7', '1.2E-4')
    """
    if not math.isfinite(number):
        return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"
    if number == 0 or 1e-3 <= abs(number) < 1e7:
        return repr(float(number))
    sign, digits, exponent = Decimal(repr(float(number))).normalize().as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits))
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{exponent + len(digits) - 1}"


def byte_count_text(count: int) -> str:
    """A number of bytes for people, in units of 1024.

    >>> byte_count_text(512), byte_count_text(3687), byte_count_text(252 * 1024**3)
    ('512 B', '3.6 KiB', '252.0 GiB')
    """
    if count < 1024:
        return f"{count} B"
    power = int(math.log(count) / math.log(1024))
    return f"{count / 1024**power:.1f} {UNITS[power - 1]}iB"


def runtime_text(elapsed_ms: int) -> str:
    """A duration as the runtime info shows it.

    >>> runtime_text(42_000)
    '[ 0 days, 0 hours, 0 minutes, 42 seconds ]'
    """
    seconds = elapsed_ms // 1000
    hours, minutes = seconds // 3600 % 24, seconds // 60 % 60
    return f"[ {seconds // 86400:,} days, {hours} hours, {minutes} minutes, {seconds % 60} seconds ]"
