"""Structured logs: each line of a handler carries its message, and can be JSON."""

import logging
from typing import Any

from ariane.app.listen.context import current
from ariane.app.listen.delivery import log_fields
from ariane.ops import logs as ops

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


class JsonFormatter(ops.JsonFormatter):
    """One JSON object a line, with the message that a handler works on."""

    def more(self, record: logging.LogRecord) -> dict[str, Any]:
        return {name: getattr(record, name) for name in _FIELDS if hasattr(record, name)}


def log_to(handler: logging.Handler, *, as_json: bool) -> None:
    """Set a handler up for an application's logs."""
    handler.addFilter(MessageFilter())
    if as_json:
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
