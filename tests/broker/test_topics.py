"""Topics: the table, growing and shrinking, and what survives a restart."""

from pathlib import Path

import pytest

from ariane.broker.tables.topics import TopicTable
from ariane.env import ManualClock
from ariane.protocol.bodies import TopicConfig, TopicConfigTable, TopicStatsTable
from ariane.protocol.codes import RequestCode, ResponseCode
from tests.broker.talk import Talk, small_broker, small_options


def create_fields(topic: str, read: int = 8, write: int = 8, perm: int = 6, **more: str) -> dict[str, str]:
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(read), "writeQueueNums": str(write)}
    return {**fields, "perm": str(perm), "topicFilterType": "SINGLE_TAG", **more}


async def create(talk: Talk, topic: str, *args: int) -> int:
    return (await talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, create_fields(topic, *args))).code


def test_a_new_broker_has_the_topics_of_4_9_7(tmp_path: Path) -> None:
    table = TopicTable(small_options(tmp_path, traceTopicEnable=True), ManualClock())
    shapes = {c.topic_name: (c.read_queue_nums, c.write_queue_nums, c.perm) for c in table}
    assert shapes == {
        "SELF_TEST_TOPIC": (1, 1, 6),
        "TBW102": (8, 8, 7),
        "BenchmarkTest": (1024, 1024, 6),
        "DefaultCluster": (16, 16, 7),
        "broker-a": (1, 1, 7),
        "OFFSET_MOVED_EVENT": (1, 1, 6),
        "SCHEDULE_TOPIC_XXXX": (18, 18, 6),
        "RMQ_SYS_TRACE_TOPIC": (1, 1, 6),
        "DefaultCluster_REPLY_TOPIC": (1, 1, 6),
    }


def test_every_change_is_a_new_version(tmp_path: Path) -> None:
    clock = ManualClock()
    table = TopicTable(small_options(tmp_path), clock)
    seen: list[str] = []
    table.on_change.append(seen.append)
    clock.advance(1)
    table.update(TopicConfig("orders"))
    table.delete("orders")
    table.delete("orders")
    assert (table.version.counter, table.version.timestamp) == (2, clock.now_ms())
    assert seen == ["orders", "orders"]


@pytest.mark.parametrize("topic", ["TBW102", "broker-a", "DefaultCluster", "rmq_sys_x", "", "a/b", ".."])
async def test_names_that_may_not_be_created(talk: Talk, topic: str) -> None:
    assert await create(talk, topic) == ResponseCode.SYSTEM_ERROR


@pytest.mark.parametrize("shape", [(-1, 8, 6), (8, -1, 6), (1 << 30, 8, 6), (8, 8, 99), (8, 8, -1)])
async def test_shapes_that_may_not_be_created(talk: Talk, shape: tuple[int, int, int]) -> None:
    assert await create(talk, "orders", *shape) == ResponseCode.SYSTEM_ERROR
    assert "orders" not in talk.broker.topics


async def test_a_topic_grows_while_messages_come(talk: Talk) -> None:
    await create(talk, "orders", 2, 2)
    assert (await talk.send("orders", queue_id=5)).code == ResponseCode.SYSTEM_ERROR
    await create(talk, "orders", 8, 8)
    await talk.send_ok("orders", b"new", queue_id=5)
    assert [u.body for u in await talk.units("orders", 5)] == [b"new"]


async def test_a_topic_shrinks_from_16_to_8_without_loss(talk: Talk) -> None:
    await create(talk, "orders", 16, 16)
    for queue_id in range(16):
        await talk.send_ok("orders", b"%d" % queue_id, queue_id=queue_id)
    await create(talk, "orders", 16, 8)  # no new messages to the last eight, but they can be drained
    drained = [(await talk.units("orders", queue_id))[0].body for queue_id in range(16)]
    assert drained == [b"%d" % n for n in range(16)]
    sent = {int((await talk.send_ok("orders", queue_id=-1)).fields["queueId"]) for _ in range(60)}
    assert max(sent) < 8
    await create(talk, "orders", 8, 8)
    assert (await talk.pull("orders", 12)).code == ResponseCode.SYSTEM_ERROR


async def test_statistics_of_a_topic(talk: Talk) -> None:
    await create(talk, "orders", 4, 3)
    await talk.send_ok("orders", queue_id=1)
    answer = await talk.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "orders"})
    table = TopicStatsTable.decode(answer.body).offset_table
    assert {q.queue_id: o.max_offset for q, o in table.items()} == {0: 0, 1: 1, 2: 0}
    missing = await talk.ask(RequestCode.GET_TOPIC_STATS_INFO, {"topic": "nowhere"})
    assert (missing.code, missing.remark) == (ResponseCode.TOPIC_NOT_EXIST, "topic[nowhere] not exist")


async def test_newer_tools_ask_for_one_topic(talk: Talk) -> None:
    await create(talk, "orders", 4, 3)
    answer = await talk.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "orders"})
    config = TopicConfig.decode(answer.body)
    assert (config.topic_name, config.read_queue_nums, config.write_queue_nums) == ("orders", 4, 3)
    missing = await talk.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "nowhere"})
    assert missing.code == ResponseCode.TOPIC_NOT_EXIST


async def test_topics_and_groups_survive_a_restart(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path)) as talk:
        await create(talk, "orders", 5, 4, 4)
        talk.broker.groups.find("g", auto_create=True)
        version = talk.broker.topics.version
    async with Talk.to(small_broker(tmp_path)) as talk:
        table = TopicConfigTable.decode((await talk.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
        assert table.topic_config_table["orders"] == TopicConfig("orders", 5, 4, 4)
        assert table.data_version == version
        assert "g" in talk.broker.groups


async def test_a_topic_is_on_disk_before_its_first_message_is_answered(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path)) as talk:
        await talk.send_ok("orders")
        kept = TopicConfigTable.decode((tmp_path / "config" / "topics.json").read_bytes())
        assert "orders" in kept.topic_config_table


async def test_a_damaged_file_is_replaced_by_its_backup(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path)) as talk:
        await create(talk, "first")
        await create(talk, "second")
    (tmp_path / "config" / "topics.json").write_bytes(b'{"topicConfigTable":{"first"')
    async with Talk.to(small_broker(tmp_path)) as talk:
        assert "first" in talk.broker.topics
