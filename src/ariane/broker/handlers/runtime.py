"""GET_BROKER_RUNTIME_INFO: how the broker is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ariane.protocol.bodies import KVTable
from ariane.protocol.codes import VERSION_4_9_7, RequestCode
from ariane.protocol.command import Command
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

_UNITS = "KMGTPE"


def runtime_info(broker: Broker) -> dict[str, str]:
    """The keys that `mqadmin brokerStatus` prints; those of thread pools, which we have none of, say that none wait."""
    options, traffic = broker.options, broker.traffic
    info: dict[str, object] = {
        **broker.store.runtime_info(),
        "brokerVersionDesc": "V4_9_7",
        "brokerVersion": VERSION_4_9_7,
        "bootTimestamp": broker.started_ms,
        "msgPutTotalYesterdayMorning": 0,
        "msgPutTotalTodayMorning": 0,
        "msgPutTotalTodayNow": traffic.messages_in,
        "msgGetTotalYesterdayMorning": 0,
        "msgGetTotalTodayMorning": 0,
        "msgGetTotalTodayNow": traffic.messages_out,
        "sendThreadPoolQueueSize": 0,
        "sendThreadPoolQueueCapacity": options.send_thread_pool_queue_capacity,
        "pullThreadPoolQueueSize": 0,
        "pullThreadPoolQueueCapacity": options.pull_thread_pool_queue_capacity,
        "queryThreadPoolQueueSize": 0,
        "queryThreadPoolQueueCapacity": options.query_thread_pool_queue_capacity,
        "EndTransactionQueueSize": 0,
        "EndTransactionThreadPoolQueueCapacity": options.end_transaction_pool_queue_capacity,
        "sendThreadPoolQueueHeadWaitTimeMills": 0,
        "pullThreadPoolQueueHeadWaitTimeMills": 0,
        "queryThreadPoolQueueHeadWaitTimeMills": 0,
        "startAcceptSendRequestTimeStamp": options.start_accept_send_request_time_stamp_ms,
        "commitLogDirCapacity": _capacity(broker),
    }
    return {key: str(value) for key, value in info.items()}


def _capacity(broker: Broker) -> str:
    usage = broker.env.files.usage(Path(broker.options.store_path_root_dir))
    return f"Total : {human_bytes(usage.total)}, Free : {human_bytes(usage.free)}."


def human_bytes(count: int) -> str:
    """RocketMQ's text of a size.

    >>> human_bytes(512), human_bytes(1536)
    ('512 B', '1.5 KiB')
    """
    exponent = min(max(count.bit_length() - 1, 0) // 10, len(_UNITS))
    return f"{count / 1024**exponent:.1f} {_UNITS[exponent - 1]}iB" if exponent else f"{count} B"


def handlers(broker: Broker) -> dict[int, Handler]:
    def info(_: Connection, request: Command) -> Command:
        return request.reply(body=KVTable(runtime_info(broker)).encode())

    return {RequestCode.GET_BROKER_RUNTIME_INFO: info}
