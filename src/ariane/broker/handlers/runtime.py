"""GET_BROKER_RUNTIME_INFO: how the broker is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ariane.broker.stats import byte_count_text
from ariane.protocol.bodies import KVTable
from ariane.protocol.codes import VERSION_4_9_7, RequestCode
from ariane.protocol.command import Command
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker

_NOTHING_WAITS = (
    "sendThreadPoolQueueSize",
    "pullThreadPoolQueueSize",
    "queryThreadPoolQueueSize",
    "EndTransactionQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueHeadWaitTimeMills",
)


def runtime_info(broker: Broker) -> dict[str, str]:
    """The keys that `mqadmin brokerStatus` prints; those of thread pools, which we have none of, say that none wait."""
    options = broker.options
    pools: dict[str, int] = {
        "sendThreadPoolQueueCapacity": options.send_thread_pool_queue_capacity,
        "pullThreadPoolQueueCapacity": options.pull_thread_pool_queue_capacity,
        "queryThreadPoolQueueCapacity": options.query_thread_pool_queue_capacity,
        "EndTransactionThreadPoolQueueCapacity": options.end_transaction_pool_queue_capacity,
        **dict.fromkeys(_NOTHING_WAITS, 0),
    }
    return {
        **broker.store.runtime_info(),
        **broker.totals.runtime_info(broker.env.clock.now_ms()),
        "brokerVersionDesc": "V4_9_7",
        "brokerVersion": str(VERSION_4_9_7),
        **{key: str(value) for key, value in pools.items()},
        "startAcceptSendRequestTimeStamp": str(options.start_accept_send_request_time_stamp_ms),
        "commitLogDirCapacity": _capacity(broker),
    }


def _capacity(broker: Broker) -> str:
    usage = broker.env.files.usage(Path(broker.options.store_path_root_dir))
    return f"Total : {byte_count_text(usage.total)}, Free : {byte_count_text(usage.free)}."


def handlers(broker: Broker) -> dict[int, Handler]:
    def info(_: Connection, request: Command) -> Command:
        return request.reply(body=KVTable(runtime_info(broker)).encode())

    return {RequestCode.GET_BROKER_RUNTIME_INFO: info}
