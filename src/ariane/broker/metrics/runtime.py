"""The families of rocketmq-exporter that show a broker's runtime information."""

from collections.abc import Callable, Iterator
from typing import Final

from ariane.broker.config.live import LiveOptions
from ariane.broker.stats import StoreStats
from ariane.broker.stats.latency import LABELS as LATENCIES
from ariane.env import DiskUsage
from ariane.ops.metrics import Collected, Metric, label_text
from ariane.protocol.codes import VERSION_4_9_7
from ariane.store import MessageStore

_LABELS: Final = ("cluster", "brokerIP", "brokerHost", "des", "boottime", "broker_version")
_PREFIX: Final = "rocketmq_brokeruntime_"
_LATENCY_NAMES: Final = (
    "0ms", "0to10ms", "10to50ms", "50to100ms", "100to200ms", "200to500ms", "500to1s", "1to2s", "2to3s", "3to4s",
    "4to5s", "5to10s", "10stomore",
)  # fmt: skip
NO_POOL: Final = 2**31 - 1  # what a broker without a transient pool shows for it
_SPANS: Final = (10, 60, 600)


class RuntimeFamilies:
    """One row for each family: the broker's."""

    def __init__(
        self,
        store: MessageStore,
        totals: StoreStats,
        options: LiveOptions,
        address: Callable[[], str],
        usage: Callable[[], DiskUsage],
    ) -> None:
        self._store = store
        self._totals = totals
        self._options = options
        self._address = address
        self._usage = usage
        self.metrics = tuple(Metric(_PREFIX + name, help, _LABELS) for name, help in _HELP.items())

    def collect(self) -> Collected:
        """All families."""
        options = self._options.current
        labels = label_text(
            {
                "cluster": options.broker_cluster_name,
                "brokerIP": self._address(),
                "brokerHost": "",
                "des": "V4_9_7",
                "boottime": str(self._totals.boot_ms),
                "broker_version": str(VERSION_4_9_7),
            }
        )
        figures = dict(self._figures())
        for metric in self.metrics:
            yield metric, [(labels, figures[metric.name.removeprefix(_PREFIX)])]

    def _figures(self) -> Iterator[tuple[str, float]]:
        store, totals, options, usage = self._store, self._totals, self._options.current, self._usage()
        first = store.unit_at(store.log_min)
        log_ratio, queue_ratio = store.retention.disk_ratios()
        counts = totals.put_latency.counts()
        yield from ((f"pmdt_{name}", counts[label]) for name, label in zip(_LATENCY_NAMES, LATENCIES, strict=True))
        yield from totals.rates()
        yield from (
            ("msg_put_total_today_now", totals.put_count),
            ("msg_gettotal_today_now", totals.transferred),
            ("msg_puttotal_todaymorning", totals.puts_at_morning[1]),
            ("msg_puttotal_yesterdaymorning", totals.puts_at_morning[0]),
            ("msg_gettotal_todaymorning", totals.gets_at_morning[1]),
            ("msg_gettotal_yesterdaymorning", totals.gets_at_morning[0]),
            ("dispatch_behind_bytes", store.dispatch_behind),
            ("put_message_size_total", totals.put_bytes),
            ("put_message_average_size", totals.put_bytes / (totals.put_count or 1)),
            ("remain_transientstore_buffer_numbs", NO_POOL),
            ("earliest_message_timestamp", -1 if first is None else first.store_time),
            ("putmessage_entire_time_max", totals.put_latency.longest_ms),
            ("getmessage_entire_time_max", totals.longest_get_ms),
            ("start_accept_sendrequest_time", options.start_accept_send_request_time_stamp_ms),
            ("putmessage_times_total", totals.put_count or 1),
            ("pagecache_lock_time_mills", 0),
            ("commitlog_disk_ratio", log_ratio),
            ("consumequeue_disk_ratio", queue_ratio),
            ("dispatch_maxbuffer", totals.dispatch_max_buffer),
            ("send_threadpoolqueue_capacity", options.send_thread_pool_queue_capacity),
            ("pull_threadpoolqueue_capacity", options.pull_thread_pool_queue_capacity),
            ("query_threadpool_queue_capacity", options.query_thread_pool_queue_capacity),
            ("send_threadpool_queue_size", 0),
            ("pull_threadpoolqueue_size", 0),
            ("query_threadpoolqueue_size", 0),
            ("send_threadpoolqueue_headwait_timemills", 0),
            ("pull_threadpoolqueue_headwait_timemills", 0),
            ("query_threadpoolqueue_headwait_timemills", 0),
            ("commitlogdir_capacity_free", usage.free),
            ("commitlogdir_capacity_total", usage.size or usage.total),
            ("commitlog_maxoffset", store.log_max),
            ("commitlog_minoffset", store.log_min),
            ("remain_howmanydata_toflush", store.log_max - store.flushed_offset),
            ("put_latency_99", totals.put_latency.percentile(0.99)),
            ("put_latency_999", totals.put_latency.percentile(0.999)),
        )


def _rate_help() -> Iterator[tuple[str, str]]:
    for name, what in (
        ("getfound", "Pulls that found messages"),
        ("gettotal", "Pulls"),
        ("gettransfered", "Messages delivered"),
        ("getmiss", "Pulls that found nothing"),
        ("put", "Messages stored"),
    ):
        yield from ((f"{name}_tps{seconds}", f"{what} a second, over {seconds} s") for seconds in _SPANS)


_HELP: Final[dict[str, str]] = {
    **{
        f"pmdt_{name}": f"Puts of the last whole minute that took {label}"
        for name, label in zip(_LATENCY_NAMES, LATENCIES, strict=True)
    },
    "msg_put_total_today_now": "Messages stored since the start",
    "msg_gettotal_today_now": "Messages delivered since the start",
    "dispatch_behind_bytes": "Bytes of the log that are in no queue yet",
    "put_message_size_total": "Bytes stored since the start",
    "put_message_average_size": "Mean bytes of a message",
    "query_threadpool_queue_capacity": "queryThreadPoolQueueCapacity",
    "remain_transientstore_buffer_numbs": "Always 2147483647: there is no such pool",
    "earliest_message_timestamp": "Store time of the first message in the log, ms; -1 without one",
    "putmessage_entire_time_max": "Longest put since the start, ms",
    "start_accept_sendrequest_time": "startAcceptSendRequestTimeStamp",
    "send_threadpool_queue_size": "Always 0: no thread pool, nothing waits",
    "putmessage_times_total": "Messages stored since the start, at least 1",
    "getmessage_entire_time_max": "Longest pull since the start, ms",
    "pagecache_lock_time_mills": "Always 0: there is no such lock",
    "commitlog_disk_ratio": "Used part of the disk of the log",
    "consumequeue_disk_ratio": "Used part of the disk of the queues",
    **dict(_rate_help()),
    "dispatch_maxbuffer": "Always 0: dispatch has no buffer",
    "pull_threadpoolqueue_capacity": "pullThreadPoolQueueCapacity",
    "send_threadpoolqueue_capacity": "sendThreadPoolQueueCapacity",
    "pull_threadpoolqueue_size": "Always 0: no thread pool, nothing waits",
    "query_threadpoolqueue_size": "Always 0: no thread pool, nothing waits",
    "pull_threadpoolqueue_headwait_timemills": "Always 0: no thread pool, nothing waits",
    "query_threadpoolqueue_headwait_timemills": "Always 0: no thread pool, nothing waits",
    "send_threadpoolqueue_headwait_timemills": "Always 0: no thread pool, nothing waits",
    "msg_gettotal_yesterdaymorning": "Messages delivered before yesterday's midnight",
    "msg_puttotal_yesterdaymorning": "Messages stored before yesterday's midnight",
    "msg_gettotal_todaymorning": "Messages delivered before today's midnight",
    "msg_puttotal_todaymorning": "Messages stored before today's midnight",
    "commitlogdir_capacity_free": "Free bytes of the disk",
    "commitlogdir_capacity_total": "Bytes of the disk",
    "commitlog_maxoffset": "End of the log",
    "commitlog_minoffset": "Beginning of the log",
    "remain_howmanydata_toflush": "Bytes that are not flushed yet",
    "put_latency_99": "99 % of the last minute's puts were quicker, ms",
    "put_latency_999": "99.9 % of the last minute's puts were quicker, ms",
}
