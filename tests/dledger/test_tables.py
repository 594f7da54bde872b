"""Topics, groups and offsets of a DLedger group are in its log: they survive its leaders like messages."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ariane.broker.replication.table_image import TableImage
from ariane.broker.replication.table_record import TABLES_TOPIC, TableRecord
from ariane.broker.server import Broker
from ariane.errors import ProtocolError, ResponseError
from ariane.protocol.bodies import DataVersion, SubscriptionGroupConfig, TopicConfig
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import CreateTopicRequest, DeleteTopicRequest, UpdateConsumerOffsetRequest
from ariane.protocol.units import TRANSACTION_ROLLBACK
from tests.broker.talk import Talk
from tests.dledger.brokers import BrokerGroup, send
from tests.dledger.group import until
from tests.dledger.tables import run


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[BrokerGroup]:
    group = BrokerGroup(tmp_path, mappedFileSizeCommitLog=1 << 16, flushDelayOffsetInterval=1000)
    try:
        await group.start()
        yield group
    finally:
        await group.stop()


@asynccontextmanager
async def master_of(group: BrokerGroup) -> AsyncIterator[tuple[str, Broker, Talk]]:
    id = await group.master()
    async with Talk.beside(group.brokers[id]) as talk:
        yield id, group.brokers[id], talk


async def create(talk: Talk, topic: str, queues: int = 2) -> Command:
    header = CreateTopicRequest(topic, "TBW102", queues, queues, 6, "SINGLE_TAG", 0, False)
    return await talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header.fields())


async def commit(talk: Talk, topic: str, offset: int, group: str = "readers") -> Command:
    header = UpdateConsumerOffsetRequest(group, topic, 0, offset)
    return await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header.fields())


def agree(group: BrokerGroup) -> bool:
    """Whether all members have the same tables, committed and in use."""

    def tables(broker: Broker) -> tuple[object, ...]:
        assert broker.group is not None
        image = broker.group.tables.image
        topics = {config.topic_name: config for config in broker.topics}
        return image.topics, image.groups, image.offsets, topics, broker.offsets.table().offset_table

    first, *others = [tables(broker) for broker in group.brokers.values()]
    return first[0] == first[3] and first[2] == first[4] and all(first == other for other in others)


async def test_changes_reach_every_member_in_the_log(group: BrokerGroup) -> None:
    async with master_of(group) as (_, _, talk):
        assert (await create(talk, "made")).code == 0
        await talk.send_ok("sent")
        await talk.ask(
            RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, SubscriptionGroupConfig("readers").encode()
        )
        assert (await commit(talk, "made", 5)).code == 0
    for broker in group.brokers.values():
        await until(lambda broker=broker: broker.offsets.get("readers", "made", 0) == 5)  # type: ignore[misc]
        assert {"made", "sent"} <= broker.topics.names()
        assert "readers" in broker.groups
    await until(lambda: agree(group))


async def test_a_reset_is_not_undone_by_the_next_leader(group: BrokerGroup) -> None:
    await send(group, "orders", 20, "m")
    async with master_of(group) as (first, _, talk):
        for offset in (4, 1):
            assert (await commit(talk, "orders", offset)).code == 0
        fields = {"topic": "orders", "group": "readers", "timestamp": "-1", "isForce": "true", "queueId": "0"}
        fields |= {"offset": "0", "serverSide": "true"}
        answer = await talk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
        assert answer.code == 0, answer.remark
    await group.stop(first)
    async with master_of(group) as (_, broker, talk):
        assert broker.offsets.get("readers", "orders", 0) == 0
        assert broker.offsets.awaits_reset("readers", "orders", 0)
        assert (await commit(talk, "orders", 4)).remark  # the reader has not seen the reset yet
        assert broker.offsets.get("readers", "orders", 0) == 0


async def test_a_deleted_topic_begins_again_on_every_member(group: BrokerGroup) -> None:
    await send(group, "orders", 10, "old")
    async with master_of(group) as (_, broker, talk):
        await commit(talk, "orders", 1)
        assert (await talk.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest("orders").fields())).code == 0
        assert "orders" not in broker.topics
        await talk.send_ok("orders", b"new", queue_id=1)
    for id, broker in group.brokers.items():
        await until(lambda id=id: group.bodies(id, "orders") == ["new"])  # type: ignore[misc]
        assert broker.store.max_offset("orders", 1) == 1
        assert broker.offsets.get("readers", "orders", 0) == -1
    await until(lambda: agree(group))


async def test_a_topic_is_not_created_while_its_deletion_is_on_its_way(group: BrokerGroup) -> None:
    async with master_of(group) as (_, broker, talk):
        await create(talk, "orders")
        broker.topics.delete("orders")
        for attempt in (lambda: broker.topics.ensure("orders", 1), lambda: broker.topics.update(TopicConfig("orders"))):
            with pytest.raises(ResponseError, match="being deleted"):
                attempt()
        await until(lambda: not broker.topics.deleting)
        assert (await create(talk, "orders")).code == 0


async def test_without_a_majority_a_change_is_not_acknowledged(group: BrokerGroup) -> None:
    async with master_of(group) as (id, broker, talk):
        others = [other for other in group.brokers if other != id]
        await create(talk, "known")
        for other in others:
            await group.stop(other)
        answers = await asyncio.gather(create(talk, "lonely"), commit(talk, "known", 7))
        assert all(answer.code == ResponseCode.SYSTEM_ERROR for answer in answers)
        await until(lambda: "lonely" not in broker.topics)  # deposed, it returns to what is committed
        assert broker.offsets.get("readers", "known", 0) == -1
    await group.start(*others)
    await until(lambda: agree(group))


async def test_a_wiped_member_learns_all_tables_from_a_log_whose_beginning_is_deleted(group: BrokerGroup) -> None:
    async with master_of(group) as (first, broker, talk):
        await create(talk, "early")
        await commit(talk, "early", 9)
        assert broker.group is not None
        image = broker.group.tables.image
        while image.snapshot < 3 << 16:  # each file begins with a snapshot
            await asyncio.gather(*(talk.send_ok("filling", bytes(2000)) for _ in range(8)))
        for member in group.brokers.values():
            assert member.group is not None
            await until(lambda own=member.group.tables.image: own.snapshot >= 3 << 16)  # type: ignore[misc]
            retention = member.store.retention
            assert all(keeper(1 << 16) for keeper in retention.keepers)
            assert not all(keeper(broker.store.log_max + (1 << 16)) for keeper in retention.keepers)
            await until(lambda log=member.store.log: log.expendable() is not None)  # type: ignore[misc]
            retention._delete_first()
    wiped = next(id for id in group.brokers if id != first)
    await group.stop(wiped)
    shutil.rmtree(group.root / wiped)
    await group.start(wiped)
    await until(lambda: group.brokers[wiped].offsets.get("readers", "early", 0) == 9)
    await until(lambda: agree(group))


async def test_records_after_the_saved_image_are_applied_at_a_restart(group: BrokerGroup) -> None:
    await group.master()
    saved = {id: group.root / id / "config" / "ledgerTables.json" for id in group.brokers}
    old = {id: path.read_bytes() for id, path in saved.items()}
    async with master_of(group) as (_, _, talk):
        await create(talk, "made")
        await commit(talk, "made", 5)
    await group.stop(*group.brokers)
    for id, path in saved.items():
        path.write_bytes(old[id])
        for name in ("topics.json", "topics.json.bak", "consumerOffset.json", "consumerOffset.json.bak"):
            (path.parent / name).unlink(missing_ok=True)
    await group.start("n0", "n1", "n2")
    async with master_of(group) as (_, broker, _):
        assert "made" in broker.topics
        assert broker.offsets.get("readers", "made", 0) == 5


async def test_after_a_leader_that_writes_no_records_the_members_are_merged(group: BrokerGroup) -> None:
    """As after a leader of Apache's: the highest offsets, and every topic that a member knows."""
    master = await group.master()
    await send(group, "orders", 8, "m")
    followers = [broker for id, broker in group.brokers.items() if id != master]
    await until(lambda: agree(group))
    for number, broker in enumerate(followers):
        assert broker.group is not None
        broker.group.tables.image.complete = False
        broker.offsets.raise_to("orders@readers", 0, 3 + number)
        broker.offsets.raise_to("orders@readers", 1, 4 - number)
        broker.topics.ensure(f"only-{number}", 2)
    await group.stop(master)
    second = group.brokers[await group.master()]
    assert second.offsets.queues("readers", "orders") == {0: 4, 1: 4}
    assert {"only-0", "only-1"} <= second.topics.names()
    await group.start(master)
    await until(lambda: agree(group))  # the merged tables are in the log now


async def test_no_client_can_write_a_record(group: BrokerGroup) -> None:
    async with master_of(group) as (_, broker, talk):
        forged = TableRecord(
            99, topics={"forged": TopicConfig("forged")}, topics_version=DataVersion(1, 1), snapshot=True
        )
        for flag in (0, TRANSACTION_ROLLBACK):
            answer = await talk.send(TABLES_TOPIC, forged.encode(), sys_flag=flag)
            assert answer.code == ResponseCode.NO_PERMISSION
        assert (await create(talk, TABLES_TOPIC)).code == ResponseCode.SYSTEM_ERROR
        assert "forged" not in broker.topics


async def test_the_progress_of_delay_levels_is_recorded(group: BrokerGroup) -> None:
    async with master_of(group) as (_, broker, talk):
        await talk.send_ok("orders", properties="DELAY\x011\x02")
        await until(lambda: broker.detours.delay.offsets().get(1) == 1)
    for member in group.brokers.values():
        assert member.group is not None
        image = member.group.tables.image
        await until(lambda image=image: b'"1":1' in image.delays)  # type: ignore[misc]


def _record() -> TableRecord:
    return TableRecord(
        7,
        topics={f"topic{n}": TopicConfig(f"topic{n}", n + 1) for n in range(300)},
        topics_version=DataVersion(5, 6),
        deleted_topics=["gone", "lost"],
        groups={f"group{n}": SubscriptionGroupConfig(f"group{n}") for n in range(50)},
        groups_version=DataVersion(7, 8),
        deleted_groups=["left"],
        offsets={"topic1@group1": {n: n * n for n in range(5000)}, "topic2@group1": {}},
        resets={"topic3@group1": {4: 5}},
        delays=b'{"offsetTable":{1:2}}',
        snapshot=True,
    )


@pytest.mark.parametrize("limit", [1 << 12, 1 << 15, 1 << 24])
def test_parts_of_a_snapshot_add_up_to_it(limit: int) -> None:
    parts = _record().split(limit)
    assert (len(parts) == 1) == (limit == 1 << 24)
    whole, split = TableImage(), TableImage()
    assert whole.apply(TableRecord.decode(_record().encode()), 0, 10)
    done = [split.apply(TableRecord.decode(part.encode()), 0, 10) for part in parts]
    assert done == [False] * (len(parts) - 1) + [True]
    assert split.encode() == whole.encode()
    again = TableImage()
    again.decode(split.encode())
    assert again.encode() == split.encode()


def test_a_snapshot_without_its_beginning_changes_nothing() -> None:
    parts = _record().split(1 << 12)
    image = TableImage()
    for part in parts[1:]:
        assert not image.apply(part, 0, 10)
    assert not image.topics
    assert not image.complete


@pytest.mark.parametrize("cut", range(0, 120, 7))
def test_a_damaged_record_is_refused(cut: int) -> None:
    body = TableRecord(3, offsets={"a@b": {0: 1}}).encode()
    with pytest.raises(ProtocolError):
        TableRecord.decode(body[: max(len(body) - 1 - cut, 0)] if cut < len(body) - 18 else b"ArT1" + bytes(cut % 13))
    compressed = bytearray(_record().encode())
    compressed[40 + cut] ^= 0xFF
    with pytest.raises(ProtocolError):
        TableRecord.decode(bytes(compressed))


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_what_a_killed_leader_acknowledged_is_on_its_successor(tmp_path: Path) -> None:
    """A sample of `make dledger-tables`."""
    assert await run(tmp_path, 2, seed=3) > 8
