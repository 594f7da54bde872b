"""Rate-limits warnings that clients can cause: one line a minute, with the number of suppressed ones."""

import logging
from typing import Final

from ariane.env import Clock

INTERVAL: Final = 60.0  # seconds between two lines


class SeldomLog:
    """Writes a warning at most once per `INTERVAL`."""

    def __init__(self, log: logging.Logger, clock: Clock) -> None:
        self._log = log
        self._clock = clock
        self._next = 0.0
        self._left_out = 0

    def warning(self, text: str, *args: object) -> None:
        """Log the warning, or count it when one was logged less than `INTERVAL` ago."""
        now = self._clock.monotonic()
        if now < self._next:
            self._left_out += 1
            return
        more = f" ({self._left_out} more in the last minute)" if self._left_out else ""
        self._log.warning(text + more, *args)
        self._next, self._left_out = now + INTERVAL, 0
