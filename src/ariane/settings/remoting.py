"""The options of the network layer that name server and broker share: Apache's NettyServerConfig, and TLS."""

from __future__ import annotations

from ariane.settings.options import LONG_MAX, Option, ignored

PORT_MAX = 65535

SERVER_OPTIONS = (
    ignored("serverWorkerThreads", int, 8),
    ignored("serverCallbackExecutorThreads", int, 0),
    ignored("serverSelectorThreads", int, 3),
    ignored("serverOnewaySemaphoreValue", int, 256),
    ignored("serverAsyncSemaphoreValue", int, 64),
    Option("serverChannelMaxIdleTimeSeconds", int, 120, low=1),
    Option("serverSocketSndBufSize", int, 0),
    Option("serverSocketRcvBufSize", int, 0),
    Option("writeBufferHighWaterMark", int, 0),
    Option("writeBufferLowWaterMark", int, 0),
    Option("serverSocketBacklog", int, 1024, low=1),
    ignored("serverPooledByteBufAllocatorEnable", bool, True),
    ignored("useEpollNativeSelector", bool, False),
)

# Apache takes these from JVM system properties; here they are lines of the file, with the same names.
TLS_SERVER_OPTIONS = (
    Option(
        "tls.server.mode", str, "permissive", choices=("disabled", "permissive", "enforcing"), own=True, by_name=True
    ),
    Option("tls.config.file", str, "/etc/rocketmq/tls.properties", own=True, by_name=True),
    Option("tls.test.mode.enable", bool, True, own=True, by_name=True),
    Option("tls.server.need.client.auth", str, "none", choices=("none", "optional", "require"), own=True, by_name=True),
    Option("tls.server.keyPath", str, None, own=True, by_name=True),
    Option("tls.server.keyPassword", str, None, own=True, by_name=True, secret=True),
    Option("tls.server.certPath", str, None, own=True, by_name=True),
    Option("tls.server.authClient", bool, False, own=True, by_name=True),
    Option("tls.server.trustCertPath", str, None, own=True, by_name=True),
)
TLS_CLIENT_OPTIONS = (
    Option("tls.enable", bool, False, own=True, by_name=True),
    Option("tls.client.keyPath", str, None, own=True, by_name=True),
    Option("tls.client.keyPassword", str, None, own=True, by_name=True, secret=True),
    Option("tls.client.certPath", str, None, own=True, by_name=True),
    Option("tls.client.authServer", bool, False, own=True, by_name=True),
    Option("tls.client.trustCertPath", str, None, own=True, by_name=True),
)

# `bindAddress` is RocketMQ 5's name; 4.9 always listens on every address.
OWN_SERVER_OPTIONS = (
    Option("bindAddress", str, "0.0.0.0", own=True),
    Option("com.rocketmq.remoting.frameMaxLength", int, 16777216, low=4, own=True, attr="frame_max_length"),
    Option("serverFrameTimeoutSeconds", int, 30, low=1, own=True),
    Option("serverBufferedBytesMax", int, 268435456, low=1, high=LONG_MAX, own=True),
    Option("serverConnectionsMax", int, 65536, low=1, own=True),
    Option("serverConnectionsPerAddressMax", int, 32768, low=1, own=True),
)


def listen_port(default: int) -> Option:
    """The port to listen on; 0 asks the system for a free one."""
    return Option("listenPort", int, default, high=PORT_MAX)
