"""Lag in messages and in time, owners of queues, conflicts and groups without consumers."""

import pytest

from ariane import ConsumeFrom, Message, aio
from ariane.client.admin import Admin
from ariane.client.admin.lag import GroupLag, why_blocked
from ariane.client.producer.producer import Producer
from ariane.protocol.bodies import ProcessQueueInfo
from tests.client.inbox import Inbox, eventually

NOW = 1_700_000_000_000


async def test_a_group_that_left_is_behind_in_messages_and_in_time(
    admin: Admin, ns: str, topic: str, producer: Producer, group: str
) -> None:
    inbox = Inbox()
    async with aio.PushConsumer(group, topic, inbox, consume_from=ConsumeFrom.FIRST, name_servers=ns):
        await producer.send(Message(topic, b"seen"))
        await inbox.arrived(1)
    [queue, *_] = await producer.queues(topic)
    await producer.send_batch([Message(topic, b"unseen")] * 3, queue=queue)
    found: list[GroupLag] = []

    async def behind() -> bool:
        found[:] = [await admin.group_lag(group, topic)]
        return found[0].lag == 3 and found[0].behind_ms > 0

    await eventually(behind, "three messages wait")
    [lag] = found
    assert [(one.queue, one.lag) for one in lag.queues if one.lag] == [(queue, 3)]
    assert lag.abandoned
    assert not lag.online
    assert all(one.owner is None and one.blocked is None for one in lag.queues)
    assert await admin.lag(group, topic) == 3
    assert [one.lag for one in await admin.group_lags() if one.group == group] == [3]


async def test_a_queue_has_an_owner_and_members_that_differ_are_named(
    admin: Admin, ns: str, topic: str, group: str
) -> None:
    first = aio.PushConsumer(group, topic, Inbox(), name_servers=ns, instance_name="one")
    second = aio.PushConsumer(group, {topic: "TagA"}, Inbox(), name_servers=ns, instance_name="two")
    found: list[GroupLag] = []

    async with first, second:

        async def shared() -> bool:
            found[:] = [await admin.group_lag(group)]
            rows = [one for one in found[0].queues if one.queue.topic == topic]
            return len({one.owner for one in rows}) == 2 and len(rows) == 4 and None not in {one.owner for one in rows}

        await eventually(shared, "both own queues")
        [lag] = found
        one, two = first.client_id, second.client_id
    assert {client.client_id for client in lag.clients} == {one, two}
    assert lag.in_conflict
    assert {variant.clients: variant.expressions for variant in lag.variants} == {
        (one,): {topic: "*"},
        (two,): {topic: "TagA"},
    }
    assert not lag.abandoned


@pytest.mark.parametrize(
    ("state", "orderly", "why"),
    [
        (ProcessQueueInfo(cached_msg_count=5, last_consume_timestamp=NOW - 90_000), False, "holds 5 messages"),
        (ProcessQueueInfo(cached_msg_count=5, last_consume_timestamp=NOW - 1_000), False, None),
        (ProcessQueueInfo(last_pull_timestamp=NOW - 300_000), False, "asked for no messages for 300 s"),
        (ProcessQueueInfo(last_pull_timestamp=NOW - 1_000), True, "could not lock"),
        (ProcessQueueInfo(last_pull_timestamp=NOW - 1_000, locked=True), True, None),
    ],
)
def test_a_blocked_queue_says_why(state: ProcessQueueInfo, orderly: bool, why: str | None) -> None:
    found = why_blocked(True, state, orderly, True, NOW)
    assert (found is None) if why is None else (found is not None and why in found)


def test_a_queue_without_owner_is_blocked_only_if_consumers_are_there() -> None:
    assert why_blocked(True, None, False, True, NOW) is not None
    assert why_blocked(True, None, False, False, NOW) is None
    assert why_blocked(False, None, False, True, NOW) is None
