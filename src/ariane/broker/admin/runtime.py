"""GET_BROKER_RUNTIME_INFO: the figures that `mqadmin brokerStatus` prints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ariane.broker.config.live import LiveOptions
from ariane.broker.delay.delivery import Delay
from ariane.broker.stats import StoreStats, byte_count_text
from ariane.broker.tables.clients import ClientTable
from ariane.broker.timers.timers import Timers
from ariane.env import Clock, Files
from ariane.protocol.bodies import KVTable
from ariane.protocol.codes import VERSION_4_9_7
from ariane.protocol.command import Command
from ariane.remoting import Connection
from ariane.store import MessageStore

_NO_POOL = 2**31 - 1  # what a broker without a transient pool shows for it
_SHOWN_GROUPS = 20
_NOTHING_WAITS = (
    "sendThreadPoolQueueSize",
    "pullThreadPoolQueueSize",
    "queryThreadPoolQueueSize",
    "EndTransactionQueueSize",
    "sendThreadPoolQueueHeadWaitTimeMills",
    "pullThreadPoolQueueHeadWaitTimeMills",
    "queryThreadPoolQueueHeadWaitTimeMills",
)


class RuntimeInfoHandler:
    """Collects the figures of store, statistics, delays and clients."""

    def __init__(
        self,
        store: MessageStore,
        totals: StoreStats,
        delay: Delay,
        timers: Timers,
        clients: ClientTable,
        options: LiveOptions,
        files: Files,
        clock: Clock,
        *,
        replication: Callable[[], dict[str, str]],
    ) -> None:
        self._store = store
        self._totals = totals
        self._delay = delay
        self._timers = timers
        self._clients = clients
        self._options = options
        self._files = files
        self._clock = clock
        self._replication = replication

    def info(self, _: Connection, request: Command) -> Command:
        """Answer with all figures."""
        return request.reply(body=KVTable(self.figures()).encode())

    def figures(self) -> dict[str, str]:
        """All figures by name. Thread pools do not exist here: their figures are those of empty queues."""
        options, store = self._options.current, self._store
        first = store.unit_at(store.log_min)
        usage = self._files.usage(Path(options.store_path_root_dir))
        return {
            **store.runtime_info(),
            **self._totals.runtime_info(self._clock.now_ms()),
            "brokerVersionDesc": "V4_9_7",
            "brokerVersion": str(VERSION_4_9_7),
            "sendThreadPoolQueueCapacity": str(options.send_thread_pool_queue_capacity),
            "pullThreadPoolQueueCapacity": str(options.pull_thread_pool_queue_capacity),
            "queryThreadPoolQueueCapacity": str(options.query_thread_pool_queue_capacity),
            "EndTransactionThreadPoolQueueCapacity": str(options.end_transaction_pool_queue_capacity),
            **dict.fromkeys(_NOTHING_WAITS, "0"),
            "dispatchBehindBytes": str(store.dispatch_behind),
            "pageCacheLockTimeMills": "0",
            "remainTransientStoreBufferNumbs": str(_NO_POOL),
            "remainHowManyDataToFlush": byte_count_text(store.log_max - store.flushed_offset),
            "earliestMessageTimeStamp": str(-1 if first is None else first.store_time),
            "startAcceptSendRequestTimeStamp": str(options.start_accept_send_request_time_stamp_ms),
            "commitLogDirCapacity": (
                f"Total : {byte_count_text(usage.size or usage.total)}, Free : {byte_count_text(usage.free)}."
            ),
            **self._delay.running_info(),
            **self._timers.running_info(),
            **self._inconsistencies(),
            **self._replication(),
        }

    def _inconsistencies(self) -> dict[str, str]:
        """Ariane's own rows, shown once the members of some group were found to have different subscriptions."""
        seen = self._clients.inconsistencies_seen
        if not seen:
            return {}
        now = self._clients.inconsistencies()
        return {
            "inconsistentSubscriptionGroups": str(len(now)),
            "inconsistentSubscriptionGroupNames": ", ".join(found.group for found in now[:_SHOWN_GROUPS]),
            "subscriptionInconsistenciesSeen": str(seen),
        }
