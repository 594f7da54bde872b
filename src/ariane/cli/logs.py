"""Log of a server: one line per event, on stderr."""

import logging
from enum import StrEnum

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class LogLevel(StrEnum):
    """Levels of the log."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def log_to_stderr(level: LogLevel) -> None:
    """Show Ariane's events from this level on, and warnings of other packages."""
    logging.basicConfig(format=FORMAT, level=logging.WARNING)
    logging.getLogger("ariane").setLevel(level.upper())
