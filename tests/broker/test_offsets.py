"""Committed offsets: forward by themselves, back only when somebody said so."""

import asyncio
from pathlib import Path

import pytest

from ariane.broker.tables.offsets import OffsetTable
from ariane.env import Env, ManualClock
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.ids import parse_offset_id
from ariane.remoting import Refusals
from tests.broker.conftest import Starter
from tests.broker.talk import Talk, settled, small_broker

UPDATE = RequestCode.UPDATE_CONSUMER_OFFSET


def commit_fields(offset: int, topic: str = "orders", queue_id: int = 0) -> dict[str, str]:
    return {"consumerGroup": "g", "topic": topic, "queueId": str(queue_id), "commitOffset": str(offset)}


async def test_commit_and_query(talk: Talk) -> None:
    await talk.send_ok("orders")
    assert (await talk.ask(UPDATE, commit_fields(7))).code == 0
    query = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    answer = await talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
    assert answer.fields["offset"] == "7"


async def test_a_group_without_an_offset_begins_where_a_young_queue_does(talk: Talk) -> None:
    query = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    assert (await talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields["offset"] == "0"
    await talk.send_ok("orders")
    assert (await talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)).fields["offset"] == "0"


async def test_a_group_without_an_offset_is_not_found_where_the_queue_lies_on_disk(talk_to: Starter) -> None:
    talk = await talk_to(accessMessageInMemoryMaxRatio=0)
    await talk.send_ok("orders")
    query = {"consumerGroup": "g", "topic": "orders", "queueId": "0"}
    answer = await talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, query)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND
    assert answer.remark == "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"


@pytest.mark.parametrize("fields", [commit_fields(-1), commit_fields(1, queue_id=-1), commit_fields(1, topic="../x")])
async def test_a_commit_that_makes_no_sense_is_refused(talk: Talk, fields: dict[str, str]) -> None:
    assert (await talk.ask(UPDATE, fields)).code == ResponseCode.SYSTEM_ERROR
    assert talk.broker.offsets.table().offset_table == {}


async def test_a_late_commit_of_a_former_reader_changes_nothing(talk: Talk) -> None:
    for _ in range(5):
        await talk.send_ok("orders")
    offsets = talk.broker.offsets
    async with Talk.beside(talk.broker) as former:
        await former.pull("orders", consumer_group="g")
        await talk.pull("orders", 0, 3, consumer_group="g")
        await talk.ask(UPDATE, commit_fields(4))
        late = await former.client.connection(former.address)
        late.oneway(Command(UPDATE, commit_fields(2)))
        await former.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": "0"})
        assert (offsets.get("g", "orders", 0), offsets.refused) == (4, 1)
    own = await talk.client.connection(talk.address)
    own.oneway(Command(UPDATE, commit_fields(1)))  # the reader itself went back: a seek
    await settled(lambda: offsets.get("g", "orders", 0) == 1)


async def test_an_update_that_wants_an_answer_may_go_back(talk: Talk) -> None:
    await talk.send_ok("orders")
    await talk.ask(UPDATE, commit_fields(9))
    await talk.ask(UPDATE, commit_fields(2))
    assert talk.broker.offsets.get("g", "orders", 0) == 2


def test_after_a_reset_the_client_may_commit_it_once_more() -> None:
    table = OffsetTable(ManualClock(), 100, 100, Refusals())
    table.commit("g", "t", 0, 100)
    table.reset("g", "t", 0, 10)
    assert table.commit("g", "t", 0, 101)  # it was on its way when the reset came
    assert table.commit("g", "t", 0, 10)
    assert table.get("g", "t", 0) == 10
    table.commit("g", "t", 0, 50)
    assert not table.commit("g", "t", 0, 10)
    assert table.get("g", "t", 0) == 50


def test_clone_and_removal() -> None:
    table = OffsetTable(ManualClock(), 100, 100, Refusals())
    table.commit("a", "t", 0, 5)
    table.commit("a", "t", 1, 6)
    table.clone("a", "b", "t")
    table.commit("b", "t", 0, 7)
    assert (table.queues("a", "t"), table.queues("b", "t")) == ({0: 5, 1: 6}, {0: 7, 1: 6})
    assert table.groups_of("t") == {"a", "b"}
    assert table.lowest("t", leave_out=["a"]) == {0: 7, 1: 6}
    table.remove_group("a")
    assert table.topics_of("a") == set()
    table.remove_topic("t")
    assert table.table().offset_table == {}


async def test_offsets_of_queues_that_are_gone_are_cleaned_up(talk: Talk) -> None:
    await talk.send_ok("orders")
    for queue_id in (0, 3, 9):
        talk.broker.offsets.commit("g", "orders", queue_id, 1)
    talk.broker.offsets.commit("g", "gone", 0, 1)
    talk.broker.offsets.drop_dead_queues(talk.broker.queues.exists)
    assert talk.broker.offsets.table().offset_table == {"orders@g": {0: 1, 3: 1}}


async def test_offsets_are_written_each_five_seconds(tmp_path: Path) -> None:
    clock = ManualClock()
    file = tmp_path / "config" / "consumerOffset.json"
    async with Talk.to(small_broker(tmp_path, env=Env(clock=clock))) as talk:
        await talk.send_ok("orders")
        await talk.ask(UPDATE, commit_fields(3))
        assert not file.exists()
        clock.advance(5.1)
        await settled(lambda: file.exists() and b'"orders@g":{"0":3}' in file.read_bytes())


async def test_commits_survive_a_restart(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path)) as talk:
        await talk.send_ok("orders")
        await asyncio.gather(*(talk.ask(UPDATE, commit_fields(n, queue_id=n)) for n in range(4)))
    async with Talk.to(small_broker(tmp_path)) as talk:
        assert talk.broker.offsets.queues("g", "orders") == {0: 0, 1: 1, 2: 2, 3: 3}


async def test_an_offset_beyond_a_log_that_lost_messages_goes_back_to_its_end(tmp_path: Path) -> None:
    """Without it the group would skip the messages that take the lost offsets."""
    async with Talk.to(small_broker(tmp_path)) as talk:
        places = [parse_offset_id((await talk.send_ok("orders")).fields["msgId"])[1] for _ in range(5)]
        await talk.ask(UPDATE, commit_fields(5))
    log = tmp_path / "commitlog" / f"{0:020}"
    with log.open("r+b") as file:
        file.seek(places[3])
        file.write(bytes(log.stat().st_size - places[3]))
    (tmp_path / "abort").touch()
    async with Talk.to(small_broker(tmp_path)) as talk:
        assert talk.broker.offsets.get("g", "orders", 0) == 3
        await talk.send_ok("orders", b"new")
        assert [unit.body for unit in await talk.units("orders", 0, 3)] == [b"new"]


async def test_queue_offsets_and_times(talk: Talk) -> None:
    for _ in range(3):
        await talk.send_ok("orders")
    queue = {"topic": "orders", "queueId": "0"}
    assert (await talk.ask(RequestCode.GET_MAX_OFFSET, queue)).fields["offset"] == "3"
    assert (await talk.ask(RequestCode.GET_MIN_OFFSET, queue)).fields["offset"] == "0"
    earliest = int((await talk.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, queue)).fields["timestamp"])
    assert earliest == talk.broker.store.store_time("orders", 0, 0)
    search = await talk.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**queue, "timestamp": str(earliest)})
    assert search.fields["offset"] == "0"
    nowhere = {"topic": "nowhere", "queueId": "0"}
    assert (await talk.ask(RequestCode.GET_MAX_OFFSET, nowhere)).fields["offset"] == "0"
    assert (await talk.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, nowhere)).fields["timestamp"] == "-1"
