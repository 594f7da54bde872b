"""Statistics: what is counted, sampled and shown, with a clock of the test's own."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.stats import BrokerStats, StatsName, StoreStats, byte_count_text, double_text
from ariane.broker.stats.latency import UPPER_MS, PutLatency
from ariane.broker.stats.texts import runtime_text
from tests.broker.recorded import recorded_body

GET_BROKER_RUNTIME_INFO = 28
VIEW_BROKER_STATS_DATA = 315
START = 1_700_000_000_000
CLUSTER = "DefaultCluster"


def ticked(stats: BrokerStats | StoreStats, start_ms: int, seconds: int) -> int:
    """Ticks every second and gives the time after."""
    for second in range(seconds):
        stats.tick(start_ms + second * 1000)
    return start_ms + seconds * 1000


def minute(stats: BrokerStats, name: str, key: str) -> tuple[int, float, float]:
    data = stats.view(name, key)
    assert data is not None
    return data.stats_minute.sum, data.stats_minute.tps, data.stats_minute.avgpt


@pytest.fixture
def stats() -> BrokerStats:
    return BrokerStats(CLUSTER)


def test_a_put_counts_for_broker_topic_and_queue(stats: BrokerStats) -> None:
    stats.put("T", 3, count=2, size=500)
    stats.put("T", 3, count=4, size=100)
    stats.put("T", 4, count=6, size=600)
    stats.tick(START)
    assert minute(stats, "TOPIC_PUT_NUMS", "T") == (12, 1.2, 4.0)
    assert minute(stats, "TOPIC_PUT_SIZE", "T") == (1200, 120.0, 400.0)
    assert minute(stats, "QUEUE_PUT_NUMS", "T@3") == (6, 0.6, 3.0)
    assert minute(stats, "QUEUE_PUT_SIZE", "T@4") == (600, 60.0, 600.0)
    assert minute(stats, "BROKER_PUT_NUMS", CLUSTER) == (12, 1.2, 0.0)


def test_a_pull_counts_for_broker_group_and_queue(stats: BrokerStats) -> None:
    stats.got("g", "T", 1, count=30, size=3000, latency_ms=4)
    stats.got("g", "T", 1, count=10, size=1000, latency_ms=8)
    stats.tick(START)
    assert minute(stats, "GROUP_GET_NUMS", "T@g") == (40, 4.0, 20.0)
    assert minute(stats, "GROUP_GET_SIZE", "T@g") == (4000, 400.0, 2000.0)
    assert minute(stats, "QUEUE_GET_NUMS", "T@1@g") == (40, 4.0, 20.0)
    assert minute(stats, "GROUP_GET_LATENCY", "1@T@g") == (12, 1.2, 6.0)
    assert minute(stats, "BROKER_GET_NUMS", CLUSTER) == (40, 4.0, 0.0)
    assert stats.group_get_tps("g", "T") == 4.0
    assert stats.group_get_tps("g", "other") == 0.0


def test_other_counts(stats: BrokerStats) -> None:
    stats.sent_back("g", "T")
    stats.got_from_disk("g", "T", count=8, size=80)
    stats.commercial(StatsName.COMMERCIAL_SEND_TIMES, "owner", "T", "g", "SEND_SUCCESS", 3)
    stats.tick(START)
    assert minute(stats, "SNDBCK_PUT_NUMS", "T@g") == (1, 0.1, 1.0)
    assert minute(stats, "GROUP_GET_FROM_DISK_NUMS", "T@g") == (8, 0.8, 8.0)
    assert minute(stats, "BROKER_GET_FROM_DISK_SIZE", CLUSTER) == (80, 8.0, 0.0)
    assert minute(stats, "COMMERCIAL_SEND_TIMES", "owner@T@g@SEND_SUCCESS") == (3, 0.3, 3.0)


def test_the_minute_slides_over_seven_samples_ten_seconds_apart(stats: BrokerStats) -> None:
    stats.put("T", 0, count=60, size=1)
    now = ticked(stats, START, 61)
    assert minute(stats, "TOPIC_PUT_NUMS", "T")[:2] == (0, 0.0)
    stats.put("T", 0, count=120, size=1)
    ticked(stats, now, 60)
    assert minute(stats, "TOPIC_PUT_NUMS", "T")[:2] == (120, 2.0)


def test_hour_and_day_are_sampled_at_the_start_and_then_every_ten_minutes_and_hour(stats: BrokerStats) -> None:
    stats.tick(START)
    stats.put("T", 0, count=1, size=1)
    stats.tick(START + 599_999)
    data = stats.view("TOPIC_PUT_NUMS", "T")
    assert data is not None
    assert (data.stats_hour.sum, data.stats_day.sum) == (0, 0)
    stats.tick(START + 600_000)
    stats.tick(START + 3_600_000)
    data = stats.view("TOPIC_PUT_NUMS", "T")
    assert data is not None
    assert (data.stats_hour.sum, data.stats_day.sum) == (1, 1)
    assert data.stats_day.tps == 1000.0 / 3_600_000


def test_a_late_tick_samples_once_and_keeps_the_rhythm(stats: BrokerStats) -> None:
    stats.tick(START)
    stats.put("T", 0, count=1, size=1)
    stats.tick(START + 35_000)
    stats.put("T", 0, count=1, size=1)
    stats.tick(START + 39_999)
    assert minute(stats, "TOPIC_PUT_NUMS", "T")[0] == 1
    stats.tick(START + 40_000)
    assert minute(stats, "TOPIC_PUT_NUMS", "T")[0] == 2


def test_a_clock_set_back_does_not_stop_sampling(stats: BrokerStats) -> None:
    stats.tick(START)
    stats.put("T", 0, count=1, size=1)
    stats.tick(START - 86_400_000)
    assert minute(stats, "TOPIC_PUT_NUMS", "T")[0] == 1


def test_what_was_never_counted_is_not_there(stats: BrokerStats) -> None:
    assert stats.view("TOPIC_PUT_NUMS", "T") is None
    assert stats.view("NO_SUCH_STATS", "T") is None
    assert BrokerStats(CLUSTER, detailed=False).view("QUEUE_PUT_NUMS", "T@0") is None


def test_without_detail_there_are_no_queue_counts() -> None:
    coarse = BrokerStats(CLUSTER, detailed=False)
    coarse.put("T", 0, 1, 1)
    coarse.got("g", "T", 0, 1, 1, 5)
    coarse.tick(START)
    assert coarse.view("QUEUE_PUT_NUMS", "T@0") is None
    assert minute(coarse, "GROUP_GET_LATENCY", "T@g") == (5, 0.5, 5.0)


def test_the_body_has_the_shape_of_a_recorded_one(stats: BrokerStats) -> None:
    for count in (3, 1, 1, 1, 1, 1, 1, 1, 1, 1):
        stats.put("WireTopic", 0, count, 10)
    ticked(stats, START, 21)
    data = stats.view("TOPIC_PUT_NUMS", "WireTopic")
    assert data is not None
    recorded = json.loads(recorded_body(VIEW_BROKER_STATS_DATA))
    ours = json.loads(data.encode())
    assert ours["statsMinute"] == recorded["statsMinute"] == {"avgpt": 1.2, "sum": 12, "tps": 0.4}
    assert ours.keys() == recorded.keys()
    assert all(ours[key].keys() == recorded[key].keys() for key in recorded)


def test_a_deleted_topic_is_forgotten_everywhere(stats: BrokerStats) -> None:
    for topic in ("T", "T2"):
        stats.put(topic, 0, 1, 1)
        stats.got("g", topic, 0, 1, 1, 1)
        stats.sent_back("g", topic)
        stats.fell_behind("g", topic, 0, ms=6)
        stats.get_cell("g", topic, 0).behind = 5
    stats.topic_deleted("T")
    snapshot = stats.snapshot()
    left = [key for keys in snapshot.totals.values() for key in keys if "T" in key.split("@")]
    assert (left, list(snapshot.fall_behind_bytes)) == ([], ["0@T2@g"])
    assert "T2@g" in snapshot.totals["GROUP_GET_NUMS"]


def test_a_deleted_group_is_forgotten_everywhere(stats: BrokerStats) -> None:
    for group in ("g", "g2"):
        stats.put("g", 0, 1, 1)
        stats.got(group, "T", 0, 1, 1, 1)
        stats.fell_behind(group, "T", 0, ms=6)
    stats.group_deleted("g")
    snapshot = stats.snapshot()
    assert list(snapshot.totals["GROUP_GET_NUMS"]) == ["T@g2"]
    assert list(snapshot.totals["TOPIC_PUT_NUMS"]) == ["g"]
    assert snapshot.fall_behind_ms == {"0@T@g2": 6}


def test_the_snapshot_has_totals_without_any_tick(stats: BrokerStats) -> None:
    stats.put("T", 0, 2, 50)
    assert stats.snapshot().totals["TOPIC_PUT_SIZE"] == {"T": (50, 1)}
    stats.put("T", 0, 1, 50)
    assert stats.snapshot().totals["TOPIC_PUT_SIZE"] == {"T": (100, 2)}


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.integers(0, 999), st.booleans())))
def test_no_count_is_lost_or_doubled_whenever_ticks_come(puts: list[tuple[int, int, int, bool]]) -> None:
    stats, now = BrokerStats(CLUSTER), START
    for queue_id, count, size, tick in puts:
        stats.put("T", queue_id, count, size)
        if tick:
            now += 10_000
            stats.tick(now)
    totals = stats.snapshot().totals
    assert totals["BROKER_PUT_NUMS"].get(CLUSTER, (0, 0))[0] == sum(count for _, count, _, _ in puts)
    assert totals["TOPIC_PUT_SIZE"].get("T", (0, 0)) == (sum(size for _, _, size, _ in puts), len(puts))


def test_runtime_info_fills_keys_that_a_real_broker_has() -> None:
    recorded = json.loads(recorded_body(GET_BROKER_RUNTIME_INFO))["table"]
    ours = StoreStats(START).runtime_info(START)
    assert ours.keys() <= recorded.keys()
    rest = [key for key in recorded.keys() - ours.keys() if "Latency" in key or "Tps" in key or key.startswith("put")]
    assert rest == []


def test_the_numbers_of_a_recorded_broker_give_its_texts() -> None:
    recorded = json.loads(recorded_body(GET_BROKER_RUNTIME_INFO))["table"]
    store = StoreStats(int(recorded["bootTimestamp"]))
    for at, count, size, took in ((0, 18, 4407, 117), (1000, 12, 3000, 1)):
        store.tick(store.boot_ms + at)
        store.put(count, size, took)
    for step in range(9):
        store.tick(store.boot_ms + 2000 + step * 1000)
    store.tick(store.boot_ms + 11_088)
    store.got(32, 134)
    info = store.runtime_info(store.boot_ms + 42_000)
    same = "bootTimestamp runtime putTps putMessageTimesTotal putMessageSizeTotal putMessageAverageSize"
    same += " putMessageDistributeTime putMessageEntireTimeMax getMessageEntireTimeMax msgGetTotalTodayNow putLatency99"
    assert {key: info[key] for key in same.split()} == {key: recorded[key] for key in same.split()}


def test_rates_cover_ten_seconds_a_minute_and_ten_minutes() -> None:
    store = StoreStats(START)
    for second in range(601):
        store.tick(START + second * 1000)
        store.put(2, 100, 0)
        store.got(3 if second % 2 else 0, 0)
    info = store.runtime_info(START + 601_000)
    assert info["putTps"] == "2.0 2.0 2.0"
    assert info["getTransferedTps"] == "1.5 1.5 1.5"
    assert info["getFoundTps"] == info["getMissTps"] == "0.5 0.5 0.5"
    assert info["getTotalTps"] == "1.0 1.0 1.0"
    assert (store.put_tps(60), store.transferred_tps(10)) == (2.0, 1.5)


def test_rates_not_known_yet_are_blank_and_their_total_is_zero() -> None:
    info = StoreStats(START).runtime_info(START)
    assert (info["putTps"], info["getTotalTps"]) == ("  ", "0.0 0.0 0.0")


def test_latencies_are_those_of_the_last_whole_minute() -> None:
    store = StoreStats(START)
    assert store.runtime_info(START)["putMessageDistributeTime"] == "null"
    for ms in (0, 5, 10, 49, 150, 10_000):
        store.put(1, 1, ms)
    store.tick(START + 60_001)
    shown = store.runtime_info(START + 60_001)["putMessageDistributeTime"]
    assert shown.startswith("[<=0ms]:1 [0~10ms]:1 [10~50ms]:2 [50~100ms]:0 [100~200ms]:1 ")
    assert shown.endswith("[10s~]:1 ")
    assert store.runtime_info(START)["putMessageEntireTimeMax"] == "10000"
    store.tick(START + 120_002)
    assert store.put_latency.counts()["[0~10ms]"] == 0


def test_failed_puts_count_apart() -> None:
    store = StoreStats(START)
    store.put_refused(3)
    info = store.runtime_info(START)
    assert (info["putMessageFailedTimes"], info["putMessageEntireTimeMax"]) == ("1", "3")
    assert store.snapshot()["put_failed"] == 1


def test_the_morning_moves_totals_to_yesterday() -> None:
    store = StoreStats(START)
    for count in (5, 7, 11):
        store.put(count, 1, 0)
        store.got(count, 0)
        store.morning()
    store.put(1, 1, 0)
    info = store.runtime_info(START)
    assert (info["msgPutTotalYesterdayMorning"], info["msgPutTotalTodayMorning"]) == ("12", "23")
    assert (info["msgPutTotalTodayNow"], info["msgGetTotalTodayMorning"]) == ("24", "23")


def test_fine_buckets_reach_from_one_millisecond_to_ten_seconds() -> None:
    assert (UPPER_MS[0], UPPER_MS[19], UPPER_MS[34], UPPER_MS[44]) == (1, 20, 50, 100)
    assert (UPPER_MS[-1], len(UPPER_MS)) == (10_000, 75)


def test_percentiles_lie_evenly_inside_their_bucket() -> None:
    latency = PutLatency()
    for _ in range(90):
        latency.took(1)
    for _ in range(10):
        latency.took(22)
    latency.turn()
    assert latency.percentile(0.5) == pytest.approx(50 / 90)
    assert latency.percentile(0.95) == pytest.approx(20 + 2 * 5 / 10)
    assert latency.percentile(0.0) == 0.0


def test_percentiles_without_puts_or_beyond_the_last_bucket() -> None:
    latency = PutLatency()
    assert latency.percentile(0.99) == 0.0
    latency.took(1_000_000)
    latency.turn()
    assert latency.percentile(1.0) == 10_000


# What `Double.toString` of a JVM prints.
@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0.0"),
        (1.189532117367169, "1.189532117367169"),
        (-2.5, "-2.5"),
        (0.001, "0.001"),
        (0.00099, "9.9E-4"),
        (9999999.0, "9999999.0"),
        (10000000.0, "1.0E7"),
        (-1.5e300, "-1.5E300"),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
        (100, "100.0"),
    ],
)
def test_doubles_print_as_in_java(number: float, text: str) -> None:
    assert double_text(number) == text


def test_byte_counts_and_durations_print_as_in_java() -> None:
    assert [byte_count_text(n) for n in (0, 1023, 1024, 1536, 1024**4)] == [
        "0 B",
        "1023 B",
        "1.0 KiB",
        "1.5 KiB",
        "1.0 TiB",
    ]
    day = 86_400_000
    assert runtime_text(1000 * day + 3_723_999) == "[ 1,000 days, 1 hours, 2 minutes, 3 seconds ]"
