"""The log of administrative changes, with their senders, and of slow requests.

Wraps handlers instead of observing requests: an observer would slow every send and pull, which are not logged.
"""

import inspect
import logging
import re
from collections.abc import Awaitable, Collection, Mapping
from itertools import islice
from typing import Final

from ariane.env import Clock
from ariane.errors import ResponseError
from ariane.protocol.codes import OWN_REQUESTS, RequestCode
from ariane.protocol.command import Command
from ariane.remoting import Connection, Handler
from ariane.remoting.limited_log import LimitedLog, clip
from ariane.settings import ConfigError, parse_properties

admin_log = logging.getLogger("ariane.admin")
slow_log = logging.getLogger("ariane.slow")

LONGEST_VALUE: Final = 300  # characters of a field
LONGEST_NAME: Final = 100
MOST_FIELDS: Final = 50
SECRETS: Final = frozenset({"Signature", "SecurityToken", "secretKey"})
_SECRET_OPTION: Final = re.compile(r"key|secret|password|token|headers", re.IGNORECASE)
ACCOUNT: Final = "AccessKey"
CONFIGURATION: Final = frozenset({RequestCode.UPDATE_BROKER_CONFIG, RequestCode.UPDATE_NAMESRV_CONFIG})


class RequestLog:
    """Writes a line for every change that an administrator asks for, and for requests slower than `slow_after`."""

    def __init__(self, clock: Clock, slow_after_ms: int) -> None:
        self._clock = clock
        self._slow = LimitedLog(slow_log, clock)
        self.slow_after_ms = slow_after_ms
        """0: no request is slow."""
        self.slow = 0
        """How many requests were slow."""
        self.changes = 0
        """How many changes were asked for."""

    def watched(
        self, handlers: Mapping[int, Handler], *, changing: Collection[int], unwatched: Collection[int]
    ) -> dict[int, Handler]:
        """The handlers, of which those for `changing` codes are logged and all but the `unwatched` are timed."""
        return {
            code: handler if code in unwatched else self._watch(handler, code in changing)
            for code, handler in handlers.items()
        }

    def _watch(self, handler: Handler, changes: bool) -> Handler:
        def watch(connection: Connection, request: Command) -> Command | Awaitable[Command | None] | None:
            began = self._clock.monotonic()
            try:
                answer = handler(connection, request)
            except ResponseError as error:
                self._done(connection, request, began, changes, error)
                raise
            if inspect.isawaitable(answer):
                return self._later(connection, request, began, changes, answer)
            self._done(connection, request, began, changes, answer)
            return answer

        return watch

    async def _later(
        self,
        connection: Connection,
        request: Command,
        began: float,
        changes: bool,
        answer: Awaitable[Command | None],
    ) -> Command | None:
        try:
            answered = await answer
        except ResponseError as error:
            self._done(connection, request, began, changes, error)
            raise
        self._done(connection, request, began, changes, answered)
        return answered

    def _done(
        self,
        connection: Connection,
        request: Command,
        began: float,
        changes: bool,
        outcome: Command | ResponseError | None,
    ) -> None:
        took_ms = int((self._clock.monotonic() - began) * 1000)
        if changes:
            self._changed(connection, request, outcome)
        if 0 < self.slow_after_ms <= took_ms:
            self.slow += 1
            self._slow.warning("%s of %s took %d ms", code_name(request.code), connection.peer, took_ms)

    def took(self, what: str, count: int, took_ms: int) -> None:
        """Log requests that were timed elsewhere, if they were slow."""
        if 0 < self.slow_after_ms <= took_ms:
            self.slow += count
            self._slow.warning("%s took %d ms", what, took_ms)

    def _changed(self, connection: Connection, request: Command, outcome: Command | ResponseError | None) -> None:
        self.changes += 1
        account = request.fields.get(ACCOUNT, "")
        fields = shown_fields(request)
        code = 0 if outcome is None else outcome.code
        remark = "" if outcome is None or not code else outcome.remark or ""
        result = "done" if code == 0 else f"refused with code {code}: {clip(remark, LONGEST_VALUE)}"
        admin_log.info(
            "%s%s asked for %s %s: %s",
            connection.peer,
            f" as {account}" if account else "",
            code_name(request.code),
            " ".join(f"{name}={value}" for name, value in fields.items()),
            result,
            extra={
                "fields": {
                    "peer": connection.peer,
                    "account": account,
                    "request": code_name(request.code),
                    "arguments": fields,
                    "code": code,
                    "remark": clip(remark, LONGEST_VALUE),
                }
            },
        )


def code_name(code: int) -> str:
    """The name of a request code, or its number.

    >>> code_name(17), code_name(30001), code_name(9)
    ('UPDATE_AND_CREATE_TOPIC', 'RESEND_DEAD_LETTERS', '9')
    """
    try:
        return RequestCode(code).name
    except ValueError:
        return OWN_REQUESTS.get(code, str(code))


def shown_fields(request: Command) -> dict[str, str]:
    """The fields of a request without signatures and secrets, and the text of a changed configuration."""
    fields = {
        clip(name, LONGEST_NAME): "***" if name in SECRETS else clip(str(value), LONGEST_VALUE)
        for name, value in islice(request.fields.items(), MOST_FIELDS)
        if name not in (ACCOUNT, "Signature", "SecurityToken")
    }
    if request.code in CONFIGURATION and request.body:
        fields["configuration"] = clip(_shown_options(bytes(request.body)), LONGEST_VALUE)
    return fields


def _shown_options(body: bytes) -> str:
    """The options of a changed configuration; also of one that is refused, which may have a secret in it."""
    try:
        entries = parse_properties(body.decode(errors="replace"))
        return "\n".join(
            f"{entry.key}={'***' if _SECRET_OPTION.search(entry.key) else entry.value}" for entry in entries
        )
    except ConfigError:
        return "(not readable)"
