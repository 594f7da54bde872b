"""What operators ask of a broker, as raw requests: right answers, and an error for everything that is not right."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from ariane.broker import Broker, BrokerOptions
from ariane.broker.admin.clients import INCONSISTENCY
from ariane.broker.stats import byte_count_text
from ariane.env import Env, ManualClock
from ariane.message import MessageQueue
from ariane.protocol import fastjson
from ariane.protocol.bodies import (
    CheckClientRequestBody,
    ConsumerConnection,
    ConsumeStats,
    GroupList,
    KVTable,
    ProducerTableInfo,
    SubscriptionData,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    TopicList,
    TopicStatsTable,
)
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    QueryMessageRequest,
)
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import TRANSACTION_COMMIT, decode_units
from tests.broker.conftest import Starter
from tests.broker.operating import commit, five, ok
from tests.broker.talk import Talk, small_broker, small_options
from tests.peers.jvm import free_port

FAR = 1 << 62


# Topics and groups.


async def test_a_deleted_topic_is_gone_with_its_queues_and_offsets(talk: Talk) -> None:
    await talk.send_ok("orders")
    await commit(talk, "orders", 1)
    await ok(talk, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    assert "orders" not in talk.broker.topics
    assert talk.broker.store.max_offset("orders", 0) == 0
    assert talk.broker.offsets.get("workers", "orders", 0) == -1
    await talk.send_ok("orders", b"anew")
    assert [unit.body for unit in await talk.units("orders")] == [b"anew"]


@pytest.mark.parametrize("topic", ["TBW102", "SCHEDULE_TOPIC_XXXX", "broker-a", "../..", "", "a/b", "x" * 300])
async def test_names_that_may_not_be_deleted_are_refused(talk: Talk, topic: str) -> None:
    answer = await talk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": topic})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "TBW102" in talk.broker.topics


async def test_system_topics_are_listed(talk: Talk) -> None:
    answer = await ok(talk, RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    assert {"TBW102", "broker-a", "DefaultCluster"} <= set(TopicList.decode(answer.body).topic_list)


async def test_groups_are_created_changed_and_deleted(talk: Talk) -> None:
    body = SubscriptionGroupConfig("workers", retry_max_times=3).encode()
    await ok(talk, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
    table = await ok(talk, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    assert SubscriptionGroupTable.decode(table.body).subscription_group_table["workers"].retry_max_times == 3
    await talk.send_ok("orders")
    await commit(talk, "orders", 1)
    fields = {"groupName": "workers", "removeOffset": "true"}
    await ok(talk, RequestCode.DELETE_SUBSCRIPTIONGROUP, fields)
    assert "workers" not in talk.broker.groups
    assert talk.broker.offsets.get("workers", "orders", 0) == -1


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"not json",
        b'{"groupName":"../x"}',
        b'{"groupName":"g","retryQueueNums":-1}',
        b'{"groupName":"g","retryQueueNums":99999999}',
        b'{"groupName":7}',
    ],
)
async def test_a_malformed_group_is_refused(talk: Talk, body: bytes) -> None:
    answer = await talk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR


# Configuration.


async def test_the_configuration_is_shown_and_changed_by_its_safe_keys(talk: Talk) -> None:
    await ok(talk, RequestCode.UPDATE_BROKER_CONFIG, None, b"waitTimeMillsInSendQueue=201\n")
    assert talk.broker.options.wait_time_mills_in_send_queue == 201
    answer = await ok(talk, RequestCode.GET_BROKER_CONFIG)
    assert "waitTimeMillsInSendQueue=201\n" in answer.body.decode()
    assert '"counter":1' in answer.fields["version"]


async def test_a_changed_option_is_written_to_the_file_that_the_broker_was_started_from(tmp_path: Path) -> None:
    file = tmp_path / "broker.conf"
    given = small_options(tmp_path / "store").settings
    lines = "".join(f"{name}={given.text(name)}\n" for name in sorted(given.given))
    file.write_text(f"# ours\n{lines}")
    options = BrokerOptions.load(file.read_text(), file=str(file)).replaced({"brokerName": "from-the-command-line"})
    async with Talk.to(Broker(options, Env())) as talk:
        await ok(talk, RequestCode.UPDATE_BROKER_CONFIG, None, b"waitTimeMillsInSendQueue=201\n")
        await ok(talk, RequestCode.UPDATE_BROKER_CONFIG, None, b"transactionCheckMax=7\n")
        await ok(talk, RequestCode.UPDATE_BROKER_CONFIG, None, b"transactionCheckMax=8\nwaitTimeMillsInSendQueue=202\n")
    assert file.read_text().startswith("# ours\n")
    kept = BrokerOptions.load(file.read_text())
    assert (kept.wait_time_mills_in_send_queue, kept.transaction_check_max) == (202, 8)
    assert kept.broker_name == "broker-a"


@pytest.mark.parametrize(
    "change",
    [
        "storePathRootDir=/tmp/elsewhere",
        "storePathCommitLog=/tmp/elsewhere",
        "aclEnable=false",
        "rocketmqHome=/tmp",
        "namesrvAddr=10.0.0.1:9876",
        "filterServerNums=3",
        "noSuchKey=1",
        "waitTimeMillsInSendQueue=soon",
        "brokerPermission=99",
        "waitTimeMillsInSendQueue=201\nbrokerName=other",
    ],
)
async def test_no_other_key_is_changed_and_nothing_beside_it(talk: Talk, change: str) -> None:
    before = talk.broker.options
    answer = await talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, change.encode())
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert talk.broker.options is before


async def test_access_control_that_is_off_says_so(talk: Talk) -> None:
    answer = await talk.ask(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, {"accessKey": "k", "secretKey": "12345678"})
    assert answer.code == ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
    answer = await talk.ask(RequestCode.DELETE_ACL_CONFIG, {"accessKey": "k"})
    assert answer.code == ResponseCode.DELETE_ACL_CONFIG_FAILED
    answer = await talk.ask(RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, {"globalWhiteAddrs": "10.0.0.1"})
    assert answer.code == ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED


# Clients.


async def test_connected_clients_are_listed(talk: Talk) -> None:
    await talk.heartbeat("workers", {"orders": "TagA"}, client_id="c1", producer="senders")
    answer = await ok(talk, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "workers"})
    body = ConsumerConnection.decode(answer.body)
    assert [c.client_id for c in body.connection_set] == ["c1"]
    assert body.subscription_table["orders"].sub_string == "TagA"
    assert INCONSISTENCY not in fastjson.loads(answer.body)
    producers = await ok(talk, RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "senders"})
    assert b'"c1"' in producers.body
    table = ProducerTableInfo.decode((await ok(talk, RequestCode.GET_ALL_PRODUCER_INFO)).body)
    assert table.data["senders"][0].remote_ip.startswith("/127.0.0.1:")


async def test_who_of_a_group_differs_and_how_is_shown(talk: Talk) -> None:
    async with Talk.beside(talk.broker) as second, Talk.beside(talk.broker) as third:
        await talk.heartbeat("workers", {"orders": "TagA"}, client_id="c1")
        await second.heartbeat("workers", {"orders": "TagA"}, client_id="c2", version=2)
        await third.heartbeat("workers", {"orders": "TagB"}, client_id="c3", version=3)
        answer = await ok(talk, RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "workers"})
        found = fastjson.loads(answer.body)[INCONSISTENCY]
        assert [row["clientId"] for row in found["differences"]] == ["c3"]
        assert found["differences"][0] == {"clientId": "c3", "missing": ["orders (TagA)"], "extra": ["orders (TagB)"]}
        info = fastjson.loads((await ok(talk, RequestCode.GET_BROKER_RUNTIME_INFO)).body)["table"]
        assert info["inconsistentSubscriptionGroups"] == "1"


async def test_groups_that_are_not_there_are_not_found(talk: Talk) -> None:
    answer = await talk.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "nobody"})
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE
    answer = await talk.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "nobody"})
    assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_a_question_to_a_consumer_is_passed_on(talk: Talk) -> None:
    talk.answers[RequestCode.GET_CONSUMER_RUNNING_INFO] = lambda request: request.reply(body=b'{"jstack":"here"}')
    await talk.heartbeat("workers", {"orders": "*"}, client_id="c1")
    fields = {"consumerGroup": "workers", "clientId": "c1", "jstackEnable": "true"}
    async with Talk.beside(talk.broker) as operator:
        answer = await ok(operator, RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
    [asked] = await talk.asked(RequestCode.GET_CONSUMER_RUNNING_INFO)
    assert (answer.body, asked.fields["jstackEnable"]) == (b'{"jstack":"here"}', "true")


async def test_a_message_is_consumed_directly(talk: Talk) -> None:
    talk.answers[RequestCode.CONSUME_MESSAGE_DIRECTLY] = lambda request: request.reply(body=b"{}")
    sent = await talk.send_ok("orders", b"take me")
    await talk.heartbeat("workers", {"orders": "*"}, client_id="c1")
    fields = {"consumerGroup": "workers", "clientId": "c1", "msgId": sent.fields["msgId"]}
    async with Talk.beside(talk.broker) as operator:
        await ok(operator, RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)
    [asked] = await talk.asked(RequestCode.CONSUME_MESSAGE_DIRECTLY)
    assert decode_units(asked.body)[0].body == b"take me"
    assert asked.fields["brokerName"] == "broker-a"


async def test_nobody_to_ask_is_an_error(talk: Talk) -> None:
    sent = await talk.send_ok("orders")
    for code, fields in (
        (RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "w", "clientId": "c"}),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "w", "clientId": "c", "msgId": sent.fields["msgId"]}),
        (RequestCode.CONSUME_MESSAGE_DIRECTLY, {"consumerGroup": "w", "clientId": "c", "msgId": "nonsense"}),
        (RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "orders", "group": "w"}),
    ):
        assert (await talk.ask(code, fields)).code == ResponseCode.SYSTEM_ERROR


async def test_the_status_of_consumers_is_gathered(talk: Talk) -> None:
    status = b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:7}}'
    talk.answers[RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT] = lambda request: request.reply(body=status)
    await talk.heartbeat("workers", {"orders": "*"}, client_id="c1")
    async with Talk.beside(talk.broker) as operator:
        fields = {"topic": "orders", "group": "workers"}
        answer = await ok(operator, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)
    [offsets] = fastjson.loads(answer.body)["consumerTable"]["c1"].values()
    assert offsets == 7


# Statistics and queries.


async def test_progress_of_groups(talk: Talk) -> None:
    await five(talk)
    await commit(talk, "orders", 3)
    answer = await ok(talk, RequestCode.GET_CONSUME_STATS, {"consumerGroup": "workers"})
    progress = ConsumeStats.decode(answer.body).offset_table[MessageQueue("orders", "broker-a", 0)]
    assert (progress.broker_offset, progress.consumer_offset) == (5, 3)
    assert progress.last_timestamp > 0
    body = SubscriptionGroupConfig("workers").encode()
    await ok(talk, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
    answer = await ok(talk, RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})
    assert fastjson.loads(answer.body)["totalDiff"] == 2
    answer = await ok(talk, RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"})
    assert GroupList.decode(answer.body).group_list == ["workers"]
    answer = await ok(talk, RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "orders", "group": "workers"})
    first = fastjson.loads(answer.body)["consumeTimeSpanSet"][0]
    assert first["minTimeStamp"] <= first["consumeTimeStamp"] <= first["maxTimeStamp"]
    answer = await ok(talk, RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})
    assert TopicStatsTable.decode(answer.body).offset_table[MessageQueue("orders", "broker-a", 0)].max_offset == 5


async def test_counters_are_viewed(talk: Talk) -> None:
    await five(talk)
    talk.broker.stats.tick(talk.broker.env.clock.now_ms() + 20_000)
    fields = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "orders"}
    answer = await ok(talk, RequestCode.VIEW_BROKER_STATS_DATA, fields)
    assert fastjson.loads(answer.body)["statsMinute"]["sum"] == 5
    for name in ("TOPIC_PUT_NUMS", "NO_SUCH_STATS", "__class__"):
        fields = {"statsName": name, "statsKey": "nowhere"}
        answer = await talk.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields)
        assert answer.code == ResponseCode.SYSTEM_ERROR


async def put_sums(talk: Talk) -> dict[str, int]:
    """How many messages each topic counts as put."""
    talk.broker.stats.tick(talk.broker.env.clock.now_ms() + 20_000)
    return {topic: sums[0] for topic, sums in talk.broker.stats.snapshot().totals["TOPIC_PUT_NUMS"].items()}


async def test_a_transactional_message_counts_on_the_half_topic_when_sent_and_on_its_own_when_committed(
    talk: Talk,
) -> None:
    sent = await talk.send_ok("orders", properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02UNIQ_KEY\x01u\x02", sys_flag=4)
    assert await put_sums(talk) == {"RMQ_SYS_TRANS_HALF_TOPIC": 1}
    fields = {
        "producerGroup": "p",
        "tranStateTableOffset": sent.fields["queueOffset"],
        "commitLogOffset": str(int(sent.fields["msgId"][-16:], 16)),
        "commitOrRollback": str(TRANSACTION_COMMIT),
        "fromTransactionCheck": "false",
        "msgId": "u",
    }
    await ok(talk, RequestCode.END_TRANSACTION, fields)
    assert await put_sums(talk) == {"RMQ_SYS_TRANS_HALF_TOPIC": 1, "orders": 1}


async def test_a_delayed_message_counts_on_the_schedule_topic_when_sent_and_on_its_own_when_delivered(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    async with Talk.to(small_broker(tmp_path, env=Env(clock=clock), messageDelayLevel="5s 10s")) as talk:
        await talk.send_ok("orders", properties="DELAY\x012\x02")
        assert await put_sums(talk) == {"SCHEDULE_TOPIC_XXXX": 1}
        snapshot = talk.broker.stats.snapshot().totals
        assert snapshot["QUEUE_PUT_NUMS"] == {"SCHEDULE_TOPIC_XXXX@1": (1, 1)}
        await talk.pass_time(clock, 11)
        assert await put_sums(talk) == {"SCHEDULE_TOPIC_XXXX": 1, "orders": 1}
        snapshot = talk.broker.stats.snapshot().totals
        assert snapshot["GROUP_GET_NUMS"] == {"SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER": (1, 1)}
        assert snapshot["BROKER_GET_NUMS"] == {}


async def test_deliveries_are_not_counted_where_the_options_say_so(tmp_path: Path) -> None:
    clock = ManualClock()
    off = {"messageDelayLevel": "5s", "enableScheduleMessageStats": False}
    async with Talk.to(small_broker(tmp_path, env=Env(clock=clock), **off)) as talk:
        await talk.send_ok("orders", properties="DELAY\x011\x02")
        await talk.pass_time(clock, 6)
        assert len(await talk.units("orders")) == 1
        assert await put_sums(talk) == {"SCHEDULE_TOPIC_XXXX": 1}


async def test_the_capacity_of_the_disk_is_the_size_of_its_file_system(talk: Talk) -> None:
    answer = await ok(talk, RequestCode.GET_BROKER_RUNTIME_INFO)
    size = shutil.disk_usage(talk.broker.options.store_path_root_dir).total
    capacity = KVTable.decode(answer.body).table["commitLogDirCapacity"]
    assert capacity.startswith(f"Total : {byte_count_text(size)}, Free : ")


async def test_the_port_for_slaves_follows_the_port_whatever_the_file_says(talk_to: Starter) -> None:
    port = free_port(-2, 1)
    talk = await talk_to(listenPort=port, haListenPort=10912)
    answer = await ok(talk, RequestCode.GET_BROKER_CONFIG)
    assert f"haListenPort={port + 1}\n" in answer.body.decode()
    assert talk.broker.ha_address == f"127.0.0.1:{port + 1}"


async def test_an_expression_that_exceeds_a_limit_is_refused_with_the_codes_of_the_protocol(talk_to: Starter) -> None:
    talk = await talk_to(filterExpressionMaxLength=100, filterExpressionMaxTokens=20, filterExpressionMaxDepth=5)
    await talk.send_ok("orders")
    for bad in ("a = '" + "x" * 100 + "'", " OR ".join(["a=1"] * 6), "NOT NOT NOT NOT NOT a"):
        subscription = SubscriptionData.build("orders", bad, 1, "SQL92")
        body = CheckClientRequestBody("c", "workers", subscription).encode()
        answer = await talk.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body)
        assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED, bad
        pulled = await talk.pull("orders", subscription=bad, expression_type="SQL92")
        assert pulled.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED, bad
        await talk.heartbeat("workers", {"orders": bad}, expression_type="SQL92")
        answer = await talk.pull("orders", sys_flag=0, consumer_group="workers", subscription=None, sub_version=1)
        assert answer.code == ResponseCode.FILTER_DATA_NOT_EXIST, bad


async def test_a_flood_of_expressions_is_answered_with_busy(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path, env=Env(clock=ManualClock()), filterExpressionMaxTokens=3)) as talk:
        await talk.send_ok("orders")
        pulls = [await talk.pull("orders", subscription=f"a = {n}", expression_type="SQL92") for n in range(20)]
        assert ResponseCode.SYSTEM_BUSY not in {pull.code for pull in pulls[:16]}
        assert {pull.code for pull in pulls[16:]} == {ResponseCode.SYSTEM_BUSY}


async def test_a_query_by_key_answers_with_the_newest_messages_that_fit_into_a_frame(talk_to: Starter) -> None:
    talk = await talk_to(**{"com.rocketmq.remoting.frameMaxLength": 20_000})
    for number in b"12345":
        await talk.send_ok("orders", bytes([number]) * 6000, properties=encode_properties({"KEYS": "k"}))
    answer = await ok(talk, RequestCode.QUERY_MESSAGE, QueryMessageRequest("orders", "k", 64, 0, FAR).fields())
    assert [unit.body[:1] for unit in decode_units(answer.body)] == [b"5", b"4", b"3"]


async def test_messages_are_found_by_key_and_by_place(talk: Talk) -> None:
    text = encode_properties({"KEYS": "k1 k2", "UNIQ_KEY": "u1"})
    sent = await talk.send_ok("orders", b"find me", properties=text)
    for key, more in (("k2", {}), ("u1", {"_UNIQUE_KEY_QUERY": "true"})):
        fields = QueryMessageRequest("orders", key, 32, 0, FAR).fields()
        answer = await ok(talk, RequestCode.QUERY_MESSAGE, {**fields, **more})
        assert [unit.body for unit in decode_units(answer.body)] == [b"find me"]
    missing = await talk.ask(RequestCode.QUERY_MESSAGE, QueryMessageRequest("orders", "no", 32, 0, FAR).fields())
    assert missing.code == ResponseCode.QUERY_NOT_FOUND
    place = str(int(sent.fields["msgId"][-16:], 16))
    answer = await ok(talk, RequestCode.VIEW_MESSAGE_BY_ID, {"offset": place})
    assert decode_units(answer.body)[0].body == b"find me"
    for nowhere in ("-1", "3", str(FAR)):
        answer = await talk.ask(RequestCode.VIEW_MESSAGE_BY_ID, {"offset": nowhere})
        assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_a_look_into_a_queue(talk: Talk) -> None:
    await five(talk)
    fields = {"topic": "orders", "queueId": "0", "index": "1", "count": "2"}
    body = fastjson.loads((await ok(talk, RequestCode.QUERY_CONSUME_QUEUE, fields)).body)
    assert (body["minQueueIndex"], body["maxQueueIndex"], len(body["queueData"])) == (0, 5, 2)
    offline = fastjson.loads((await ok(talk, RequestCode.QUERY_CONSUME_QUEUE, {**fields, "consumerGroup": "g"})).body)
    assert offline["filterData"] == "g@orders is not online!"
    beyond = await ok(talk, RequestCode.QUERY_CONSUME_QUEUE, {**fields, "index": "9"})
    assert beyond.remark == "Index 9 of 0@orders is not exist!"
    nowhere = await talk.ask(RequestCode.QUERY_CONSUME_QUEUE, {**fields, "topic": "nowhere"})
    assert nowhere.code == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize(
    "code",
    [
        RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE,
        RequestCode.CLEAN_UNUSED_TOPIC,
        RequestCode.DELETE_EXPIRED_COMMITLOG,
        RequestCode.GET_ALL_DELAY_OFFSET,
    ],
)
async def test_upkeep_loses_nothing_that_is_in_use(talk: Talk, code: int) -> None:
    await five(talk)
    await ok(talk, code)
    assert len(await talk.units("orders")) == 5


# Bad input.

HOSTILE: list[dict[str, str]] = [
    {},
    {"topic": "../../etc", "group": "../x", "consumerGroup": "../x", "queueId": "0"},
    {"topic": "t", "queueId": "x", "offset": "x", "timestamp": "x", "count": "x"},
    {"topic": "t", "group": "g", "consumerGroup": "g", "queueId": str(1 << 40), "offset": str(1 << 70)},
    {
        "topic": "t",
        "group": "g",
        "consumerGroup": "g",
        "queueId": "-7",
        "offset": "-7",
        "timestamp": "-7",
        "index": "-7",
    },
    {"topic": "nowhere", "group": "nobody", "consumerGroup": "nobody", "clientId": "c", "msgId": "zz", "isOrder": "7"},
]


async def test_every_request_answers_bad_input_and_the_broker_goes_on(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path / "store")) as talk:
        codes = sorted(talk.broker.handlers)
        for fields in HOSTILE:
            for body in (b"", b"\xff\x00{", b"[]", b'{"a":{}}'):
                requests = [talk.ask(code, dict(fields), body) for code in codes]
                answers: list[Any] = await asyncio.gather(*requests)
                assert all(isinstance(answer, Command) for answer in answers)
        assert not (tmp_path / "etc").exists()
        await talk.send_ok("orders", b"still here")
        assert [unit.body for unit in await talk.units("orders")] == [b"still here"]
