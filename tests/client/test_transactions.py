"""Transactions, against our broker and Apache's; brokers there ask back after a second."""

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

from ariane import ConsumeFrom, Message, ReceivedMessage, SendResult, TransactionState, aio
from ariane.testing.cluster import Cluster
from tests.client.inbox import Inbox, eventually
from tests.peers import unique
from tests.peers.fixtures import QUICK

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


class Ledger:
    """A listener whose answers are scripted by body."""

    def __init__(self, executed: dict[bytes, Any], checked: dict[bytes, Any] | None = None) -> None:
        self._executed, self._checked = executed, checked or {}
        self.asked: list[bytes] = []

    def execute(self, message: Message, sent: SendResult, argument: Any) -> TransactionState | None:
        return self._say(self._executed, message.body)

    def check(self, message: ReceivedMessage) -> TransactionState | None:
        self.asked.append(message.body)
        return self._say(self._checked, message.body)

    @staticmethod
    def _say(script: dict[bytes, Any], body: bytes) -> TransactionState | None:
        said = script.get(body, UNKNOWN)
        if isinstance(said, Exception):
            raise said
        return said


class AsyncLedger(Ledger):
    """The same as coroutines."""

    async def execute(self, message: Message, sent: SendResult, argument: Any) -> TransactionState | None:
        await asyncio.sleep(0)
        return super().execute(message, sent, argument)

    async def check(self, message: ReceivedMessage) -> TransactionState | None:
        await asyncio.sleep(0)
        return super().check(message)


@pytest.mark.parametrize("ledger", [Ledger, AsyncLedger])
async def test_only_what_was_committed_is_seen(ns: str, topic: str, group: str, ledger: type[Ledger]) -> None:
    executed = {b"yes": COMMIT, b"no": ROLLBACK, b"late": UNKNOWN, b"broken": ValueError("on purpose"), b"none": None}
    listener = ledger(executed, {b"late": COMMIT, b"broken": ROLLBACK, b"none": COMMIT})
    inbox = Inbox()
    async with (
        aio.TransactionProducer(unique("tx"), listener, name_servers=ns) as producer,
        aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST),
    ):
        states = {body: (await producer.send_in_transaction(Message(topic, body))).state for body in executed}
        await inbox.arrived(3)
        await eventually(lambda: b"broken" in listener.asked, "the check of the broken one")
    assert states == {b"yes": COMMIT, b"no": ROLLBACK, b"late": UNKNOWN, b"broken": UNKNOWN, b"none": UNKNOWN}
    assert set(inbox.bodies) == {b"yes", b"late", b"none"}
    assert set(listener.asked) >= {b"late", b"broken", b"none"}  # a broker may ask once more than it must


async def test_another_producer_of_the_group_answers_for_one_that_is_gone(ns: str, topic: str, group: str) -> None:
    producers = unique("tx")
    async with aio.TransactionProducer(producers, Ledger({}), name_servers=ns) as first:
        await first.send_half(Message(topic, b"orphan"))
    survivor = Ledger({}, {b"orphan": COMMIT})
    inbox = Inbox()
    async with (
        aio.TransactionProducer(producers, survivor, name_servers=ns),  # which sends nothing
        aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST),
    ):
        await inbox.arrived(1)
    assert inbox.bodies == [b"orphan"]


SENDER = """
import sys
from ariane import Message, TransactionProducer, TransactionState

class Undecided:
    def execute(self, message, result, argument):
        return TransactionState.UNKNOWN

    def check(self, message):
        return TransactionState.UNKNOWN

with TransactionProducer(sys.argv[2], Undecided(), name_servers=sys.argv[1]) as producer:
    producer.send_in_transaction(Message(sys.argv[3], b"of a killed process"))
    print("sent", flush=True)
    sys.stdin.read()
"""


async def test_a_producer_that_restarts_and_sends_nothing_is_asked(ns: str, topic: str, group: str) -> None:
    producers, pipe = unique("tx"), asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", SENDER, ns, producers, topic, stdin=pipe, stdout=pipe
    )
    assert process.stdout is not None
    try:
        assert await asyncio.wait_for(process.stdout.readline(), 60) == b"sent\n"
    finally:
        process.kill()
        await process.wait()
    listener, inbox = Ledger({}, {b"of a killed process": COMMIT}), Inbox()
    async with (
        aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST),
        aio.TransactionProducer(producers, listener, name_servers=ns),
    ):
        await inbox.arrived(1)
    assert inbox.bodies == [b"of a killed process"]
    assert b"of a killed process" in listener.asked


async def test_a_transaction_producer_registers_with_brokers_that_come_back(tmp_path: Path, group: str) -> None:
    with Cluster(tmp_path, config=QUICK) as cluster:
        cluster.create_topic("orders", queues=1)
        ns, producers, inbox = cluster.name_servers, unique("tx"), Inbox()
        async with aio.TransactionProducer(producers, Ledger({}), name_servers=ns) as first:
            await first.send_half(Message("orders", b"orphan"))
        await asyncio.to_thread(cluster.stop_broker)
        listener = Ledger({}, {b"orphan": COMMIT})
        async with (
            aio.TransactionProducer(producers, listener, name_servers=ns),
            aio.PushConsumer(group, "orders", inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST),
        ):
            await asyncio.to_thread(cluster.start_broker)
            await inbox.arrived(1)
        assert inbox.bodies == [b"orphan"]


async def test_the_two_steps_can_be_taken_by_hand(ns: str, topic: str, group: str) -> None:
    inbox = Inbox()
    async with (
        aio.TransactionProducer(unique("tx"), Ledger({}), name_servers=ns) as producer,
        aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST),
    ):
        half = await producer.send_half(Message(topic, b"by hand", delay_level=3))
        await producer.end_transaction(half, COMMIT)
        [message] = await inbox.arrived(1)
    assert message.body == b"by hand"
    assert message.message_id == half.message_id
