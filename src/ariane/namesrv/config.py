"""The name server's options: Apache's NamesrvConfig and NettyServerConfig, and Ariane's own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

from ariane.access.rules import DEFAULT_FILE
from ariane.protocol.bodies.topics import LARGEST_REGISTRATION
from ariane.settings import Host, Option, OptionTable, Settings, absent, ignored
from ariane.settings.operation import LOG_OPTIONS, metrics_options
from ariane.settings.remoting import (
    OWN_SERVER_OPTIONS,
    SERVER_OPTIONS,
    TLS_CLIENT_OPTIONS,
    TLS_SERVER_OPTIONS,
    listen_port,
)
from ariane.settings.server import ServerOptions

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
class NamesrvOptions(ServerOptions):
    """Every option that the name server reads, typed, checked and immutable.

    >>> NamesrvOptions.load("listenPort = 9877", file="namesrv.conf").listen_port
    9877
    """

    rocketmq_home: str
    """The folder of `conf/plain_acl.yml`."""
    kv_config_path: str
    config_store_path: str
    order_message_enable: bool
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

    @classmethod
    def load(cls, text: str = "", *, file: str = "", host: Host | None = None) -> Self:
        """Load the options of a file; ConfigError names the line that is wrong.

        The file itself becomes `config_store_path`, where updates are written; its own value of that option is ignored.
        """
        settings = Settings.load(NAMESRV_TABLE, text, file=file, host=host or Host())
        return cls.from_settings(settings.assumed({"configStorePath": file}) if file else settings)
