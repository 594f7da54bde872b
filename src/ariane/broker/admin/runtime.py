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

_NO_POOL = 2**31 - 1  # what a broker without a transient pool says is left of it
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
        "dispatchBehindBytes": str(broker.store.dispatch_behind),
        "pageCacheLockTimeMills": "0",
        "remainTransientStoreBufferNumbs": str(_NO_POOL),
        "remainHowManyDataToFlush": byte_count_text(broker.store.log_max - broker.store.flushed_offset),
        "earliestMessageTimeStamp": str(_earliest(broker)),
        "startAcceptSendRequestTimeStamp": str(options.start_accept_send_request_time_stamp_ms),
        "commitLogDirCapacity": _capacity(broker),
        **broker.kinds.delay.running_info(),
        **_inconsistencies(broker),
    }


def _inconsistencies(broker: Broker) -> dict[str, str]:
    """Ariane's own rows, shown only on a broker where a group disagrees with itself or did."""
    seen = broker.clients.inconsistencies_seen
    if not seen:
        return {}
    now = len(broker.clients.inconsistencies())
    return {"inconsistentSubscriptionGroups": str(now), "subscriptionInconsistenciesSeen": str(seen)}


def _earliest(broker: Broker) -> int:
    """When the oldest message in the log was stored, -1 when there is none."""
    unit = broker.store.unit_at(broker.store.log_min)
    return -1 if unit is None else unit.store_time


def _capacity(broker: Broker) -> str:
    usage = broker.env.files.usage(Path(broker.options.store_path_root_dir))
    return f"Total : {byte_count_text(usage.size or usage.total)}, Free : {byte_count_text(usage.free)}."


def handlers(broker: Broker) -> dict[int, Handler]:
    def info(_: Connection, request: Command) -> Command:
        return request.reply(body=KVTable(runtime_info(broker)).encode())

    return {RequestCode.GET_BROKER_RUNTIME_INFO: info}
