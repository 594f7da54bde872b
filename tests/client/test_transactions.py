"""Transactions, against our broker and Apache's; brokers there ask back after a second."""

import asyncio
from typing import Any

import pytest

from ariane import ConsumeFrom, Message, ReceivedMessage, SendResult, TransactionState, aio
from tests.client.inbox import Inbox, eventually
from tests.peers import unique

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
        aio.TransactionProducer(producers, survivor, name_servers=ns) as second,
        aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST),
    ):
        await second.send_half(Message(topic, b"own"))  # so that the broker knows it
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
