"""The broker's configuration at run time: shown without secrets, changed by an allow-list."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from ariane.errors import ResponseError
from ariane.protocol.bodies import DataVersion
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import GetBrokerConfigResponse
from ariane.remoting import Connection, Handler
from ariane.settings import ConfigError, format_properties, parse_properties
from ariane.settings.edit import rewrite

if TYPE_CHECKING:
    from ariane.broker.config import BrokerOptions
    from ariane.broker.server import Broker

log = logging.getLogger("ariane.broker")


class AdminConfigHandler:
    """GET_BROKER_CONFIG and UPDATE_BROKER_CONFIG."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._version = DataVersion(broker.env.clock.now_ms(), 0)

    def get(self, _: Connection, request: Command) -> Command:
        body = format_properties(self._broker.options.as_properties()).encode()
        version = self._version.encode().decode()
        return request.reply(0, GetBrokerConfigResponse(version).fields(), body)

    def update(self, connection: Connection, request: Command) -> Command:
        """Change what may be changed, all of it or nothing: a path, a command or a key of access control never may."""
        if request.body:
            changes = self._entries(request.body)
            options = self._changed(changes)
            self._keep(changes)
            text = ", ".join(f"{key}={value}" for key, value in changes.items())
            log.warning("configuration changed by %s: %s", connection.peer, text)
            self._broker.change_options(options)
            self._version = DataVersion(self._broker.env.clock.now_ms(), self._version.counter + 1)
        return request.reply()

    @staticmethod
    def _entries(body: bytes) -> dict[str, str]:
        try:
            return {entry.key: entry.value for entry in parse_properties(body.decode())}
        except (ConfigError, UnicodeDecodeError) as error:
            raise _not_changed(error) from None

    def _changed(self, changes: dict[str, str]) -> BrokerOptions:
        options = self._broker.options
        try:
            for key, value in changes.items():
                options = options.updated(key, value)
        except ConfigError as error:
            raise _not_changed(error) from None
        return options

    def _keep(self, changes: dict[str, str]) -> None:
        """A broker that was started from a file finds the change there at its next start."""
        file = self._broker.options.settings.file
        if not file:
            return
        try:
            rewrite(self._broker.env.files, Path(file), changes)
        except (OSError, UnicodeDecodeError) as error:
            raise _not_changed(f"{file} cannot be written: {error}") from None


def _not_changed(why: object) -> ResponseError:
    return ResponseError(ResponseCode.SYSTEM_ERROR, f"the configuration is not changed: {why}")


def handlers(broker: Broker) -> dict[int, Handler]:
    handler = AdminConfigHandler(broker)
    return {RequestCode.GET_BROKER_CONFIG: handler.get, RequestCode.UPDATE_BROKER_CONFIG: handler.update}
