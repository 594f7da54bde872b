"""All options of the broker in the order in which Apache prints them."""

from __future__ import annotations

from ariane.broker.config.broker_table import ADDRESS_SERVER_OPTIONS, BROKER_OPTIONS, OWN_OPTIONS
from ariane.broker.config.store_table import STORE_OPTIONS
from ariane.settings import LONG_MAX, Option, OptionTable, ignored
from ariane.settings.remoting import (
    OWN_SERVER_OPTIONS,
    SERVER_OPTIONS,
    TLS_CLIENT_OPTIONS,
    TLS_SERVER_OPTIONS,
    listen_port,
)

# Apache's NettyClientConfig: the broker as a client of name servers.
CLIENT_OPTIONS = (
    ignored("clientWorkerThreads", int, 4),
    ignored("clientCallbackExecutorThreads", int, lambda host: host.processors),
    ignored("clientOnewaySemaphoreValue", int, 65535),
    ignored("clientAsyncSemaphoreValue", int, 65535),
    Option("connectTimeoutMillis", int, 3000, low=1),
    Option("channelNotActiveInterval", int, 60000, high=LONG_MAX, used=False),
    Option("clientChannelMaxIdleTimeSeconds", int, 120),
    ignored("clientSocketSndBufSize", int, 0),
    ignored("clientSocketRcvBufSize", int, 0),
    ignored("clientPooledByteBufAllocatorEnable", bool, False),
    ignored("clientCloseSocketIfTimeout", bool, True),
    Option("useTLS", bool, False),
)

BROKER_TABLE = OptionTable(
    (
        *BROKER_OPTIONS,
        listen_port(10911),
        *SERVER_OPTIONS,
        *CLIENT_OPTIONS,
        *STORE_OPTIONS,
        *ADDRESS_SERVER_OPTIONS,
        *OWN_SERVER_OPTIONS,
        *TLS_SERVER_OPTIONS,
        *TLS_CLIENT_OPTIONS,
        *OWN_OPTIONS,
    )
)
