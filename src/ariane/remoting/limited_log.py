"""Bounds the log lines that peers can cause, in length and in rate."""

import logging
import traceback
from typing import Final

from ariane.env import Clock

LONGEST: Final = 1000  # characters of a line
LONGEST_TRACEBACK: Final = 4000
DEEPEST: Final = 20  # calls of a traceback
WINDOW: Final = 10.0  # seconds
LINES: Final = 20  # in a window


class LimitedLog:
    """Writes at most `LINES` lines in `WINDOW` seconds, then the number of suppressed ones."""

    def __init__(self, logger: logging.Logger, clock: Clock) -> None:
        self._logger = logger
        self._clock = clock
        self._since = clock.monotonic() - WINDOW
        self._written = 0
        self._left_out = 0

    def warning(self, text: str, *args: object) -> None:
        """Write a warning, cut to `LONGEST` characters."""
        if self._may_write():
            self._logger.warning("%s", clip(text % args))

    def fault(self, error: BaseException, text: str, *args: object) -> None:
        """Write an unexpected error with the innermost calls of its traceback."""
        if self._may_write():
            trace = "".join(traceback.format_exception(error, limit=-DEEPEST))
            self._logger.error("%s\n%s", clip(text % args), clip(trace, LONGEST_TRACEBACK))

    def flush(self) -> None:
        """Log how many lines were suppressed in the past window."""
        if self._clock.monotonic() - self._since < WINDOW:
            return
        left_out, self._left_out, self._written = self._left_out, 0, 0
        if left_out:
            self._logger.warning("%d more lines like the last ones were left out", left_out)

    def _may_write(self) -> bool:
        self.flush()
        if self._written == 0:
            self._since = self._clock.monotonic()
        if self._written >= LINES:
            self._left_out += 1
            return False
        self._written += 1
        return True


def clip(text: str, longest: int = LONGEST) -> str:
    """The text, or as much of it as a log line or a remark may have.

    >>> clip("abcdefgh", 5)
    'abcde… (3 more characters)'
    """
    return text if len(text) <= longest else f"{text[:longest]}… ({len(text) - longest} more characters)"
