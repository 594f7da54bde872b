"""The role of a broker, and what follows it."""

import asyncio
import threading
from pathlib import Path

import pytest

from ariane.broker.role import Role, RoleKind
from ariane.env import Env
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.testing.faults import MemoryFiles
from tests.broker.talk import Talk, send_fields, settled, small_broker


class Part:
    """Notes when it is started and stopped."""

    def __init__(self, name: str, notes: list[str]) -> None:
        self.name = name
        self.notes = notes

    async def start(self) -> None:
        self.notes.append(f"{self.name} starts")

    async def stop(self) -> None:
        self.notes.append(f"{self.name} stops")


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def role(notes: list[str]) -> Role:
    role = Role(RoleKind.SLAVE, 3)
    role.on_master(Part("delivery", notes))
    role.on_master(Part("checks", notes))
    role.on_slave(Part("copying", notes))
    role.on_change(lambda: notes.append(str(role)))
    return role


async def test_parts_of_the_old_role_stop_before_those_of_the_new_start(role: Role, notes: list[str]) -> None:
    await role.start()
    await role.become_master(2, RoleKind.SYNC_MASTER)
    await role.become_slave(1, 3)
    await role.stop()
    assert notes == [
        "copying starts",
        "copying stops",
        "SYNC_MASTER, id 0, epoch 2",
        "delivery starts",
        "checks starts",
        "checks stops",
        "delivery stops",
        "SLAVE, id 1, epoch 3",
        "copying starts",
        "copying stops",
    ]


async def test_a_role_that_changes_before_the_start_starts_nothing(role: Role, notes: list[str]) -> None:
    await role.become_master(1)
    assert notes == ["ASYNC_MASTER, id 0, epoch 1"]
    assert not role.writable


async def test_changes_asked_for_at_once_happen_one_after_the_other(role: Role, notes: list[str]) -> None:
    await role.start()
    await asyncio.gather(role.become_master(1), role.become_slave(2, 2), role.become_master(3))
    assert (role.kind, role.epoch, role.writable) == (RoleKind.ASYNC_MASTER, 3, True)
    assert notes[-1] == "checks starts"
    assert notes.count("copying starts") == notes.count("copying stops") == 2


async def test_a_master_that_becomes_a_slave_refuses_every_write(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path)) as talk:
        await talk.send_ok("orders")
        await talk.broker.role.become_slave(1, 1)
        before = talk.broker.store.log_max
        assert (await talk.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        assert (await talk.send("new-topic")).code == ResponseCode.SERVICE_NOT_AVAILABLE
        end = {
            "producerGroup": "p",
            "tranStateTableOffset": "0",
            "commitLogOffset": "0",
            "commitOrRollback": "8",
            "msgId": "m",
        }
        assert (await talk.ask(RequestCode.END_TRANSACTION, end)).code == ResponseCode.SLAVE_NOT_AVAILABLE
        group = await talk.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, b'{"groupName":"g"}')
        assert group.code == ResponseCode.SYSTEM_ERROR
        assert "slave" in (group.remark or "")
        assert talk.broker.store.log_max == before
        assert [unit.body for unit in await talk.units("orders")] == [b"hello"]


class HeldTopics(MemoryFiles):
    """Writes of topics.json begin when `gate` is open."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.came = threading.Event()

    def called(self, operation: str, path: Path) -> None:
        if path.name.startswith("topics.json") and threading.current_thread() is not threading.main_thread():
            self.came.set()
            self.gate.wait(60)
        super().called(operation, path)


async def test_a_send_keeps_the_promise_of_its_role_when_the_role_changes(tmp_path: Path) -> None:
    """A synchronous master promises a copy. There is none: also a send whose topic is saved too late is told so."""
    files = HeldTopics()
    broker = small_broker(tmp_path, env=Env(files=files), brokerRole="SYNC_MASTER", haListenPort=0)
    async with Talk.to(broker) as talk:
        try:
            send = asyncio.ensure_future(talk.send("new-topic"))
            await settled(files.came.is_set)
            await broker.role.become_slave(1, 1)
        finally:
            files.gate.set()
        assert (await send).code == ResponseCode.SLAVE_NOT_AVAILABLE


async def test_a_slave_that_becomes_a_master_delivers_what_was_delayed(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path, messageDelayLevel="1s 2s")) as talk:
        await talk.send_ok("orders")
        await talk.broker.role.become_slave(1, 1)
        await talk.broker.role.become_master(2)
        await talk.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders", properties="DELAY\x011\x02"), b"late")
        await settled(lambda: talk.broker.detours.delay.delivered)
        assert [unit.body for unit in await talk.units("orders")] == [b"hello", b"late"]


async def test_a_promoted_slave_does_not_repeat_the_deliveries_of_its_master(tmp_path: Path) -> None:
    """It copies the progress of delays each 10 s, and the delivered messages at once."""
    async with Talk.to(small_broker(tmp_path, messageDelayLevel="1s 2s")) as talk:
        delay = talk.broker.detours.delay
        before = delay.encode()
        properties = "DELAY\x011\x02UNIQ_KEY\x01{}\x02"
        for key in "ab":
            await talk.send_ok("orders", key.encode(), properties=properties.format(key))
        await settled(lambda: delay.delivered == 2)
        await talk.broker.role.become_slave(1, 1)
        delay.copy(before)
        await talk.broker.role.become_master(2)
        await talk.send_ok("orders", b"c", properties=properties.format("c"))
        await settled(lambda: delay.delivered == 3)
        assert [unit.body for unit in await talk.units("orders")] == [b"a", b"b", b"c"]


async def test_a_delayed_message_whose_copy_is_cut_off_is_delivered_again(tmp_path: Path) -> None:
    """A leader that is replaced loses what it stored last, and may lead again before it hears of others' progress."""
    async with Talk.to(small_broker(tmp_path, messageDelayLevel="1s 2s")) as talk:
        store, delay = talk.broker.store, talk.broker.detours.delay
        await talk.send_ok("orders")
        await delay.stop()
        await talk.send_ok("orders", b"late", properties="DELAY\x011\x02")
        end = store.log_max

        def delivered_and_cut() -> bool:
            delay.deliver_due()
            if delay.delivered:
                store.truncate(end)
            return bool(delay.delivered)

        await settled(delivered_and_cut)
        await talk.broker.role.become_slave(1, 1)
        await talk.broker.role.become_master(2)
        await settled(lambda: delay.delivered == 2)
        assert [unit.body for unit in await talk.units("orders")] == [b"hello", b"late"]
