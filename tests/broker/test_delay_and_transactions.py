"""Delayed, retried, transactional and replied messages through a running broker whose clock the test moves."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from ariane.broker.server import Broker
from ariane.broker.transactions.half_messages import CHECK_GROUP
from ariane.broker.unit_copy import properties_of
from ariane.env import Env, ManualClock
from ariane.message import (
    CHECK_MAX_TIME_TOPIC,
    CORRELATION_ID,
    HALF_TOPIC,
    ORIGIN_MESSAGE_ID,
    PRODUCER_GROUP,
    PUSH_REPLY_TIME,
    REPLY_TO_CLIENT,
    RETRY_TOPIC,
    SCHEDULE_TOPIC,
    TRANSACTION_PREPARED,
    UNIQUE_KEY,
)
from ariane.protocol import fastjson
from ariane.protocol.codes import RESEND_DEAD_LETTERS, RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    CheckTransactionStateRequest,
    ConsumerSendMsgBackRequest,
    EndTransactionRequest,
)
from ariane.protocol.ids import parse_offset_id
from ariane.protocol.properties import decode_properties, encode_properties
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_NOT, TRANSACTION_ROLLBACK, Unit, decode_units
from tests.broker.talk import PATIENCE, Talk, pull_fields, send_fields, small_broker

PREPARED = {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: "producers"}
SUSPEND = 2


def clock_of(talk: Talk) -> ManualClock:
    clock = talk.broker.env.clock
    assert isinstance(clock, ManualClock)
    return clock


async def arrival(talk: Talk, topic: str, queue_id: int = 0, offset: int = 0) -> list[Unit]:
    """Wait for a message by a pull that is parked until it comes."""
    fields = pull_fields(topic, queue_id, offset, sys_flag=4 | SUSPEND, suspend_timeout_millis=3_600_000)
    answer = await talk.ask(RequestCode.PULL_MESSAGE, fields)
    return decode_units(answer.body)


async def after(talk: Talk, seconds: float, topic: str, queue_id: int = 0, offset: int = 0) -> list[Unit]:
    """Park a pull, move the clock, and see what comes."""
    waiting = asyncio.ensure_future(arrival(talk, topic, queue_id, offset))
    await until(lambda: len(talk.broker.longpoll) > 0)
    await pass_time(talk, seconds)
    return await waiting


async def pass_time(talk: Talk, seconds: float) -> None:
    """Move the clock in small steps, with room for what they wake."""
    for _ in range(10):
        await settle()
        clock_of(talk).advance(seconds / 10)
    await settle()


async def pass_time_until(talk: Talk, seconds: float, condition: Callable[[], object]) -> None:
    """Let this time pass, again and again: work that a busy machine has not begun yet misses the first."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await pass_time(talk, seconds)


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


async def until(condition: Callable[[], bool]) -> None:
    """Let the loop turn until something is so; the sockets in between are real, so how many turns is not known."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await settle()


def timed_broker(store: Path, clock: ManualClock, **options: Any) -> Broker:
    return small_broker(store, env=Env(clock=clock), **options)


@pytest.fixture
async def timed(tmp_path: Path) -> AsyncIterator[Talk]:
    """A talk with a broker whose clock stands still unless the test moves it."""
    async with Talk.to(timed_broker(tmp_path / "store", ManualClock())) as talk:
        yield talk


def properties(**values: Any) -> str:
    return encode_properties({name: str(value) for name, value in values.items()})


async def send_half(talk: Talk, topic: str, key: str) -> Command:
    text = encode_properties({**PREPARED, UNIQUE_KEY: key})
    return await talk.send_ok(topic, key.encode(), properties=text, sys_flag=4)


def decision(sent: Command, key: str, state: int, **changes: Any) -> dict[str, str]:
    values: dict[str, Any] = {
        "producer_group": "producers",
        "tran_state_table_offset": int(sent.fields["queueOffset"]),
        "commit_log_offset": parse_offset_id(sent.fields["msgId"])[1],
        "commit_or_rollback": state,
        "msg_id": key,
        **changes,
    }
    return EndTransactionRequest(**values).fields()


# Delay.


async def test_a_delayed_message_arrives_when_due(timed: Talk) -> None:
    await timed.send_ok("orders", b"now")
    sent = await timed.send_ok("orders", b"later", properties=properties(DELAY=1))
    assert sent.fields["queueId"] == "0"
    [first] = await timed.units("orders")
    assert first.body == b"now"
    await pass_time(timed, 0.99)
    assert len(await timed.units("orders")) == 1
    [late] = await after(timed, 0.02, "orders", offset=1)
    assert late.body == b"later"
    assert late.store_time - first.store_time >= 1000


async def test_a_delayed_message_survives_a_restart(tmp_path: Path) -> None:
    clock = ManualClock()
    async with Talk.to(timed_broker(tmp_path / "store", clock)) as talk:
        await talk.send_ok("orders", b"first", properties=properties(DELAY=1))
        await talk.send_ok("orders", b"second", properties=properties(DELAY=3))
        await after(talk, 1.1, "orders")
    kept = fastjson.loads((tmp_path / "store/config/delayOffset.json").read_bytes())
    assert kept == {"offsetTable": {"1": 1}}
    clock.advance(20)
    async with Talk.to(timed_broker(tmp_path / "store", clock)) as talk:
        units = await arrival(talk, "orders", offset=1)
        assert [unit.body for unit in units] == [b"second"]
        assert talk.broker.detours.delay.offsets() == {1: 1, 3: 1}


async def test_delay_offsets_are_kept_only_when_the_deliveries_are_on_the_disk(
    timed: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = Path(timed.broker.options.store_path_root_dir) / "config/delayOffset.json"
    await timed.send_ok("orders", b"late", properties=properties(DELAY=1))
    await after(timed, 1.1, "orders")
    with monkeypatch.context() as patch:
        patch.setattr(timed.broker.store.flusher, "wait", lambda _, done: done(False))
        await timed.broker.detours.progress.save()
        assert not file.exists()
    await timed.broker.detours.progress.save()
    assert fastjson.loads(file.read_bytes()) == {"offsetTable": {"1": 1}}


async def test_a_store_that_refuses_makes_a_delivery_late_not_lost(timed: Talk) -> None:
    await timed.send_ok("orders", b"late", properties=properties(DELAY=1))
    timed.broker.store.health.fail("test", "the disk is full")
    await pass_time(timed, 5)
    assert await timed.units("orders") == []
    timed.broker.store.health.clear("test")
    assert [unit.body for unit in await after(timed, 1, "orders")] == [b"late"]


async def test_a_lower_limit_for_messages_does_not_concern_those_that_are_stored(timed: Talk) -> None:
    late, half, again = b"late" * 500, "half" * 500, b"again" * 500
    await timed.send_ok("orders", late, properties=properties(DELAY=1))
    sent = await send_half(timed, "orders", half)
    await timed.send_ok("other", again)
    timed.broker.change_options(timed.broker.options.updated("maxMessageSize", "1000"))
    refused = await timed.ask(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), late)
    assert refused.code == ResponseCode.MESSAGE_ILLEGAL
    [message] = await after(timed, 1.1, "orders")
    assert message.body == late
    answer = await timed.ask(RequestCode.END_TRANSACTION, decision(sent, half, TRANSACTION_COMMIT))
    assert answer.code == 0
    [message] = await arrival(timed, "orders", offset=1)
    assert message.body == half.encode()
    [stored] = await timed.units("other")
    answer = await timed.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(stored.physical_offset))
    assert answer.code == 0
    [message] = await after(timed, 11, "%RETRY%workers")
    assert message.body == again


async def test_a_lower_limit_for_messages_does_not_stop_the_checks_of_transactions(timed: Talk) -> None:
    await timed.heartbeat(producer="producers")
    keys = {"large" * 500, "small"}
    for key in sorted(keys):
        await send_half(timed, "orders", key)
    timed.broker.change_options(timed.broker.options.updated("maxMessageSize", "1000"))
    await pass_time_until(timed, 61, lambda: len(timed.received) >= 2)
    assert {decode_units(question.body)[0].body.decode() for question in timed.received} == keys


# Retry.


def back(offset: int, **changes: Any) -> dict[str, str]:
    values = {"offset": offset, "group": "workers", "delay_level": 0, "max_reconsume_times": 16, **changes}
    return ConsumerSendMsgBackRequest(**values).fields()


async def test_a_message_sent_back_returns_by_the_retry_topic(timed: Talk) -> None:
    sent = await timed.send_ok("orders", b"try me")
    place = parse_offset_id(sent.fields["msgId"])[1]
    await timed.heartbeat("workers", {"orders": "*"})
    answer = await timed.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(place))
    assert answer.code == 0
    assert timed.broker.store.max_offset(SCHEDULE_TOPIC, 2) == 1
    [unit] = await after(timed, 10, "%RETRY%workers")
    found = properties_of(unit)
    assert (unit.body, unit.reconsume_times) == (b"try me", 1)
    assert (found[RETRY_TOPIC], found[ORIGIN_MESSAGE_ID]) == ("orders", sent.fields["msgId"])


async def test_the_last_failure_makes_a_dead_letter_that_can_be_sent_again(timed: Talk) -> None:
    sent = await timed.send_ok("orders", b"poison")
    place = parse_offset_id(sent.fields["msgId"])[1]
    answer = await timed.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(place, max_reconsume_times=0))
    assert answer.code == 0
    [letter] = await timed.units("%DLQ%workers")
    assert (letter.body, letter.reconsume_times) == (b"poison", 1)
    assert [config.perm for config in timed.broker.topics if config.topic_name == "%DLQ%workers"] == [6]
    again = await timed.ask(RESEND_DEAD_LETTERS, {"consumerGroup": "workers", "offset": "0"})
    [row] = fastjson.loads(again.body)["resent"]
    [unit] = await timed.units("orders", row["queueId"], row["queueOffset"])
    assert (row["topic"], unit.body, unit.reconsume_times) == ("orders", b"poison", 0)
    assert RETRY_TOPIC not in properties_of(unit)


async def test_a_dead_letter_cannot_name_a_topic_of_the_brokers_own(timed: Talk) -> None:
    await timed.send_ok("orders", sys_flag=4, properties="TRAN_MSG\x01true\x02PGROUP\x01p\x02")  # the topic exists now
    sent = await timed.send_ok("orders", properties=f"{RETRY_TOPIC}\x01RMQ_SYS_TRANS_HALF_TOPIC\x02")
    place = parse_offset_id(sent.fields["msgId"])[1]
    answer = await timed.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(place, max_reconsume_times=0))
    assert answer.code == 0
    again = await timed.ask(RESEND_DEAD_LETTERS, {"consumerGroup": "workers", "offset": "0"})
    assert again.code == ResponseCode.NO_PERMISSION


async def test_with_sync_flush_a_message_is_taken_back_when_its_copy_is_on_the_disk(tmp_path: Path) -> None:
    broker = small_broker(tmp_path / "store", flushDiskType="SYNC_FLUSH")
    async with Talk.to(broker) as talk:
        sent = await talk.send_ok("orders", b"again")
        place = parse_offset_id(sent.fields["msgId"])[1]
        assert (await talk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(place))).code == 0
        assert broker.store.flushed_offset == broker.store.log_max


async def test_dead_letters_may_be_for_writing_only(tmp_path: Path) -> None:
    broker = small_broker(tmp_path / "store", dlqTopicPerm=2)
    async with Talk.to(broker) as talk:
        sent = await talk.send_ok("orders", b"poison")
        place = parse_offset_id(sent.fields["msgId"])[1]
        await talk.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(place, max_reconsume_times=0))
        assert (await talk.pull("%DLQ%workers")).code == ResponseCode.NO_PERMISSION


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"offset": -1}, ResponseCode.SYSTEM_ERROR),
        ({"offset": 7}, ResponseCode.SYSTEM_ERROR),
        ({"offset": (1 << 63) - 1}, ResponseCode.SYSTEM_ERROR),
        ({"group": "../../up"}, ResponseCode.SYSTEM_ERROR),
    ],
)
async def test_what_cannot_be_taken_back_is_refused(timed: Talk, fields: dict[str, Any], code: int) -> None:
    await timed.send_ok("orders")
    answer = await timed.ask(RequestCode.CONSUMER_SEND_MSG_BACK, back(**{"offset": 0, **fields}))
    assert answer.code == code
    assert not any("up" in name for name in timed.broker.topics.names())


@pytest.mark.parametrize("offset", ["5", "-1", "9223372036854775807"])
async def test_letters_that_are_not_there_cannot_be_sent_again(timed: Talk, offset: str) -> None:
    answer = await timed.ask(RESEND_DEAD_LETTERS, {"consumerGroup": "workers", "offset": offset})
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


# Transactions.


async def test_a_transaction_is_seen_when_committed(timed: Talk) -> None:
    sent = await send_half(timed, "orders", "k1")
    assert await timed.units("orders") == []
    answer = await timed.ask(RequestCode.END_TRANSACTION, decision(sent, "k1", TRANSACTION_COMMIT))
    assert answer.code == 0
    [unit] = await timed.units("orders")
    assert (unit.body, unit.sys_flag & 0xC) == (b"k1", TRANSACTION_COMMIT)
    assert unit.prepared_offset == parse_offset_id(sent.fields["msgId"])[1]


async def test_a_decision_that_is_cut_off_is_asked_for_again(timed: Talk) -> None:
    """A leader that is replaced loses what it stored last: a front that counts it would hide the half message."""
    sent = await send_half(timed, "orders", "k1")
    end = timed.broker.store.log_max
    assert (await timed.ask(RequestCode.END_TRANSACTION, decision(sent, "k1", TRANSACTION_COMMIT))).code == 0
    timed.broker.store.truncate(end)
    await timed.broker.role.become_slave(1, 1)
    assert timed.broker.offsets.get(CHECK_GROUP, HALF_TOPIC, 0) <= 0
    await timed.broker.role.become_master(2)
    await timed.broker.detours.recovered()
    assert (await timed.ask(RequestCode.END_TRANSACTION, decision(sent, "k1", TRANSACTION_COMMIT))).code == 0
    assert [unit.body for unit in await timed.units("orders")] == [b"k1"]


async def test_a_transaction_rolled_back_is_never_seen(timed: Talk) -> None:
    sent = await send_half(timed, "orders", "k1")
    fields = decision(sent, "k1", TRANSACTION_ROLLBACK)
    assert (await timed.ask(RequestCode.END_TRANSACTION, fields)).code == 0
    late = await timed.ask(RequestCode.END_TRANSACTION, decision(sent, "k1", TRANSACTION_COMMIT))
    assert late.code == 0
    assert await timed.units("orders") == []


@pytest.mark.parametrize(
    "lie",
    [
        {"producer_group": "others"},
        {"tran_state_table_offset": 5},
        {"commit_log_offset": 1},
        {"commit_log_offset": -1},
        {"commit_or_rollback": 77},
        {"msg_id": "somebody else's"},
    ],
)
async def test_a_wrong_decision_decides_nothing(timed: Talk, lie: dict[str, Any]) -> None:
    sent = await send_half(timed, "orders", "k1")
    answer = await timed.ask(RequestCode.END_TRANSACTION, decision(sent, "k1", TRANSACTION_COMMIT, **lie))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert await timed.units("orders") == []
    assert (await timed.ask(RequestCode.END_TRANSACTION, decision(sent, "k1", TRANSACTION_COMMIT))).code == 0


async def test_an_undecided_transaction_is_asked_about_at_any_producer_of_the_group(timed: Talk) -> None:
    async with Talk.beside(timed.broker) as first:
        await first.heartbeat(producer="producers", client_id="first")
        sent = await send_half(first, "orders", "k1")
        await first.ask(RequestCode.END_TRANSACTION, decision(sent, "k1", TRANSACTION_NOT))
    await timed.heartbeat(producer="producers", client_id="second")
    await until(lambda: len(timed.broker.clients.producers("producers")) == 1)
    await pass_time_until(timed, 61, lambda: timed.received)
    [question, *_] = await timed.asked(RequestCode.CHECK_TRANSACTION_STATE)
    header = CheckTransactionStateRequest.parse(question.fields)
    assert question.is_oneway
    assert decode_units(question.body)[0].topic == b"orders"
    fields = EndTransactionRequest(
        "producers",
        header.tran_state_table_offset,
        header.commit_log_offset,
        TRANSACTION_COMMIT,
        header.msg_id or "",
        from_transaction_check=True,
    ).fields()
    assert (await timed.ask(RequestCode.END_TRANSACTION, fields)).code == 0
    assert [unit.body for unit in await timed.units("orders")] == [b"k1"]
    await pass_time(timed, 61)
    assert len(timed.received) == 1


async def test_a_transaction_given_up_can_be_taken_up_again(tmp_path: Path) -> None:
    async with Talk.to(timed_broker(tmp_path / "store", ManualClock(), transactionCheckMax=1)) as talk:
        await send_half(talk, "orders", "k1")
        await pass_time_until(talk, 61, lambda: talk.broker.store.max_offset(CHECK_MAX_TIME_TOPIC, 0))
        [given_up] = await talk.units(CHECK_MAX_TIME_TOPIC)
        place = given_up.store_host + given_up.physical_offset.to_bytes(8, "big")
        answer = await talk.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": place.hex().upper()})
        assert answer.code == 0
        await talk.heartbeat(producer="producers")
        await pass_time_until(talk, 61, lambda: talk.received)
        assert len(await talk.asked(RequestCode.CHECK_TRANSACTION_STATE)) >= 1


async def test_only_half_messages_can_be_resumed(timed: Talk) -> None:
    sent = await timed.send_ok("orders")
    for msg_id in (sent.fields["msgId"], "nonsense", "", "FF" * 16):
        answer = await timed.ask(RequestCode.RESUME_CHECK_HALF_MESSAGE, {"msgId": msg_id})
        assert answer.code == ResponseCode.SYSTEM_ERROR
    assert timed.broker.store.max_offset(HALF_TOPIC, 0) == 0


async def test_decisions_survive_a_restart(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path / "store")) as talk:
        done = await send_half(talk, "orders", "done")
        open_ = await send_half(talk, "orders", "open")
        await talk.ask(RequestCode.END_TRANSACTION, decision(done, "done", TRANSACTION_ROLLBACK))
    async with Talk.to(small_broker(tmp_path / "store")) as talk:
        for sent, key in ((done, "done"), (open_, "open")):
            fields = decision(sent, key, TRANSACTION_COMMIT)
            assert (await talk.ask(RequestCode.END_TRANSACTION, fields)).code == 0
        assert [unit.body for unit in await talk.units("orders")] == [b"open"]


# Request and reply.


def reply_fields(**values: str) -> dict[str, str]:
    text = encode_properties({CORRELATION_ID: "c1", **values})
    return send_fields("DefaultCluster_REPLY_TOPIC", properties=text)


async def test_decisions_wait_until_the_earlier_ones_could_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The op queue cannot be read at first: a second decision must not be taken as if there were no first."""
    async with Talk.to(timed_broker(tmp_path, ManualClock())) as talk:
        sent = await send_half(talk, "orders", "k1")
        await talk.ask(RequestCode.END_TRANSACTION, decision(sent, "k1", TRANSACTION_ROLLBACK))
    broker = timed_broker(tmp_path, clock := ManualClock())
    read, reads = broker.store.queue_entries, []

    def fails_once(*args: Any) -> Any:
        reads.append(args)
        if len(reads) == 1:
            raise OSError("the test says so")
        return read(*args)

    monkeypatch.setattr(broker.detours.check, "_store", Readable(broker.store, fails_once))
    async with Talk.to(broker) as talk:
        late = asyncio.ensure_future(talk.ask(RequestCode.END_TRANSACTION, decision(sent, "k1", TRANSACTION_COMMIT)))
        await until(lambda: len(reads) == 1 and not broker.detours.is_recovered)
        await settle()
        clock.advance(2)
        assert (await late).code == 0
        assert await talk.units("orders") == []


class Readable:
    """The store, with another way to read queue entries."""

    def __init__(self, store: Any, queue_entries: Callable[..., Any]) -> None:
        self._inner = store
        self.queue_entries = queue_entries

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


async def test_a_reply_goes_to_the_client_that_asked(timed: Talk) -> None:
    timed.answers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = lambda request: request.reply()
    await timed.heartbeat(producer="askers", client_id="asker")
    fields = reply_fields(**{REPLY_TO_CLIENT: "asker"})
    answer = await timed.ask(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"the answer")
    [pushed] = await timed.asked(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT)
    found = decode_properties(pushed.fields["properties"])
    assert (answer.code, pushed.body) == (0, b"the answer")
    assert (found[CORRELATION_ID], PUSH_REPLY_TIME in found) == ("c1", True)
    [stored] = await timed.units("DefaultCluster_REPLY_TOPIC")
    assert stored.body == b"the answer"
    assert answer.fields["queueOffset"] == "0"


@pytest.mark.parametrize("values", [{}, {REPLY_TO_CLIENT: "nobody"}])
async def test_a_reply_to_nobody_says_so(timed: Talk, values: dict[str, str]) -> None:
    answer = await timed.ask(RequestCode.SEND_REPLY_MESSAGE_V2, reply_fields(**values), b"x")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark


async def test_replies_need_not_be_stored(tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path / "store", storeReplyMessageEnable=False)) as talk:
        talk.answers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = lambda request: request.reply()
        await talk.heartbeat(producer="askers", client_id="asker")
        fields = reply_fields(**{REPLY_TO_CLIENT: "asker"})
        assert (await talk.ask(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"x")).fields["msgId"] == "0"
        assert await talk.units("DefaultCluster_REPLY_TOPIC") == []


async def test_a_client_that_refuses_the_reply_fails_it(timed: Talk) -> None:
    timed.answers[RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT] = lambda request: request.reply(1, remark="no")
    await timed.heartbeat(producer="askers", client_id="asker")
    fields = reply_fields(**{REPLY_TO_CLIENT: "asker"})
    answer = await timed.ask(RequestCode.SEND_REPLY_MESSAGE_V2, fields, b"x")
    assert answer.code == ResponseCode.SYSTEM_ERROR
