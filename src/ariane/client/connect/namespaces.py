"""Namespaces as RocketMQ 4.9 has them: topics and groups of a tenant are named `namespace%name`.

Users see the bare name, brokers the full one.
"""

from ariane.message import (
    AUTO_CREATE_TOPIC,
    BENCHMARK_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    DLQ_PREFIX,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    OFFSET_MOVED_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    SELF_TEST_TOPIC,
    TRACE_TOPIC,
)

_SYSTEM = frozenset(
    {
        AUTO_CREATE_TOPIC,
        BENCHMARK_TOPIC,
        CHECK_MAX_TIME_TOPIC,
        HALF_OP_TOPIC,
        HALF_TOPIC,
        OFFSET_MOVED_TOPIC,
        SCHEDULE_TOPIC,
        SELF_TEST_TOPIC,
        TRACE_TOPIC,
    }
)


def wrap(namespace: str, name: str) -> str:
    """The full name of a topic or group; system names and full names are returned unchanged.

    >>> wrap("eu", "orders"), wrap("eu", "%RETRY%shop"), wrap("eu", "eu%orders"), wrap("", "orders")
    ('eu%orders', '%RETRY%eu%shop', 'eu%orders', 'orders')
    """
    if not namespace or not name or name in _SYSTEM or name.startswith(("rmq_sys_", "CID_RMQ_SYS_")):
        return name
    prefix, bare = _split(name)
    return name if bare.startswith(f"{namespace}%") else f"{prefix}{namespace}%{bare}"


def unwrap(namespace: str, name: str) -> str:
    """The bare name.

    >>> unwrap("eu", "eu%orders"), unwrap("eu", "%RETRY%eu%shop"), unwrap("eu", "us%orders")
    ('orders', '%RETRY%shop', 'us%orders')
    """
    if not namespace:
        return name
    prefix, bare = _split(name)
    return prefix + bare.removeprefix(f"{namespace}%")


def _split(name: str) -> tuple[str, str]:
    """The prefix of a retry or dead-letter topic, and the rest."""
    for prefix in (RETRY_PREFIX, DLQ_PREFIX):
        if name.startswith(prefix):
            return prefix, name[len(prefix) :]
    return "", name
