"""The name server's options: Apache's NamesrvConfig and NettyServerConfig, and Ariane's own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ariane.access.rules import DEFAULT_FILE
from ariane.protocol.bodies.topics import LARGEST_REGISTRATION
from ariane.settings import Host, Option, OptionTable, Settings, Value, absent, ignored
from ariane.settings.operation import LOG_OPTIONS, metrics_options
from ariane.settings.remoting import (
    OWN_SERVER_OPTIONS,
    SERVER_OPTIONS,
    TLS_CLIENT_OPTIONS,
    TLS_SERVER_OPTIONS,
    listen_port,
)

NAMESRV_OPTIONS = (
    Option("rocketmqHome", str, lambda host: host.rocketmq_home or host.home),
    Option("kvConfigPath", str, lambda host: f"{host.home}/namesrv/kvConfig.json"),
    Option("configStorePath", str, lambda host: f"{host.home}/namesrv/namesrv.properties"),
    ignored("productEnvName", str, "center"),
    Option("clusterTest", bool, False, used=False, absent=absent("Routes of another environment are not available")),
    Option("orderMessageEnable", bool, False, live=True),
)

# Constants of 4.9; the names are those that RocketMQ 5 gave them.
OWN_OPTIONS = (
    Option("scanNotActiveBrokerInterval", int, 10000, low=1, unit="ms", own=True),
    Option("brokerChannelExpiredTime", int, 120000, low=1, unit="ms", own=True),
    Option("aclEnable", bool, False, own=True),
    Option("rocketmq.acl.plain.file", str, DEFAULT_FILE, own=True, attr="acl_plain_file"),
    Option("aclReplayWindowSeconds", int, 0, high=3600, own=True),
    Option("brokerAccessKeys", str, "", own=True),
    # Limits of what peers can store in a name server.
    Option("registrationMaxBytes", int, LARGEST_REGISTRATION, low=1, own=True),
    Option("registeredBrokersMax", int, 4096, low=1, own=True),
    Option("registeredTopicsMax", int, 100000, low=1, own=True),
    Option("kvConfigMaxBytes", int, 4194304, low=1, own=True),
    *metrics_options(5558),
    *LOG_OPTIONS,
)

NAMESRV_TABLE = OptionTable(
    (
        *NAMESRV_OPTIONS,
        listen_port(9876),
        *SERVER_OPTIONS,
        *OWN_SERVER_OPTIONS,
        *TLS_SERVER_OPTIONS,
        *(replace(option, used=False) for option in TLS_CLIENT_OPTIONS),  # a name server opens no connections
        *OWN_OPTIONS,
    )
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NamesrvOptions:
    """Every option that the name server reads, typed, checked and immutable.

    >>> NamesrvOptions.load("listenPort = 9877", file="namesrv.conf").listen_port
    9877
    """

    settings: Settings = field(repr=False)
    rocketmq_home: str
    """The folder of `conf/plain_acl.yml`."""
    kv_config_path: str
    config_store_path: str
    order_message_enable: bool
    listen_port: int
    server_channel_max_idle_time_seconds: int
    server_socket_snd_buf_size: int
    server_socket_rcv_buf_size: int
    write_buffer_high_water_mark: int
    write_buffer_low_water_mark: int
    server_socket_backlog: int
    bind_address: str
    frame_max_length: int
    server_frame_timeout_seconds: int
    server_buffered_bytes_max: int
    server_connections_max: int
    server_connections_per_address_max: int
    scan_not_active_broker_interval_ms: int
    broker_channel_expired_time_ms: int
    acl_enable: bool
    acl_plain_file: str
    """The default rules file, below `rocketmq_home`."""
    acl_replay_window_seconds: int
    """Accept only signed requests with a stamp, each once, within this time; 0: any."""
    broker_access_keys: str
    """Access keys, separated by commas, that may register brokers; administrators may too."""
    registration_max_bytes: int
    registered_brokers_max: int
    registered_topics_max: int
    kv_config_max_bytes: int
    metrics_exporter_type: str
    """DISABLE, or PROM: serve metrics and health over HTTP."""
    metrics_prom_exporter_host: str
    metrics_prom_exporter_port: int
    """0 takes any free port."""
    otlp_endpoint: str
    """`http://host:port` of an OpenTelemetry collector; empty: nothing is pushed."""
    otlp_headers: str
    """`name=value,name=value` that every push carries."""
    otlp_interval_ms: int
    log_file: str
    """Empty: the error output."""
    log_file_max_bytes: int
    """After which the file is rotated."""
    log_file_count: int
    """Rotated files that are kept."""
    log_format: str
    """text or json."""
    log_level: str
    """Empty: the command's."""
    log_levels: str
    """Levels of areas: `store=debug;remoting=error`."""
    admin_log_file: str
    """Empty: the common log."""
    slow_request_threshold_ms: int
    """0: no request is logged as slow."""

    @classmethod
    def load(cls, text: str = "", *, file: str = "", host: Host | None = None) -> NamesrvOptions:
        """Load the options of a file; ConfigError names the line that is wrong.

        The file itself becomes `config_store_path`, where updates are written; its own value of that option is ignored.
        """
        settings = Settings.load(NAMESRV_TABLE, text, file=file, host=host or Host())
        return cls.from_settings(settings.assumed({"configStorePath": file}) if file else settings)

    @classmethod
    def from_settings(cls, settings: Settings) -> NamesrvOptions:
        """The options of checked values."""
        attributes: dict[str, Any] = settings.attributes()
        return cls(settings=settings, **attributes)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names of options that were set and that have no effect here."""
        return self.settings.ignored

    def as_properties(self) -> dict[str, str]:
        """All of Apache's option names with effective values in Java's text form; one without a value is left out."""
        return self.settings.properties()

    def printed(self) -> list[tuple[str, str]]:
        """The lines that `mqnamesrv -p` prints."""
        return self.settings.printed()

    def replaced(self, changes: Mapping[str, Value]) -> NamesrvOptions:
        """A copy with other values, for the command line and tests; any option by its RocketMQ name."""
        return self.from_settings(self.settings.replaced(changes))

    def updated(self, key: str, value: str) -> NamesrvOptions:
        """A copy after a change of one key at run time; NotUpdatable unless the key is on the allow-list."""
        return self.from_settings(self.settings.updated(key, value))
