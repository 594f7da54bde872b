"""Sending: what is stored, what is answered, and what is refused in which words."""

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.broker.send.properties import StoredForms, stored_properties
from ariane.env import Env, ManualClock
from ariane.protocol.batch import BatchItem, encode_batch
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import BINARY, Command
from ariane.protocol.fast.property_form import form_of
from ariane.protocol.fast.sending import Sending, SendKind, names_in
from ariane.protocol.ids import host_text, parse_offset_id
from ariane.protocol.properties import decode_properties
from ariane.store import Marks
from tests.broker.conftest import Starter
from tests.broker.talk import Talk, send_fields, small_broker
from tests.peers import free_port

CREATE = RequestCode.UPDATE_AND_CREATE_TOPIC


async def create(talk: Talk, topic: str, *, read: int = 4, write: int = 4, perm: int = 6) -> Command:
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(read), "writeQueueNums": str(write)}
    return await talk.ask(CREATE, {**fields, "perm": str(perm), "topicFilterType": "SINGLE_TAG"})


async def test_a_topic_is_created_on_first_send_with_as_many_queues_as_the_client_asks_for(talk: Talk) -> None:
    await talk.send_ok("orders")
    config = talk.broker.topics.get("orders")
    assert config is not None
    assert (config.read_queue_nums, config.write_queue_nums, config.perm) == (4, 4, 6)
    await talk.send_ok("many", default_topic_queue_nums=100)
    many = talk.broker.topics.get("many")
    assert many is not None
    assert many.write_queue_nums == talk.broker.options.default_topic_queue_nums


@pytest.mark.parametrize("v2", [True, False])
async def test_a_message_is_stored_as_sent(talk: Talk, v2: bool) -> None:
    properties = "TAGS\x01TagA\x02KEYS\x01k1 k2\x02WAIT\x01true\x02"
    answer = await talk.send_ok("orders", b"paid", v2=v2, properties=properties, flag=7, queue_id=2)
    [unit] = await talk.units("orders", 2)
    assert (unit.body, unit.flag, unit.queue_id, unit.born_time) == (b"paid", 7, 2, 1_700_000_000_000)
    stored = decode_properties(unit.properties.decode())
    assert stored == {"TAGS": "TagA", "KEYS": "k1 k2", "CLUSTER": "DefaultCluster"}
    host, offset = parse_offset_id(answer.fields["msgId"])
    assert (host, offset) == (unit.store_host, unit.physical_offset)
    assert answer.fields["queueId"] == "2"
    assert answer.fields["queueOffset"] == "0"
    assert answer.fields["MSG_REGION"] == "DefaultRegion"
    assert answer.fields["TRACE_ON"] == "true"


async def test_the_answer_is_the_same_in_both_serialisations(talk: Talk) -> None:
    fields = send_fields("orders")
    json = await talk.ask(RequestCode.SEND_MESSAGE_V2, fields, b"a")
    binary = await talk.ask(RequestCode.SEND_MESSAGE_V2, fields, b"b", serialization=BINARY)
    assert (json.fields.keys(), json.code, json.remark) == (binary.fields.keys(), binary.code, binary.remark)
    assert binary.serialization == BINARY


@pytest.mark.parametrize(
    ("text", "stored"),
    [
        ("", {}),
        ("A\x011\x02", {"A": "1"}),
        ("A\x011", {"A": "1"}),
        ("WAIT\x01true\x02A\x011\x02", {"A": "1"}),
        ("A\x011\x02WAIT\x01true", {"A": "1"}),
        ("A\x011\x02WAIT\x01false\x02B\x012\x02", {"A": "1", "B": "2"}),
        ("A\x011\x02WAIT\x01true\x02B\x012\x02", {"A": "1", "B": "2"}),
        ("AWAIT\x01true\x02", {"AWAIT": "true"}),
        ("WAIT\x01true", {}),
        ("CLUSTER\x01other\x02A\x011\x02", {"A": "1"}),
    ],
)
def test_stored_properties_lose_wait_and_gain_the_cluster(text: str, stored: dict[str, str]) -> None:
    raw = text.encode()
    result = stored_properties(raw, names_in(raw), b"c1").decode()
    assert decode_properties(result) == {**stored, "CLUSTER": "c1"}
    assert not result.endswith("\x02")


property_names = st.sampled_from(["A", "WAIT", "UNIQ_KEY", "XUNIQ_KEY", "KEYS", "TAGS", "CLUSTER"])
property_values = st.sampled_from(["true", "7F01", "8E02", "", "a b"])


@given(st.lists(st.tuples(property_names, property_values), max_size=5), st.sampled_from(["", "\x02"]), st.binary())
def test_properties_of_a_form_are_stored_as_any_others(pairs: list[tuple[str, str]], end: str, noise: bytes) -> None:
    text = "\x02".join(f"{name}\x01{value}" for name, value in pairs) + end
    raw, key = text.encode(), noise.hex().upper().encode()[:4].ljust(4, b"0")
    names = names_in(raw)
    form = form_of(json.dumps(text)[1:].encode(), raw, names)
    if form is None or len(form.text(key)) != len(raw):
        return
    forms = StoredForms(b"c1")
    kind = SendKind("orders", "TBW102", 4, 0, 0, 0, None, False, False)
    for form.key in (b"AB12", key):
        sending = Sending(kind, 0, 0, b"", names, form)
        stored = stored_properties(sending.properties, names, b"c1")
        found = forms.get(sending)
        if found is not None:
            assert found.before + sending.key + found.after == stored
            marks = Marks(stored)
            assert (found.marks.tags_code, found.marks.keys) == (marks.tags_code, marks.keys)
            assert (found.marks.unique_at, found.marks.unique_end) == (marks.unique_at, marks.unique_end)


async def test_a_queue_that_was_dropped_is_made_anew_by_the_next_send(talk: Talk) -> None:
    for body in (b"a", b"b"):
        await talk.send_ok("orders", body)
    await talk.units("orders")
    talk.broker.store.delete_topic("orders")  # the topic stays: its queues alone were cleaned up
    await talk.send_ok("orders", b"c")
    assert [(u.body, u.queue_offset) for u in await talk.units("orders")] == [(b"c", 0)]


async def test_a_negative_queue_means_any_queue(talk_to: Starter) -> None:
    talk = await talk_to(env=Env(random=Random(1)))
    chosen = {(await talk.send_ok("orders", queue_id=-1)).fields["queueId"] for _ in range(40)}
    assert chosen == {"0", "1", "2", "3"}


async def test_a_batch_is_stored_whole_and_answered_with_all_ids(talk: Talk) -> None:
    items = [BatchItem(i, f"b{i}".encode(), f"KEYS\x01k{i}".encode()) for i in range(3)]
    answer = await talk.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("orders", batch=True), encode_batch(items))
    assert answer.code == 0, answer.remark
    units = await talk.units("orders")
    assert [(u.body, u.flag) for u in units] == [(b"b0", 0), (b"b1", 1), (b"b2", 2)]
    places = [parse_offset_id(text)[1] for text in answer.fields["msgId"].split(",")]
    assert places == [u.physical_offset for u in units]
    assert decode_properties(units[1].properties.decode()) == {"KEYS": "k1", "CLUSTER": "DefaultCluster"}


@pytest.mark.parametrize("body", [b"", b"\0\0\0\x05x", b"\x7f\xff\xff\xff" + b"\0" * 40])
async def test_a_torn_batch_is_refused_and_nothing_is_stored(talk: Talk, body: bytes) -> None:
    answer = await talk.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("orders", batch=True), body)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL
    assert talk.broker.store.max_offset("orders", 0) == 0


@pytest.mark.parametrize("header", [{"properties": "DELAY\x013\x02"}, {"sys_flag": 4}])
async def test_a_batch_is_neither_delayed_nor_part_of_a_transaction(talk: Talk, header: dict[str, Any]) -> None:
    body = encode_batch([BatchItem(0, b"x", b"")])
    answer = await talk.ask(RequestCode.SEND_BATCH_MESSAGE, send_fields("orders", batch=True, **header), body)
    assert answer.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_slave_takes_no_messages(talk_to: Starter) -> None:
    talk = await talk_to(brokerRole="SLAVE", brokerId=1)
    assert (await talk.send("orders")).code == ResponseCode.SERVICE_NOT_AVAILABLE


async def test_the_store_host_of_a_broker_with_a_name_is_looked_up(talk_to: Starter) -> None:
    talk = await talk_to(brokerIP1="localhost", listenPort=free_port(-2))
    await talk.send_ok("orders")
    [unit] = await talk.units("orders")
    assert host_text(unit.store_host).endswith(f":{talk.broker.port}")


async def test_oneway_sends_are_stored_and_not_answered(talk: Talk) -> None:
    connection = await talk.client.connection(talk.address)
    for i in range(20):
        connection.oneway(Command(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"%d" % i))
    await talk.send_ok("orders", b"last")
    assert [u.body for u in await talk.units("orders")] == [b"%d" % i for i in range(20)] + [b"last"]


REFUSED = [
    ("", 1, "The specified topic is blank."),
    ("../../etc", 1, "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$"),
    ("n" * 128, 1, "The specified topic is longer than topic max length."),
    ("SCHEDULE_TOPIC_XXXX", 16, "Sending message to topic[SCHEDULE_TOPIC_XXXX] is forbidden."),
    ("RMQ_SYS_TRANS_HALF_TOPIC", 16, "Sending message to topic[RMQ_SYS_TRANS_HALF_TOPIC] is forbidden."),
]


@pytest.mark.parametrize(("topic", "code", "remark"), REFUSED)
async def test_names_are_checked_in_apaches_words(talk: Talk, topic: str, code: int, remark: str) -> None:
    answer = await talk.send(topic)
    assert (answer.code, answer.remark) == (code, remark)


async def test_a_topic_is_not_created_where_that_is_off_or_the_model_does_not_pass_it_on(talk_to: Starter) -> None:
    talk = await talk_to(autoCreateTopicEnable=False)
    answer = await talk.send("orders")
    assert answer.code == ResponseCode.TOPIC_NOT_EXIST
    assert (answer.remark or "").startswith("topic[orders] not exist, apply first please!")
    assert (await talk.send("orders", default_topic="SELF_TEST_TOPIC")).code == ResponseCode.TOPIC_NOT_EXIST
    assert (await talk.send("orders", default_topic="nowhere")).code == ResponseCode.TOPIC_NOT_EXIST
    assert (await talk.send("orders", default_topic="DefaultCluster")).code == 0


async def test_a_queue_beyond_the_topic_is_refused(talk: Talk) -> None:
    await create(talk, "orders", read=4, write=2)
    assert (await talk.send("orders", queue_id=3)).code == 0  # readers still see it: a topic that shrinks loses nothing
    answer = await talk.send("orders", queue_id=4)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("request queueId[4] is illegal, TopicConfig [topicName=orders")


async def test_a_topic_without_write_permission_takes_no_messages(talk: Talk) -> None:
    await create(talk, "orders", perm=4)
    answer = await talk.send("orders")
    assert (answer.code, answer.remark) == (16, "the topic[orders] sending message is forbidden")
    await create(talk, "orders", perm=6)
    await talk.send_ok("orders")


async def test_a_drained_broker_takes_no_messages_and_serves_those_it_has(talk: Talk) -> None:
    await talk.send_ok("orders")
    talk.broker.change_options(talk.broker.options.updated("brokerPermission", "4"))
    answer = await talk.send("orders")
    assert (answer.code, answer.remark) == (16, "the broker[127.0.0.1] sending message is forbidden")
    assert len(await talk.units("orders")) == 1
    talk.broker.change_options(talk.broker.options.updated("brokerPermission", "2"))
    assert (await talk.pull("orders")).code == ResponseCode.NO_PERMISSION
    await talk.send_ok("orders")


async def test_sends_before_the_opening_time_are_refused(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock), startAcceptSendRequestTimeStamp=clock.now_ms() + 1000)
    answer = await talk.send("orders")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert (answer.remark or "").startswith("broker unable to service, until ")
    clock.advance(2)
    await talk.send_ok("orders")


async def test_bodies_and_properties_beyond_the_limit_are_illegal(talk_to: Starter) -> None:
    talk = await talk_to(maxMessageSize=1000)
    large = await talk.send("orders", b"x" * 1001)
    assert large.code == ResponseCode.MESSAGE_ILLEGAL
    assert "msg body length limit 1000B" in (large.remark or "")
    assert (await talk.send("orders", properties="A\x01" + "v" * 33_000)).code == ResponseCode.MESSAGE_ILLEGAL
    await talk.send_ok("orders", b"x" * 1000)


async def test_a_store_that_cannot_write_says_so_and_recovers(talk: Talk) -> None:
    talk.broker.store.health.fail("disk", "full")
    answer = await talk.send("orders")
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "the broker's disk is full [CL:" in (answer.remark or "")
    talk.broker.store.health.clear("disk")
    await talk.send_ok("orders")


async def test_sync_flush_answers_after_the_flush(talk_to: Starter) -> None:
    talk = await talk_to(flushDiskType="SYNC_FLUSH")
    answers = await asyncio.gather(*(talk.send_ok("orders", b"%d" % i) for i in range(50)))
    ends = [parse_offset_id(a.fields["msgId"])[1] for a in answers]
    assert talk.broker.store.flushed_offset > max(ends)
    assert talk.broker.acknowledge.waiting == 0


async def test_a_flush_that_takes_too_long_is_told(talk_to: Starter, monkeypatch: pytest.MonkeyPatch) -> None:
    talk = await talk_to(flushDiskType="SYNC_FLUSH")
    monkeypatch.setattr(talk.broker.store.flusher, "gather", lambda end, done: done(False))
    assert (await talk.send("orders")).code == ResponseCode.FLUSH_DISK_TIMEOUT
    assert (await talk.send("orders", properties="WAIT\x01false\x02")).code == 0
    assert len(await talk.units("orders")) == 2


async def test_more_sends_than_may_wait_for_the_flush_are_told_to_come_later(
    talk_to: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = await talk_to(flushDiskType="SYNC_FLUSH", sendThreadPoolQueueCapacity=2)
    await talk.send_ok("orders")
    held = []
    monkeypatch.setattr(talk.broker.store.flusher, "gather", lambda end, done: held.append(done))
    waiting = [asyncio.ensure_future(talk.send("orders")) for _ in range(3)]
    [refused], _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert (refused.result().code, len(held)) == (ResponseCode.SYSTEM_BUSY, 2)
    assert refused.result().remark == "[OVERLOAD]system busy, start flow control for a while"
    connection = await talk.client.connection(talk.address)
    connection.oneway(Command(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"never refused"))
    for done in held:
        done(True)
    await asyncio.gather(*waiting)
    monkeypatch.setattr(talk.broker.store.flusher, "gather", lambda end, done: done(True))
    await talk.send_ok("orders")
    assert b"never refused" in [u.body for u in await talk.units("orders")]


RETRY = "%RETRY%consumers"


async def test_a_message_retried_too_often_goes_to_the_dead_letters(talk: Talk) -> None:
    await talk.send_ok(RETRY, reconsume_times=15)
    await talk.send_ok(RETRY, reconsume_times=16)
    await talk.send_ok(RETRY, reconsume_times=3, max_reconsume_times=3, properties="DELAY\x014\x02A\x011\x02")
    dead = await talk.units("%DLQ%consumers")
    assert [u.reconsume_times for u in dead] == [16, 3]
    assert b"DELAY" not in dead[1].properties
    assert len(await talk.units(RETRY)) == 1


async def test_a_group_that_does_not_exist_gets_no_retries(talk_to: Starter) -> None:
    talk = await talk_to(autoCreateSubscriptionGroup=False)
    assert (await talk.send(RETRY)).code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


async def test_transactions_may_be_refused(talk_to: Starter) -> None:
    talk = await talk_to(rejectTransactionMessage=True)
    answer = await talk.send("orders", properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02")
    assert (answer.code, answer.remark) == (
        16,
        "the broker[127.0.0.1] sending transaction message is forbidden",
    )


async def test_the_vip_port_takes_sends_but_no_pulls(tmp_path: Path) -> None:
    port = free_port(-2)
    async with Talk.to(small_broker(tmp_path, listenPort=port)) as talk:
        vip = f"127.0.0.1:{port - 2}"
        answer = await talk.client.request(vip, Command(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"v"), 10)
        assert answer.code == 0
        pulled = await talk.client.request(vip, Command(RequestCode.PULL_MESSAGE, {}), 10)
        assert pulled.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED


async def test_a_synchronous_master_without_a_slave_stores_and_says_that_there_is_none(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path, brokerRole="SYNC_MASTER")) as talk:
        assert (await talk.send("orders")).code == ResponseCode.SLAVE_NOT_AVAILABLE
        assert (await talk.send("orders", properties="WAIT\x01false")).code == ResponseCode.SUCCESS
