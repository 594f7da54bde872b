"""The options of Apache's NettyClientConfig: the broker as a client of name servers and of its master."""

from __future__ import annotations

from ariane.settings import LONG_MAX, Option, ignored

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
