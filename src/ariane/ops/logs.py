"""Log files with rotation, as text or JSON, with levels by area that can change while a server runs.

An area is a logger below `ariane`: broker, store, remoting, namesrv, admin, slow and so on.
"""

import json
import logging
import sys
import time
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any, Final, Protocol

from ariane.settings import ConfigError
from ariane.settings.operation import area_levels

TEXT: Final = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
ROOT: Final = "ariane"
ADMIN: Final = "ariane.admin"
FIELDS: Final = "fields"
"""The record attribute with extra fields of a JSON line."""


class LogSettings(Protocol):
    """The part of a server's configuration that is about logs."""

    @property
    def log_file(self) -> str: ...

    @property
    def log_file_max_bytes(self) -> int: ...

    @property
    def log_file_count(self) -> int: ...

    @property
    def log_format(self) -> str: ...

    @property
    def log_level(self) -> str: ...

    @property
    def log_levels(self) -> str: ...

    @property
    def admin_log_file(self) -> str: ...


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self.more(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)

    def more(self, record: logging.LogRecord) -> dict[str, Any]:
        """The extra fields of a line."""
        found = getattr(record, FIELDS, None)
        return found if isinstance(found, dict) else {}


class TextFormatter(logging.Formatter):
    """Indents continuation lines, so that text from a peer cannot forge a log line."""

    def __init__(self) -> None:
        super().__init__(TEXT)

    def formatMessage(self, record: logging.LogRecord) -> str:
        return super().formatMessage(record).replace("\r", "").replace("\n", "\n    ")


def open_logs(options: LogSettings, level: str) -> None:
    """Configure log output and levels of this process; `level` applies when `logLevel` is not set."""
    root = logging.getLogger()
    for old in list(root.handlers):
        root.removeHandler(old)
        old.close()
    root.addHandler(_handler(options, options.log_file))
    root.setLevel(logging.WARNING)  # of other packages
    admin = logging.getLogger(ADMIN)
    for old in list(admin.handlers):
        admin.removeHandler(old)
        old.close()
    admin.propagate = not options.admin_log_file
    if options.admin_log_file:
        admin.addHandler(_handler(options, options.admin_log_file))
    LogLevels(level).set(options)


def _handler(options: LogSettings, file: str) -> logging.Handler:
    handler: logging.Handler
    if file:
        try:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
            handler = RotatingFileHandler(
                file, maxBytes=options.log_file_max_bytes, backupCount=options.log_file_count, encoding="utf-8"
            )
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigError(f"the log {file} cannot be written ({reason}); name another file") from None
    else:
        handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if options.log_format == "json" else TextFormatter())
    return handler


class LogLevels:
    """Sets the levels of the areas. An area that is no longer named returns to the common level.

    `current` are the options whose levels are in force already.
    """

    def __init__(self, default: str = "", current: LogSettings | None = None) -> None:
        self._default = default
        self._areas = {} if current is None else area_levels(current.log_levels)
        self._common = "" if current is None else current.log_level

    def set(self, options: LogSettings) -> None:
        """Apply `logLevel` and `logLevels`."""
        common, areas = options.log_level or self._default, area_levels(options.log_levels)
        if common and common != self._common:
            logging.getLogger(ROOT).setLevel(common.upper())
        self._common = common
        for area in self._areas.keys() - areas.keys():
            logging.getLogger(f"{ROOT}.{area}").setLevel(logging.NOTSET)
        for area, level in areas.items():
            logging.getLogger(f"{ROOT}.{area}").setLevel(level.upper())
        self._areas = areas
