"""Structured logs: each line of a handler carries its message, and can be JSON."""

import json
import logging
import time
from typing import Any

from ariane.app.context import current
from ariane.app.delivery import log_fields

_FIELDS = ("listener", "topic", "message_id", "message_keys", "reconsume_times")


class MessageFilter(logging.Filter):
    """Adds `listener`, `topic`, `message_id`, `message_keys` and `reconsume_times` to what is logged in a handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        context = current.get()
        if context is not None:
            for name, value in log_fields(context).items():
                if not hasattr(record, name):
                    setattr(record, name, value)
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created)) + f".{int(record.msecs):03d}Z",
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        for name in _FIELDS:
            if hasattr(record, name):
                line[name] = getattr(record, name)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to(handler: logging.Handler, *, as_json: bool) -> None:
    """Set a handler up for an application's logs."""
    handler.addFilter(MessageFilter())
    if as_json:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
