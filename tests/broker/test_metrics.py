"""A broker's metrics after a standard workload, beside what the same broker answers to administrators."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ariane.broker.server import Broker
from ariane.env import Env, FileLock, ManualClock, SystemFiles
from ariane.message import MessageQueue
from ariane.protocol.bodies import (
    BrokerStatsData,
    ConsumerRunningInfo,
    ConsumeStats,
    KVTable,
    SubscriptionGroupConfig,
    TopicStatsTable,
)
from ariane.protocol.bodies.stats import ConsumeStatus
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import ConsumerSendMsgBackRequest
from tests.broker.operating import commit, ok
from tests.broker.talk import Talk, settled, small_broker
from tests.ops.scraping import Samples, fetch, fetch_json, scrape, value

FAMILIES: dict[str, list[str]] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "exporter-families.json").read_text()
)
ON = {"metricsExporterType": "PROM", "metricsPromExporterPort": 0}
GROUP = {"group": "workers", "topic": "orders"}
SLAVES = [("127.0.0.1:20911", 4096)]


def endpoint(broker: Broker) -> str:
    return broker.monitor.endpoint.address


@pytest.fixture
async def worked(tmp_path: Path) -> AsyncIterator[tuple[Talk, ManualClock]]:
    """A broker that stored, delivered, retried and gave up messages, more than a minute ago."""
    clock = ManualClock()
    async with Talk.to(small_broker(tmp_path / "store", env=Env(clock=clock), **ON)) as talk:
        talk.broker.monitor.slaves = lambda: SLAVES
        talk.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = running_info
        await talk.heartbeat(producer="shop")
        await talk.heartbeat("workers", {"orders": "*", "%RETRY%workers": "*"}, client_id="worker-1")
        await ok(
            talk, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=SubscriptionGroupConfig("workers").encode()
        )
        for number in range(10):
            await talk.send_ok("orders", b"x" * 100, queue_id=number % 4)
        await talk.pass_time(clock, 30)
        for queue_id in range(4):
            units = await talk.units("orders", queue_id, consumer_group="workers")
            await commit(talk, "orders", 1, queue_id)
        for level in (3, -1):  # one to retry, one to give up
            await ok(talk, RequestCode.CONSUMER_SEND_MSG_BACK, sent_back(units[0].physical_offset, level))
        await talk.pass_time(clock, 70)
        yield talk, clock


def running_info(request: Command) -> Command:
    status = ConsumeStatus(1.5, 2.5, 3.5, 4.5, 0.5, 7)
    return request.reply(body=ConsumerRunningInfo(status_table={"orders": status, "made up": status}).encode())


def sent_back(offset: int, level: int) -> dict[str, str]:
    return ConsumerSendMsgBackRequest(
        offset=offset,
        group="workers",
        delay_level=level,
        origin_topic="orders",
        unit_mode=False,
        max_reconsume_times=16,
    ).fields()


async def runtime_info(talk: Talk) -> dict[str, str]:
    return dict(KVTable.decode((await ok(talk, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table)


async def minute(talk: Talk, name: str, key: str) -> Any:
    answer = await ok(talk, RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    return BrokerStatsData.decode(answer.body).stats_minute


async def consume_stats(talk: Talk, topic: str) -> ConsumeStats:
    fields = {"consumerGroup": "workers", "topic": topic}
    return ConsumeStats.decode((await ok(talk, RequestCode.GET_CONSUME_STATS, fields)).body)


async def test_every_family_of_the_exporter_has_a_sample_with_its_labels(worked: tuple[Talk, ManualClock]) -> None:
    samples = await scrape(endpoint(worked[0].broker))
    assert len(FAMILIES) == 89
    assert {name for name in FAMILIES if not samples.get(name)} == set()
    assert {name for name, labels in FAMILIES.items() if set(samples[name][0][0]) != set(labels)} == set()


async def test_lags_and_offsets_are_those_that_administrators_see(worked: tuple[Talk, ManualClock]) -> None:
    talk, clock = worked
    samples = await scrape(endpoint(talk.broker))
    stats = await consume_stats(talk, "orders")
    lag = sum(w.broker_offset - w.consumer_offset for w in stats.offset_table.values())
    assert lag == value(samples, "rocketmq_group_diff", countOfOnlineConsumers="1", msgModel="1", **GROUP) == 6
    assert value(samples, "rocketmq_consumer_lag_messages", topic="orders", consumer_group="workers") == lag
    consumed = sum(w.consumer_offset for w in stats.offset_table.values())
    assert consumed == value(samples, "rocketmq_consumer_offset", **GROUP) == 4
    assert value(samples, "rocketmq_group_consume_total_offset", **GROUP) == consumed
    retries = await consume_stats(talk, "%RETRY%workers")
    waiting = sum(w.broker_offset - w.consumer_offset for w in retries.offset_table.values())
    assert value(samples, "rocketmq_group_retrydiff", group="workers") == waiting == 1
    ends = TopicStatsTable.decode((await ok(talk, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})).body)
    end = sum(offset.max_offset for offset in ends.offset_table.values())
    assert value(samples, "rocketmq_producer_offset", topic="orders", broker="broker-a") == end == 10
    assert value(samples, "rocketmq_topic_retry_offset", topic="%RETRY%workers") == 1
    assert value(samples, "rocketmq_topic_dlq_offset", group="workers") == 1
    assert value(samples, "rocketmq_group_dlqdiff", group="workers", topic="%DLQ%workers") == 1
    oldest = talk.broker.store.store_time("orders", 0, 1)
    latency = clock.now_ms() - oldest
    assert value(samples, "rocketmq_group_get_latency_by_storetime", **GROUP) == latency > 0
    assert value(samples, "rocketmq_consumer_lag_latency", topic="orders", consumer_group="workers") == latency
    for queue_id, wrapper in enumerate(stats.offset_table[MessageQueue("orders", "broker-a", q)] for q in range(4)):
        behind = wrapper.broker_offset - wrapper.consumer_offset
        assert value(samples, "ariane_queue_lag_messages", queue=str(queue_id), **GROUP) == behind
    assert value(samples, "ariane_queue_lag_left_out") == 0


async def test_rates_are_those_of_the_statistics(worked: tuple[Talk, ManualClock]) -> None:
    talk, clock = worked
    await talk.heartbeat("workers", {"orders": "*", "%RETRY%workers": "*"}, client_id="worker-1")
    await talk.heartbeat(producer="shop")
    for number in range(30):
        await talk.send_ok("orders", queue_id=number % 4)
        await talk.pull("orders", number % 4, 1, consumer_group="workers", suspend_timeout_millis=0)
    fields = sent_back(talk.broker.store.physical_offset("orders", 0, 0), 3)
    await ok(talk, RequestCode.CONSUMER_SEND_MSG_BACK, fields)
    await talk.pass_time(clock, 30)
    samples = await scrape(endpoint(talk.broker))
    for name, counter, key, labels in (
        ("rocketmq_producer_tps", "TOPIC_PUT_NUMS", "orders", {"topic": "orders"}),
        ("rocketmq_producer_message_size", "TOPIC_PUT_SIZE", "orders", {"topic": "orders"}),
        ("rocketmq_consumer_tps", "GROUP_GET_NUMS", "orders@workers", GROUP),
        ("rocketmq_group_consume_tps", "GROUP_GET_NUMS", "orders@workers", GROUP),
        ("rocketmq_consumer_message_size", "GROUP_GET_SIZE", "orders@workers", GROUP),
        ("rocketmq_broker_tps", "BROKER_PUT_NUMS", "DefaultCluster", {"broker": "broker-a"}),
        ("rocketmq_broker_qps", "BROKER_GET_NUMS", "DefaultCluster", {"broker": "broker-a"}),
    ):
        counted = await minute(talk, counter, key)
        assert counted.tps > 0, name
        assert value(samples, name, **labels) == pytest.approx(counted.tps), name
    assert (
        value(samples, "rocketmq_send_back_nums", **GROUP)
        == (await minute(talk, "SNDBCK_PUT_NUMS", "orders@workers")).sum
        == 1
    )
    assert value(samples, "rocketmq_messages_in_total", topic="orders") == 40
    assert value(samples, "rocketmq_messages_out_total", topic="orders", consumer_group="workers") > 30


async def test_runtime_figures_are_those_of_the_runtime_information(worked: tuple[Talk, ManualClock]) -> None:
    talk, _ = worked
    samples = await scrape(endpoint(talk.broker))
    info = await runtime_info(talk)

    def figure(name: str) -> float:
        return value(samples, f"rocketmq_brokeruntime_{name}", brokerIP=talk.broker.address, brokerHost="")

    for name, key in {
        "msg_put_total_today_now": "msgPutTotalTodayNow",
        "msg_gettotal_today_now": "msgGetTotalTodayNow",
        "msg_puttotal_todaymorning": "msgPutTotalTodayMorning",
        "msg_puttotal_yesterdaymorning": "msgPutTotalYesterdayMorning",
        "msg_gettotal_todaymorning": "msgGetTotalTodayMorning",
        "msg_gettotal_yesterdaymorning": "msgGetTotalYesterdayMorning",
        "dispatch_behind_bytes": "dispatchBehindBytes",
        "put_message_size_total": "putMessageSizeTotal",
        "put_message_average_size": "putMessageAverageSize",
        "query_threadpool_queue_capacity": "queryThreadPoolQueueCapacity",
        "remain_transientstore_buffer_numbs": "remainTransientStoreBufferNumbs",
        "earliest_message_timestamp": "earliestMessageTimeStamp",
        "putmessage_entire_time_max": "putMessageEntireTimeMax",
        "start_accept_sendrequest_time": "startAcceptSendRequestTimeStamp",
        "send_threadpool_queue_size": "sendThreadPoolQueueSize",
        "putmessage_times_total": "putMessageTimesTotal",
        "getmessage_entire_time_max": "getMessageEntireTimeMax",
        "pagecache_lock_time_mills": "pageCacheLockTimeMills",
        "commitlog_disk_ratio": "commitLogDiskRatio",
        "consumequeue_disk_ratio": "consumeQueueDiskRatio",
        "dispatch_maxbuffer": "dispatchMaxBuffer",
        "pull_threadpoolqueue_capacity": "pullThreadPoolQueueCapacity",
        "send_threadpoolqueue_capacity": "sendThreadPoolQueueCapacity",
        "pull_threadpoolqueue_size": "pullThreadPoolQueueSize",
        "query_threadpoolqueue_size": "queryThreadPoolQueueSize",
        "pull_threadpoolqueue_headwait_timemills": "pullThreadPoolQueueHeadWaitTimeMills",
        "query_threadpoolqueue_headwait_timemills": "queryThreadPoolQueueHeadWaitTimeMills",
        "send_threadpoolqueue_headwait_timemills": "sendThreadPoolQueueHeadWaitTimeMills",
        "commitlog_maxoffset": "commitLogMaxOffset",
        "commitlog_minoffset": "commitLogMinOffset",
        "put_latency_99": "putLatency99",
        "put_latency_999": "putLatency999",
    }.items():
        assert figure(name) == pytest.approx(float(info[key]), abs=0.01), name
    for name, key in {
        "put": "putTps",
        "getfound": "getFoundTps",
        "getmiss": "getMissTps",
        "gettotal": "getTotalTps",
        "gettransfered": "getTransferedTps",
    }.items():
        for seconds, text in zip((10, 60, 600), info[key].split(" "), strict=True):
            assert figure(f"{name}_tps{seconds}") == pytest.approx(float(text or 0)), (name, seconds)
    shown = [int(part.rpartition(":")[2]) for part in info["putMessageDistributeTime"].split()]
    assert [figure(name.removeprefix("rocketmq_brokeruntime_")) for name in FAMILIES if "_pmdt_" in name] == shown
    assert figure("commitlogdir_capacity_total") > figure("commitlogdir_capacity_free") > 0
    assert figure("remain_howmanydata_toflush") >= 0
    [(labels, _)] = samples["rocketmq_brokeruntime_put_tps10"]
    assert (labels["des"], labels["broker_version"]) == ("V4_9_7", info["brokerVersion"])
    assert labels["boottime"] == info["bootTimestamp"]


async def test_clients_are_counted_and_asked_for_their_own_figures(worked: tuple[Talk, ManualClock]) -> None:
    talk, _ = worked
    samples = await scrape(endpoint(talk.broker))
    assert value(samples, "rocketmq_producer_count", group="shop", broker="broker-a") == 1
    [(labels, count)] = [row for row in samples["rocketmq_group_count"] if row[0]["group"] == "workers"]
    assert (labels["localaddr"], count) == ("worker-1", 1)
    assert labels["caddr"].startswith("127.0.0.1:")
    client = {"clientId": "worker-1", "clientAddr": labels["caddr"], **GROUP}
    for name, number in {
        "rocketmq_client_consume_fail_msg_count": 7,
        "rocketmq_client_consume_fail_msg_tps": 0.5,
        "rocketmq_client_consume_ok_msg_tps": 4.5,
        "rocketmq_client_consume_rt": 3.5,
        "rocketmq_client_consumer_pull_rt": 1.5,
        "rocketmq_client_consumer_pull_tps": 2.5,
    }.items():
        assert value(samples, name, **client) == number
        assert {labels["topic"] for labels, _ in samples[name]} == {"orders"}, "a client made up a topic"
    assert value(samples, "rocketmq_broker_commitlog_diff", brokerIP=SLAVES[0][0]) == SLAVES[0][1]
    await talk.client.close()
    await settled(lambda: not talk.broker.clients.consumer_groups())
    await talk.broker.monitor.consumers.round()
    samples = await scrape(endpoint(talk.broker))
    assert "rocketmq_client_consume_rt" not in samples
    assert value(samples, "rocketmq_group_count", group="workers") == 0
    assert value(samples, "ariane_group_without_consumer_messages", group="workers") == 7


async def test_native_families_show_store_clients_and_dead_letters(worked: tuple[Talk, ManualClock]) -> None:
    talk, _ = worked
    store = talk.broker.store
    samples = await scrape(endpoint(talk.broker))
    node = {"cluster": "DefaultCluster", "node_type": "broker", "node_id": "broker-a"}
    assert value(samples, "rocketmq_topic_number", **node) == len(talk.broker.topics)
    assert value(samples, "rocketmq_consumer_group_number", **node) == len(talk.broker.groups)
    assert value(samples, "rocketmq_broker_permission", **node) == 6
    assert value(samples, "rocketmq_storage_size", storage_type="local") == store.log_max - store.log_min
    assert value(samples, "rocketmq_storage_dispatch_behind_bytes") == 0
    assert value(samples, "rocketmq_send_to_dlq_messages_total", consumer_group="workers") == 1
    assert value(samples, "rocketmq_consumer_connections", consumer_group="workers", consume_mode="push") == 1
    assert value(samples, "rocketmq_producer_connections", protocol_type="remoting") == 1
    assert value(samples, "rocketmq_consumer_lag_messages", is_retry="true", consumer_group="workers") == 1


async def test_the_lag_of_single_queues_is_bounded_and_the_largest_are_shown(talk_to: Any) -> None:
    talk = await talk_to(**ON, metricsQueueLagMax=2)
    for queue_id, count in enumerate((1, 5, 3, 4)):
        for _ in range(count):
            await talk.send_ok("orders", queue_id=queue_id)
        await commit(talk, "orders", 0, queue_id)
    samples = await scrape(endpoint(talk.broker))
    shown = {labels["queue"]: lag for labels, lag in samples["ariane_queue_lag_messages"]}
    assert shown == {"1": 5, "3": 4}
    assert value(samples, "ariane_queue_lag_left_out") == 2
    assert value(samples, "rocketmq_group_diff", **GROUP) == 13


async def test_members_that_disagree_are_a_conflict_until_they_agree(talk_to: Any) -> None:
    talk = await talk_to(**ON)
    async with Talk.beside(talk.broker) as other:
        await talk.heartbeat("workers", {"orders": "a"}, client_id="one")
        await other.heartbeat("workers", {"orders": "b"}, client_id="two")
        samples = await scrape(endpoint(talk.broker))
        assert value(samples, "ariane_subscription_conflict", group="workers") == 1
        await other.heartbeat("workers", {"orders": "a"}, client_id="two", version=2)
        samples = await scrape(endpoint(talk.broker))
        assert "ariane_subscription_conflict" not in samples
        assert value(samples, "ariane_subscription_conflicts_total") == 1


async def test_series_of_what_is_deleted_are_gone(talk_to: Any) -> None:
    talk = await talk_to(**ON)
    await talk.send_ok("orders")
    await talk.units("orders", consumer_group="workers")
    await commit(talk, "orders", 1)
    assert "workers" in groups_in(await scrape(endpoint(talk.broker)))
    await ok(talk, RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "workers", "removeOffset": "true"})
    await ok(talk, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    samples = await scrape(endpoint(talk.broker))
    assert "workers" not in groups_in(samples)
    assert "orders" not in {labels.get("topic") for rows in samples.values() for labels, _ in rows}


def groups_in(samples: Samples) -> set[str | None]:
    return {labels.get("group") for rows in samples.values() for labels, _ in rows}


async def test_a_broadcasting_group_has_no_lag_at_the_broker(talk_to: Any) -> None:
    talk = await talk_to(**ON)
    await talk.send_ok("orders")
    await talk.heartbeat("watchers", {"orders": "*"}, model="BROADCASTING")
    samples = await scrape(endpoint(talk.broker))
    assert "watchers" not in {labels["group"] for labels, _ in samples.get("rocketmq_group_diff", [])}
    assert value(samples, "rocketmq_group_count", group="watchers") == 1


async def test_scrapes_while_topics_come_and_go_are_whole_pages(talk_to: Any) -> None:
    talk = await talk_to(**ON)
    over = False

    async def churn() -> None:
        number = 0
        while not over:
            number += 1
            await talk.send_ok(f"topic-{number % 7}", queue_id=number % 4)
            await commit(talk, f"topic-{number % 7}", 1, number % 4)
            await ok(talk, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": f"topic-{(number + 3) % 7}"})

    churning = asyncio.ensure_future(churn())
    try:
        for _ in range(10):
            await scrape(endpoint(talk.broker))
    finally:
        over = True
        await churning


async def test_the_endpoint_is_off_by_default_and_listens_on_loopback_when_on(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path / "store")) as talk:
        assert endpoint(talk.broker) == ""
    broker = small_broker(tmp_path / "store", **ON)
    assert broker.options.metrics_prom_exporter_host == "127.0.0.1"
    async with Talk.to(broker) as talk:
        address = endpoint(talk.broker)
        assert (await fetch(address, "/metrics"))[0] == 200
    with pytest.raises(OSError):  # noqa: PT011 - refused, or reset
        await fetch(address, "/metrics")


async def test_health_and_readiness_say_why(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path / "store", **ON, namesrvAddr="127.0.0.1:1")) as talk:
        address = endpoint(talk.broker)
        status, health = await fetch_json(address, "/health")
        assert (status, health["status"], health["kind"], health["name"]) == (200, "up", "broker", "broker-a")
        status, ready = await fetch_json(address, "/ready")
        assert status == 503
        assert ready["checks"]["registered"] == {"ok": False, "reason": "not registered with 127.0.0.1:1"}
        talk.broker.store.health.fail("test", "the test says so")
        status, ready = await fetch_json(address, "/ready")
        assert ready["checks"]["writable"] == {"ok": False, "reason": "the test says so"}
        assert (await scrape(address))["ariane_store_writable"] == [({}, 0)]
        talk.broker.store.health.clear("test")
    async with Talk.to(small_broker(tmp_path / "store", **ON)) as talk:
        status, ready = await fetch_json(endpoint(talk.broker), "/ready")
        assert (status, ready["status"]) == (200, "ready")
        assert ready["checks"]["role"] == {"ok": True, "reason": str(talk.broker.role)}


async def test_metrics_and_health_follow_the_role(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path / "store", **ON)) as talk:
        address = endpoint(talk.broker)
        assert value(await scrape(address), "ariane_role", role="ASYNC_MASTER") == 1
        await talk.broker.role.become_slave(2, 7)
        samples = await scrape(address)
        assert value(samples, "ariane_role", role="SLAVE") == 1
        assert value(samples, "ariane_role", role="ASYNC_MASTER") == 0
        assert (value(samples, "ariane_role_epoch"), value(samples, "ariane_role_writable")) == (7, 0)
        status, health = await fetch_json(address, "/health")
        assert health["role"] == "SLAVE"
        status, ready = await fetch_json(address, "/ready")
        assert (ready["checks"]["writable"]["ok"], ready["checks"]["role"]["ok"]) == (True, True)
        await talk.broker.role.become_master(8)
        talk.broker.role._refuse_writes()  # as during a change
        status, ready = await fetch_json(address, "/ready")
        assert status == 503
        reason = f"{talk.broker.role}: has not taken over yet, messages are refused"
        assert ready["checks"]["role"] == {"ok": False, "reason": reason}


async def test_a_broker_that_recovers_is_alive_and_not_ready(tmp_path: Path) -> None:
    seen: list[tuple[int, Any]] = []
    loop = asyncio.get_running_loop()

    class AskingFiles(SystemFiles):
        """Asks the broker how it is while its store is being opened, which happens in another thread."""

        def lock(self, path: Path, note: str) -> FileLock:
            for page in ("/health", "/ready", "/metrics"):
                asked = asyncio.run_coroutine_threadsafe(fetch(endpoint(broker), page), loop)
                status, _, body = asked.result(60)
                seen.append((status, body))
            return super().lock(path, note)

    broker = small_broker(tmp_path / "store", env=Env(files=AskingFiles()), **ON)
    async with Talk.to(broker):
        assert [status for status, _ in seen] == [200, 503, 503]
        assert json.loads(seen[1][1])["checks"] == {"started": {"ok": False, "reason": "the server is starting"}}


async def test_a_taken_port_is_an_error_that_names_the_option(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path / "store", **ON)) as talk:
        taken = endpoint(talk.broker).rpartition(":")[2]
        second = small_broker(tmp_path / "second", metricsExporterType="PROM", metricsPromExporterPort=taken)
        with pytest.raises(Exception, match="set metricsPromExporterPort"):
            await second.start()
