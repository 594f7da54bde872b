"""What a server says while it runs: one line an event, on the error output."""

import logging
from enum import StrEnum

FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


class LogLevel(StrEnum):
    """From everything to almost nothing."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


def log_to_stderr(level: LogLevel) -> None:
    """Show the events of Ariane from this level on, and warnings of anything else."""
    logging.basicConfig(format=FORMAT, level=logging.WARNING)
    logging.getLogger("ariane").setLevel(level.upper())
