"""The options of a filter server: names of RocketMQ's FiltersrvConfig where it has one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from ariane.errors import ConfigError
from ariane.filter.option_rows import FILTER_OPTIONS
from ariane.settings import Host, Option, OptionTable, Settings
from ariane.settings.operation import LOG_OPTIONS, metrics_options
from ariane.settings.remoting import (
    OWN_SERVER_OPTIONS,
    SERVER_OPTIONS,
    TLS_CLIENT_OPTIONS,
    TLS_SERVER_OPTIONS,
    listen_port,
)
from ariane.settings.server import ServerOptions

FILTER_SERVER_TABLE = OptionTable(
    (
        Option("connectWhichBroker", str, "127.0.0.1:10911", important=True),
        Option("filterServerIP", str, lambda host: host.address, attr="filter_server_ip", important=True),
        Option("brokerAccessKey", str, None, own=True),
        Option("brokerSecretKey", str, None, own=True, secret=True),
        listen_port(0),
        *FILTER_OPTIONS,
        *SERVER_OPTIONS,
        *OWN_SERVER_OPTIONS,
        *TLS_SERVER_OPTIONS,
        *TLS_CLIENT_OPTIONS,
        *metrics_options(5559),
        *LOG_OPTIONS,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class FilterServerOptions(ServerOptions):
    """Every option that a filter server reads.

    >>> FilterServerOptions.load("connectWhichBroker = 10.0.0.1:10911").connect_which_broker
    '10.0.0.1:10911'
    """

    connect_which_broker: str
    """The broker beside it."""
    filter_server_ip: str
    """The address that consumers are told."""
    broker_access_key: str | None
    """An administrator's account at the broker, which registers filter servers."""
    broker_secret_key: str | None = field(repr=False)
    listen_port: int
    """0 takes any free port, as in RocketMQ: consumers learn it from name servers."""
    filter_expression_max_length: int
    filter_expression_max_tokens: int
    filter_expression_max_depth: int
    filter_group_millis_per_second: int
    filter_module_max_bytes: int
    filter_memory_max_bytes: int
    filter_fuel_per_message: int
    filter_message_max_millis: int
    filter_compile_max_seconds: int

    @classmethod
    def load(cls, text: str = "", *, file: str = "", host: Host | None = None) -> Self:
        """Load the options of a file; ConfigError names the line that is wrong."""
        return cls.from_settings(Settings.load(FILTER_SERVER_TABLE, text, file=file, host=host or Host()))

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The options of checked values."""
        attributes: dict[str, Any] = settings.attributes()
        options = cls(settings=settings, **attributes)
        if (options.broker_access_key is None) != (options.broker_secret_key is None):
            raise ConfigError("brokerAccessKey and brokerSecretKey go together: set both, or neither")
        return options
