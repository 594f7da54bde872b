"""Times as people write them."""

import re
import time
from datetime import datetime

from ariane.errors import ConfigError

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_moment(text: str) -> int:
    """Milliseconds of `now`, `30m` (ago), `2026-01-31 07:00`, ISO 8601, or a number of milliseconds.

    >>> parse_moment("1700000000000")
    1700000000000
    """
    given = text.strip()
    if given == "now":
        return int(time.time() * 1000)
    if re.fullmatch(r"\d+", given):
        return int(given)
    if (ago := re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])(?: ago)?", given)) is not None:
        return int((time.time() - float(ago[1]) * _UNITS[ago[2]]) * 1000)
    try:
        return int(datetime.fromisoformat(given).timestamp() * 1000)
    except ValueError:
        raise ConfigError(
            f"{text!r} is not a time: give 30m (ago), 2026-01-31 07:00, or milliseconds since 1970"
        ) from None


def show_moment(millis: int) -> str:
    """`2026-01-31 07:00:00` in local time; `-` for none."""
    return datetime.fromtimestamp(millis / 1000).strftime("%Y-%m-%d %H:%M:%S") if millis > 0 else "-"


def show_span(millis: int) -> str:
    """A span in the two largest units.

    >>> show_span(3_720_000), show_span(1_500), show_span(0)
    ('1h 2m', '1.5s', '0s')
    """
    seconds = millis / 1000
    if seconds < 60:
        return f"{seconds:.1f}s" if millis % 1000 else f"{seconds:.0f}s"
    minutes, hours, days = int(seconds // 60), int(seconds // 3600), int(seconds // 86400)
    if minutes < 60:
        return f"{minutes}m {int(seconds) % 60}s"
    return f"{hours}h {minutes % 60}m" if hours < 24 else f"{days}d {hours % 24}h"
