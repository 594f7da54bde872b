"""Offsets in the hands of an operator: reset through the consumers or without them, cloned, compared."""

import pytest

from ariane.message import MessageQueue
from ariane.protocol import fastjson
from ariane.protocol.bodies import ResetOffsetBody
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import CloneGroupOffsetRequest, ResetOffsetRequest
from tests.broker.operating import commit, five, ok
from tests.broker.talk import Talk


def reset(topic: str = "orders", group: str = "workers", **more: str) -> dict[str, str]:
    return {**ResetOffsetRequest(topic, group, 0, is_force=True).fields(), **more}


@pytest.mark.parametrize("more", [{}, {"queueId": "-1", "offset": "-1"}], ids=["4.9", "5.3"])
async def test_online_consumers_are_told_of_a_reset(talk: Talk, more: dict[str, str]) -> None:
    await five(talk)
    for queue_id in range(4):
        await commit(talk, "orders", 5 if queue_id == 0 else 0, queue_id)
    await talk.heartbeat("workers", {"orders": "*"}, client_id="c1")
    answer = await ok(talk, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(**more))
    queue = MessageQueue("orders", "broker-a", 0)
    assert ResetOffsetBody.decode(answer.body).offset_table[queue] == 0
    [told] = await talk.asked(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    assert told.is_oneway
    assert ResetOffsetBody.decode(told.body).offset_table[queue] == 0
    assert talk.broker.offsets.get("workers", "orders", 0) == 0


async def test_cpp_consumers_are_told_in_their_own_form(talk: Talk) -> None:
    await five(talk)
    for queue_id in range(4):
        await commit(talk, "orders", 0, queue_id)
    await talk.heartbeat("workers", {"orders": "*"}, client_id="c1")
    answer = await talk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(), language="CPP")
    assert answer.code == 0
    [told] = await talk.asked(RequestCode.RESET_CONSUMER_CLIENT_OFFSET)
    rows = fastjson.loads(told.body)["offsetTable"]
    assert {"topic": "orders", "brokerName": "broker-a", "queueId": 0, "offset": 0} in rows


async def test_a_reset_that_is_not_forced_never_goes_forward(talk: Talk) -> None:
    await five(talk)
    for queue_id in range(4):
        await commit(talk, "orders", 1 if queue_id == 0 else 0, queue_id)
    await talk.heartbeat("workers", {"orders": "*"}, client_id="c1")
    fields = ResetOffsetRequest("orders", "workers", -1, is_force=False).fields()
    answer = await ok(talk, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    assert ResetOffsetBody.decode(answer.body).offset_table[MessageQueue("orders", "broker-a", 0)] == 1


async def test_a_group_that_is_offline_is_not_reset_through_clients(talk: Talk) -> None:
    await five(talk)
    for queue_id in range(4):
        await commit(talk, "orders", 0, queue_id)
    answer = await talk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset())
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_the_broker_alone_resets_and_the_next_pull_goes_there(talk: Talk) -> None:
    await five(talk)
    await talk.heartbeat("workers", {"orders": "*"}, client_id="c1")
    await commit(talk, "orders", 5)
    fields = reset(queueId="0", offset="2")
    await ok(talk, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    assert talk.received == [r for r in talk.received if r.code != RequestCode.RESET_CONSUMER_CLIENT_OFFSET]
    answer = await talk.pull("orders", 0, 5, consumer_group="workers")
    assert answer.fields["nextBeginOffset"] == "2"
    units = await talk.units("orders", 0, 2, consumer_group="workers")
    assert [unit.body for unit in units] == [b"2", b"3", b"4"]


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"queueId": "0", "offset": "99"}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": "0", "offset": "-5"}, ResponseCode.SYSTEM_ERROR),
        ({"queueId": "77", "offset": "1"}, ResponseCode.SYSTEM_ERROR),
        ({"offset": "1"}, ResponseCode.SYSTEM_ERROR),
        ({"serverSide": "true", "topic": "nowhere"}, ResponseCode.TOPIC_NOT_EXIST),
        ({"serverSide": "true", "group": "nobody"}, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST),
    ],
)
async def test_a_reset_to_nowhere_is_refused(talk: Talk, more: dict[str, str], code: int) -> None:
    await five(talk)
    await talk.heartbeat("workers", {"orders": "*"}, client_id="c1")
    assert (await talk.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, reset(**more))).code == code


async def test_offsets_are_cloned_and_compared(talk: Talk) -> None:
    await five(talk)
    await commit(talk, "orders", 4)
    await ok(talk, RequestCode.CLONE_GROUP_OFFSET, CloneGroupOffsetRequest("workers", "clones", "orders").fields())
    assert talk.broker.offsets.get("clones", "orders", 0) == 4
    await commit(talk, "orders", 1, group="late")
    fields = {"topic": "orders", "compareGroup": "workers", "filterGroups": ""}
    answer = await ok(talk, RequestCode.QUERY_CORRECTION_OFFSET, fields)
    assert fastjson.loads(answer.body) == {"correctionOffsets": {"0": 1}}
    left_out = {"topic": "orders", "compareGroup": "late", "filterGroups": "late"}
    answer = await ok(talk, RequestCode.QUERY_CORRECTION_OFFSET, left_out)
    assert fastjson.loads(answer.body) == {"correctionOffsets": {"0": (1 << 63) - 1}}
    answer = await ok(talk, RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert fastjson.loads(answer.body)["offsetTable"]["orders@late"] == {"0": 1}
