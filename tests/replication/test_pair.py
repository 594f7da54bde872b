"""A master and its slave, both ours, as whole brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from shutil import rmtree

import pytest

from ariane.broker.replication.peers import PeerState
from ariane.broker.role import RoleKind
from ariane.broker.server import Broker
from ariane.errors import ArianeError
from ariane.ha import SlavePhase
from ariane.protocol.bodies import (
    ConsumerOffsetTable,
    KVTable,
    SubscriptionGroupTable,
    TopicConfigTable,
    TopicRouteData,
)
from ariane.protocol.codes import PROMOTE_BROKER, RequestCode, ResponseCode
from tests.broker.talk import Talk
from tests.replication.brokers import Brokers, copied, ok, until


@pytest.fixture
async def brokers(tmp_path: Path) -> AsyncIterator[Brokers]:
    async with Brokers.in_folder(tmp_path) as running:
        yield running


async def bodies(talk: Talk, topic: str = "orders") -> list[bytes]:
    """All messages of the first queue."""
    found: list[bytes] = []
    while units := await talk.units(topic, offset=len(found)):
        found += [unit.body for unit in units]
    return found


async def commit(talk: Talk, group: str, topic: str, offset: int) -> None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": str(offset)}
    ok(await talk.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields))


async def committed(talk: Talk, group: str, topic: str) -> int:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0"}
    answer = await talk.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)
    return int(answer.fields["offset"])


async def test_a_slave_finds_its_master_and_copies_log_topics_groups_and_offsets(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    to_master, to_slave = brokers.talk(master), brokers.talk(slave)
    await to_master.send_ok("orders", b"one")
    await to_master.send_ok("orders", b"later", properties="DELAY\x0118\x02")
    ok(await to_master.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, b'{"groupName":"readers"}'))
    await commit(to_master, "readers", "orders", 1)
    await copied(master, slave)
    await slave.metadata.round(master.address)
    units = await to_slave.units("orders", consumer_group="readers")
    assert [unit.body for unit in units] == [b"one"]
    assert await committed(to_slave, "readers", "orders") == 1
    for code, table in (
        (RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, SubscriptionGroupTable),
        (RequestCode.GET_ALL_CONSUMER_OFFSET, ConsumerOffsetTable),
    ):
        ours, theirs = ok(await to_slave.ask(code)), ok(await to_master.ask(code))
        assert table.decode(ours.body) == table.decode(theirs.body)
    rows = KVTable.decode(ok(await to_slave.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    assert (rows["brokerRole"], rows["brokerId"], rows["haState"]) == ("SLAVE", "1", "following")
    assert rows["haMaster"] == master.ha_address
    rows = KVTable.decode(ok(await to_master.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
    [slave_row] = [value for name, value in rows.items() if name.startswith("haSlave_")]
    assert "in sync" in slave_row
    assert await master.peers.same_name() == {0: {master.address}, 1: {slave.address}}


async def test_a_parked_pull_on_a_slave_is_answered_when_the_message_arrives(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    to_master, to_slave = brokers.talk(master), brokers.talk(slave)
    await to_master.send_ok("orders", b"one")
    await copied(master, slave)
    await until(lambda: "orders" in slave.topics)
    pull = asyncio.ensure_future(to_slave.pull("orders", offset=1, sys_flag=6, suspend_timeout_millis=60_000))
    await until(lambda: len(slave.longpoll))
    await to_master.send_ok("orders", b"two")
    assert ok(await pull).body


async def test_a_slave_has_few_offsets_within_a_second(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ariane.broker.replication.metadata.INTERVAL", 1e9)
    master, slave = await brokers.master(), await brokers.slave()
    await brokers.talk(master).send_ok("orders")
    await copied(master, slave)
    await until(lambda: slave.metadata.rounds and "orders" in slave.topics)
    await commit(brokers.talk(master), "readers", "orders", 1)
    await until(lambda: slave.offsets.get("readers", "orders", 0) == 1)


async def test_commits_on_a_slave_reach_the_master_that_returns(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    to_master, to_slave = brokers.talk(master), brokers.talk(slave)
    for body in (b"one", b"two", b"three"):
        await to_master.send_ok("orders", body)
    await commit(to_master, "readers", "orders", 1)
    await copied(master, slave)
    await slave.metadata.round(master.address)
    await brokers.stop("master")
    assert len(await to_slave.units("orders", offset=1)) == 2
    await commit(to_slave, "readers", "orders", 3)
    master = await brokers.master()
    assert await committed(brokers.talk(master), "readers", "orders") == 3
    await slave.metadata.round(master.address)
    assert await committed(to_slave, "readers", "orders") == 3
    assert slave.offsets.committed_here == {}


async def test_commits_on_a_slave_skip_nothing_on_a_master_that_lost_messages(brokers: Brokers) -> None:
    """As after a power cut: new messages take the places of those that the group has read on the slave."""
    master, slave = await brokers.master(), await brokers.slave()
    to_master, to_slave = brokers.talk(master), brokers.talk(slave)
    await to_master.send_ok("orders", b"one")
    await copied(master, slave)
    await slave.metadata.round(master.address)
    await brokers.stop("master")
    await commit(to_slave, "readers", "orders", 1)
    rmtree(brokers.folder / "master")
    master = await brokers.master()
    await slave.metadata.round(master.address)
    assert master.offsets.queues("readers", "orders").get(0, 0) == 0
    assert slave.offsets.committed_here == {"orders@readers": {0: 1}}  # for the day that it is promoted


async def test_a_reset_on_the_master_is_not_undone_by_the_slave(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    to_master, to_slave = brokers.talk(master), brokers.talk(slave)
    await to_master.send_ok("orders", b"one")
    await commit(to_master, "readers", "orders", 1)
    await copied(master, slave)
    await slave.metadata.round(master.address)
    assert await committed(to_slave, "readers", "orders") == 1
    master.offsets.reset("readers", "orders", 0, 0)
    await brokers.stop("master")
    master = await brokers.master()
    assert await committed(brokers.talk(master), "readers", "orders") == 0
    await slave.metadata.round(master.address)
    assert await committed(to_slave, "readers", "orders") == 0


async def test_a_late_one_way_commit_from_a_slave_does_not_move_the_master_back(brokers: Brokers) -> None:
    master = await brokers.master()
    to_master = brokers.talk(master)
    await to_master.send_ok("orders", b"one")
    await commit(to_master, "readers", "orders", 1)
    await master.peers.commit(master.address, ConsumerOffsetTable({"orders@readers": {0: 0}}))
    assert await committed(to_master, "readers", "orders") == 1


async def test_a_promoted_slave_takes_writes_and_the_old_master_follows_it(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    to_master, to_slave = brokers.talk(master), brokers.talk(slave)
    await to_master.send_ok("orders", b"one")
    await copied(master, slave)
    refused = await to_slave.ask(PROMOTE_BROKER, {"brokerName": "pair"})
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "still answers" in (refused.remark or "")
    await brokers.stop("master")
    answer = ok(await to_slave.ask(PROMOTE_BROKER, {"brokerName": "pair"}))
    assert answer.fields["brokerEpoch"] == "2"
    await to_slave.send_ok("orders", b"two")
    assert await bodies(to_slave) == [b"one", b"two"]
    assert await slave.peers.same_name() == {0: {slave.address}}
    old = await brokers.master()
    assert (old.role.kind, old.role.broker_id) == (RoleKind.SLAVE, 1)
    to_old = brokers.talk(old)
    assert (await to_old.send("orders", b"lost")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    await copied(slave, old)
    assert await bodies(to_old) == [b"one", b"two"]
    assert await slave.peers.same_name() == {0: {slave.address}, 1: {old.address}}


async def test_a_promotion_holds_after_a_restart_until_the_configuration_changes(brokers: Brokers) -> None:
    await brokers.master()
    slave = await brokers.slave()
    await until(lambda: slave.role.epoch or slave.epochs.current)
    await brokers.stop("master")
    ok(await brokers.talk(slave).ask(PROMOTE_BROKER, {"brokerName": "pair", "sync": "true"}))
    await brokers.stop("slave")
    again = await brokers.slave()
    assert (again.role.kind, again.role.broker_id, again.role.epoch) == (RoleKind.SYNC_MASTER, 0, 2)
    shown = (ok(await brokers.talk(again).ask(RequestCode.GET_BROKER_CONFIG, {})).body or b"").splitlines()
    assert {b"brokerId=0", b"brokerRole=SYNC_MASTER"} <= set(shown)
    await brokers.stop("slave")
    changed = await brokers.slave(brokerId=2)
    assert (changed.role.kind, changed.role.broker_id) == (RoleKind.SLAVE, 2)


async def test_a_master_that_did_not_stop_follows_the_one_that_was_promoted_by_force(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    to_master, to_slave = brokers.talk(master), brokers.talk(slave)
    await to_master.send_ok("orders", b"one")
    await copied(master, slave)
    ok(await to_slave.ask(PROMOTE_BROKER, {"brokerName": "pair", "force": "true"}))
    await until(lambda: master.role.is_slave)
    assert (await to_master.send("orders", b"lost")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    await to_slave.send_ok("orders", b"two")
    await copied(slave, master)


async def test_a_master_that_hangs_is_told_of_the_promotion_for_when_it_goes_on(
    brokers: Brokers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped by SIGSTOP, say: its sockets take requests that it does not read yet."""
    master, slave = await brokers.master(), await brokers.slave()
    await brokers.talk(master).send_ok("orders", b"one")
    await copied(master, slave)
    told = list[str]()
    tell = slave.peers.tell_promoted

    async def hangs(address: str) -> PeerState:
        raise ArianeError(f"{address} did not answer")

    async def noted(address: str, epoch: int, log_max: int) -> None:
        await tell(address, epoch, log_max)
        told.append(address)

    monkeypatch.setattr(slave.peers, "state", hangs)
    monkeypatch.setattr(slave.peers, "tell_promoted", noted)
    ok(await brokers.talk(slave).ask(PROMOTE_BROKER, {"brokerName": "pair"}))
    await until(lambda: told)
    assert told == [master.address]
    await until(lambda: master.role.is_slave)


async def test_one_of_two_brokers_promoted_to_the_same_epoch_steps_down_and_keeps_its_messages(
    brokers: Brokers,
) -> None:
    master, one, two = await brokers.master(), await brokers.slave("one"), await brokers.slave("two", brokerId=2)
    await brokers.talk(master).send_ok("orders", b"shared")
    await copied(master, one)
    await copied(master, two)
    await brokers.stop("master")
    for broker in (one, two):  # by operators who do not know of each other
        await broker.handover._promote(2, RoleKind.ASYNC_MASTER)
        await brokers.talk(broker).send_ok("orders", b"of %d" % broker.port)
    for broker in (one, two):
        await broker.handover.look_for_newer()
    await until(lambda: one.role.is_master != two.role.is_master)
    loser = one if one.role.is_slave else two
    assert (await brokers.talk(loser).send("orders", b"refused")).code == ResponseCode.SERVICE_NOT_AVAILABLE
    await until(lambda: loser.from_master.slave is not None and loser.from_master.slave.state.stopped)
    assert loser.from_master.slave is not None
    assert loser.from_master.slave.state.phase is SlavePhase.AHEAD
    assert await bodies(brokers.talk(loser)) == [b"shared", b"of %d" % loser.port]


async def test_a_stranger_of_a_higher_epoch_does_not_depose_a_master_with_slaves(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    await brokers.talk(master).send_ok("orders", b"one")
    await copied(master, slave)
    stranger = await brokers.start("stranger", namesrvAddr="127.0.0.1:1")
    await brokers.talk(stranger).send_ok("orders", b"strange")
    await stranger.role.become_master(99)
    assert (await master.peers.state(stranger.address)).epoch > master.role.epoch
    assert not await master.handover._follow_if_newer(stranger.address)
    await brokers.talk(master).send_ok("orders", b"two")
    assert master.role.is_master


async def test_a_tail_that_only_the_old_master_has_is_cut_when_it_returns(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    to_master, to_slave = brokers.talk(master), brokers.talk(slave)
    await to_master.send_ok("orders", b"one")
    await copied(master, slave)
    await brokers.stop("slave")
    await to_master.send_ok("orders", b"only here")
    await commit(to_master, "readers", "orders", 2)
    await brokers.stop("master")
    slave = await brokers.slave()
    to_slave = brokers.talk(slave)
    ok(await to_slave.ask(PROMOTE_BROKER, {"brokerName": "pair"}))
    await to_slave.send_ok("orders", b"two")
    old = await brokers.master()
    assert old.role.is_slave
    await until(lambda: old.from_master.slave is not None and old.from_master.slave.state.connected)
    await copied(slave, old)
    assert await bodies(brokers.talk(old)) == [b"one", b"two"]


async def test_sends_to_a_sync_master_wait_for_the_slave(brokers: Brokers) -> None:
    master = await brokers.master(brokerRole="SYNC_MASTER")
    to_master = brokers.talk(master)
    assert (await to_master.send("orders", b"one")).code == ResponseCode.SLAVE_NOT_AVAILABLE
    slave = await brokers.slave()
    await until(lambda: master.to_slaves.master.in_sync())
    await to_master.send_ok("orders", b"two")
    assert slave.store.log_max == master.store.log_max


async def test_commits_on_a_slave_survive_its_restart_until_the_master_has_them(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    to_master = brokers.talk(master)
    for body in (b"one", b"two"):
        await to_master.send_ok("orders", body)
    await copied(master, slave)
    await slave.metadata.round(master.address)
    await brokers.stop("master")
    await commit(brokers.talk(slave), "readers", "orders", 2)
    await brokers.stop("slave")
    slave = await brokers.slave()
    assert slave.offsets.committed_here == {"orders@readers": {0: 2}}
    master = await brokers.master()
    await until(lambda: slave.metadata.rounds and not slave.offsets.committed_here)
    assert await committed(brokers.talk(master), "readers", "orders") == 2


async def test_the_progress_of_delays_waits_for_the_delivered_messages(brokers: Brokers) -> None:
    """Otherwise a promotion would lose a message that the master has delivered and the slave does not have yet."""
    master = await brokers.master(messageDelayLevel="1s 2s")
    slave = await brokers.slave(haMasterAddress="127.0.0.1:1", messageDelayLevel="1s 2s")
    to_master = brokers.talk(master)
    await to_master.send_ok("orders", b"late", properties="DELAY\x011\x02")
    await until(lambda: master.detours.delay.delivered)
    await slave.metadata.round(master.address)
    assert (master.detours.delay.offsets(), slave.detours.delay.offsets()) == ({1: 1}, {})
    await brokers.stop("slave")
    slave = await brokers.slave(messageDelayLevel="1s 2s")
    await until(lambda: slave.detours.delay.offsets() == {1: 1})
    await copied(master, slave)


async def test_a_message_delayed_on_the_old_master_is_delivered_by_the_promoted_one(brokers: Brokers) -> None:
    options = {"messageDelayLevel": "2s 3s"}
    master, slave = await brokers.master(**options), await brokers.slave(**options)
    await brokers.talk(master).send_ok("orders", b"late", properties="DELAY\x011\x02")
    await copied(master, slave)
    await until(lambda: "orders" in slave.topics)
    await brokers.stop("master")
    to_slave = brokers.talk(slave)
    ok(await to_slave.ask(PROMOTE_BROKER, {"brokerName": "pair"}))
    await until(lambda: slave.detours.delay.delivered)
    assert await bodies(to_slave) == [b"late"]


async def test_a_slave_acts_for_a_missing_master_when_it_may(brokers: Brokers) -> None:
    acts = {"enableSlaveActingMaster": True}
    master, slave = await brokers.master(**acts), await brokers.slave(**acts)
    await brokers.talk(master).send_ok("orders", b"one")
    await master.registration.current()
    await copied(master, slave)
    await slave.metadata.round(master.address)
    assert await route(brokers, slave) == ({0: master.address, 1: slave.address}, 6)
    await brokers.stop("master")
    assert await route(brokers, slave) == ({0: slave.address}, 4)
    body = b'{"clientId":"c","consumerGroup":"g","mqSet":[{"brokerName":"pair","queueId":0,"topic":"orders"}]}'
    locked = ok(await brokers.talk(slave).ask(RequestCode.LOCK_BATCH_MQ, None, body))
    assert b'"topic":"orders"' in locked.body
    await brokers.master(**acts)
    assert await route(brokers, slave) == ({0: master.address, 1: slave.address}, 6)


async def route(brokers: Brokers, broker: Broker) -> tuple[dict[int, str], int]:
    """The addresses of the pair and the permission of its queues, as clients see them."""
    answer = await broker.peers.ask(
        brokers.name_server.address, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"}
    )
    found = TopicRouteData.decode(answer.body)
    return found.broker_datas[0].broker_addrs, found.queue_datas[0].perm


async def test_a_slave_that_has_less_than_another_is_not_promoted(brokers: Brokers) -> None:
    master = await brokers.master()
    slave, other = await brokers.slave(), await brokers.slave("other", brokerId=2)
    await brokers.talk(master).send_ok("orders", b"one")
    await copied(master, slave)
    await copied(master, other)
    await brokers.stop("other")
    await brokers.talk(master).send_ok("orders", b"two")
    await copied(master, slave)
    await brokers.stop("master")
    other = await brokers.slave("other", brokerId=2)
    to_other = brokers.talk(other)
    refused = await to_other.ask(PROMOTE_BROKER, {"brokerName": "pair"})
    assert "has more of the log" in (refused.remark or "")
    assert other.role.is_slave
    wrong = await to_other.ask(PROMOTE_BROKER, {"brokerName": "another"})
    assert "this broker is pair, not another" in (wrong.remark or "")
    ok(await brokers.talk(slave).ask(PROMOTE_BROKER, {"brokerName": "pair"}))
    await copied(slave, other)  # it follows the promoted one
    await until(lambda: "orders" in other.topics)
    assert await bodies(to_other) == [b"one", b"two"]


async def test_a_slave_that_is_still_copying_is_not_promoted(brokers: Brokers) -> None:
    master = await brokers.master(maxHaTransferByteInSecond=1)
    await brokers.talk(master).send_ok("orders", b"one" * 50_000)
    slave = await brokers.slave()
    await until(lambda: slave.from_master.slave and slave.from_master.slave.state.connected)
    await brokers.stop("master")
    to_slave = brokers.talk(slave)
    refused = await to_slave.ask(PROMOTE_BROKER, {"brokerName": "pair"})
    assert "still copying" in (refused.remark or "")
    assert slave.role.is_slave
    ok(await to_slave.ask(PROMOTE_BROKER, {"brokerName": "pair", "force": "true"}))


async def test_a_slave_that_is_still_copying_is_not_promoted_after_its_restart(brokers: Brokers) -> None:
    master = await brokers.master()
    await brokers.talk(master).send_ok("orders", b"one" * 50_000)
    await brokers.stop("master")
    await brokers.master(maxHaTransferByteInSecond=1)  # begins a run after the message
    slave = await brokers.slave()
    await until(lambda: slave.epochs.entries)
    await brokers.stop("master")
    await brokers.stop("slave")
    slave = await brokers.slave()
    refused = await brokers.talk(slave).ask(PROMOTE_BROKER, {"brokerName": "pair"})
    assert "still copying" in (refused.remark or "")


async def test_a_slave_asks_at_once_for_a_new_topic_and_drops_a_deleted_one(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    to_master = brokers.talk(master)
    await until(lambda: slave.metadata.rounds and slave.from_master.slave)
    await copied(master, slave)
    await to_master.send_ok("orders", b"one")
    await until(lambda: "orders" in slave.topics)
    ok(await to_master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"}))
    await slave.metadata.round(master.address)
    assert "orders" not in slave.topics
    assert slave.store.table.of_topic("orders") == []


async def test_a_promoted_slave_knows_the_topics_of_all_messages_that_it_has(brokers: Brokers) -> None:
    master, slave = await brokers.master(), await brokers.slave()
    await until(lambda: slave.metadata.rounds)
    await slave.metadata.stop()  # the master dies before it is asked
    await brokers.talk(master).send_ok("orders", b"one", queue_id=2)
    await copied(master, slave)
    await brokers.stop("master")
    assert "orders" not in slave.topics
    to_slave = brokers.talk(slave)
    ok(await to_slave.ask(PROMOTE_BROKER, {"brokerName": "pair"}))
    assert [unit.body for unit in await to_slave.units("orders", queue_id=2)] == [b"one"]


async def test_a_master_that_never_had_a_slave_follows_nobody(brokers: Brokers) -> None:
    """Its messages would be dropped for those of a broker that has nothing of it."""
    stranger = await brokers.slave("stranger")
    refused = await brokers.talk(stranger).ask(PROMOTE_BROKER, {"brokerName": "pair"})
    assert "no message" in (refused.remark or "")
    ok(await brokers.talk(stranger).ask(PROMOTE_BROKER, {"brokerName": "pair", "force": "true"}))
    alone = await brokers.master(namesrvAddr=None)
    await brokers.talk(alone).send_ok("orders", b"mine")
    await brokers.stop("master")
    alone = await brokers.master()
    assert (alone.role.is_master, alone.role.epoch < stranger.role.epoch) == (True, True)
    await alone.handover.look_for_newer()
    assert alone.role.is_master
    assert await bodies(brokers.talk(alone)) == [b"mine"]


async def test_promotions_asked_for_at_once_begin_one_epoch(brokers: Brokers) -> None:
    await brokers.master()
    slave = await brokers.slave()
    await brokers.stop("master")
    talks = [brokers.talk(slave) for _ in range(4)]
    fields = {"brokerName": "pair", "force": "true"}
    answers = await asyncio.gather(*(talk.ask(PROMOTE_BROKER, fields) for talk in talks))
    assert [ok(answer).fields["brokerEpoch"] for answer in answers] == ["2"] * 4
    assert [entry.epoch for entry in slave.epochs.entries] == [2]
