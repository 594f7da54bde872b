"""The broker's configuration at run time: shown without secrets, changed by an allow-list."""

from __future__ import annotations

import logging
from pathlib import Path

from ariane.broker.config.live import LiveOptions
from ariane.broker.role import Role
from ariane.env import Clock, Files
from ariane.errors import ResponseError
from ariane.protocol.bodies import DataVersion
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import GetBrokerConfigResponse
from ariane.remoting import Connection
from ariane.settings import ConfigError, format_properties, parse_properties
from ariane.settings.edit import rewrite

log = logging.getLogger("ariane.broker")


class AdminConfigHandler:
    """GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG."""

    def __init__(self, options: LiveOptions, role: Role, files: Files, clock: Clock) -> None:
        self._options = options
        self._role = role
        self._files = files
        self._clock = clock
        self._version = DataVersion(clock.now_ms(), 0)

    def get(self, _: Connection, request: Command) -> Command:
        """GET_BROKER_CONFIG: every option of Apache's with its value; id and role as a promotion left them."""
        now = {"brokerId": str(self._role.broker_id), "brokerRole": self._role.kind.value}
        body = format_properties(self._options.current.as_properties() | now).encode()
        version = self._version.encode().decode()
        return request.reply(0, GetBrokerConfigResponse(version).fields(), body)

    def update(self, connection: Connection, request: Command) -> Command:
        """UPDATE_BROKER_CONFIG: change options, all of them or none, and write them to the file of the start.

        Only options on the allow-list change: no path, no address, no key of access control.
        """
        if not request.body:
            return request.reply()
        options = self._options.current
        file = options.settings.file
        try:
            changes = {entry.key: entry.value for entry in parse_properties(request.body.decode())}
            for key, value in changes.items():
                options = options.updated(key, value)
        except (ConfigError, UnicodeDecodeError) as error:
            raise _not_changed(error) from None
        try:
            if file:
                rewrite(self._files, Path(file), changes)
        except (OSError, UnicodeError) as error:
            raise _not_changed(f"{file} cannot be written: {error}") from None
        text = ", ".join(f"{key}={value}" for key, value in changes.items())
        log.warning("configuration changed by %s: %s", connection.peer, text)
        self._options.change(options)
        self._version = DataVersion(self._clock.now_ms(), self._version.counter + 1)
        return request.reply()


def _not_changed(why: object) -> ResponseError:
    return ResponseError(ResponseCode.SYSTEM_ERROR, f"the configuration is not changed: {why}")
