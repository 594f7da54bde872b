"""Half messages: decided once, by whoever they belong to, and asked about when nobody decides."""

import logging
from dataclasses import dataclass, field

import pytest

from ariane.broker.delay.delivery import make_delayed
from ariane.broker.transactions.check import TransactionCheck
from ariane.broker.transactions.half_messages import (
    CHECK_GROUP,
    Transactions,
    committed_message,
    is_prepared,
    make_half,
)
from ariane.broker.unit_copy import packed, properties_of
from ariane.env import ManualClock
from ariane.errors import ResponseError, SendFailed
from ariane.message import (
    CHECK_IMMUNITY_SECONDS,
    CHECK_MAX_TIME_TOPIC,
    DELAY,
    HALF_OP_TOPIC,
    HALF_TOPIC,
    PRODUCER_GROUP,
    REAL_QUEUE_ID,
    REAL_TOPIC,
    TAGS,
    TRANSACTION_CHECK_TIMES,
    TRANSACTION_PREPARED,
    TRANSACTION_PREPARED_QUEUE_OFFSET,
    UNIQUE_KEY,
)
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import CheckTransactionStateRequest, EndTransactionRequest
from ariane.protocol.ids import pack_host
from ariane.protocol.units import TRANSACTION_COMMIT, Unit, decode_unit
from ariane.protocol.units import TRANSACTION_PREPARED as PREPARED_FLAG
from ariane.store.batches import MAX_PROPERTIES
from ariane.store.results import PutStatus
from tests.broker.memory_log import MemoryLog

HOST = pack_host("127.0.0.1", 10911)


@dataclass
class Rules:
    transaction_time_out_ms: int = 6_000
    transaction_check_max: int = 15
    file_reserved_time_hours: int = 72


@dataclass
class Producer:
    asked: list[Command] = field(default_factory=list)
    gone: bool = False

    def oneway(self, command: Command) -> None:
        if self.gone:
            raise SendFailed("gone")
        self.asked.append(command)

    def keys(self) -> list[str | None]:
        return [CheckTransactionStateRequest.parse(command.fields).msg_id for command in self.asked]


class Offsets:
    def __init__(self) -> None:
        self.kept: dict[tuple[str, str, int], int] = {}

    def get(self, group: str, topic: str, queue_id: int) -> int:
        return self.kept.get((group, topic, queue_id), -1)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        self.kept[group, topic, queue_id] = offset


class World:
    """A half queue with everything around it."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.log = MemoryLog(self.clock)
        self.offsets = Offsets()
        self.rules = Rules()
        self.producer = Producer()
        self.online = True
        self.restart()

    def restart(self) -> None:
        """Forget all that is only in memory."""
        self.transactions = Transactions(self.log, self.log.put, host=lambda: HOST, now_ms=self.clock.now_ms)
        self.check = TransactionCheck(
            self.transactions.queue,
            self.log,
            self.log.put,
            self.offsets,
            lambda group, _: self.producer if group == "pg" and self.online else None,
            lambda: self.rules,
            self.clock,
        )
        self.check.load()

    def restart_clock(self) -> None:
        """Set the wall clock back to where the test began."""
        self.clock = ManualClock()
        self.restart()

    def send(self, key: str, **more: str) -> Unit:
        """A half message as it is stored."""
        properties = {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: "pg", UNIQUE_KEY: key, TAGS: "A", **more}
        unit = Unit(
            b"orders", key.encode(), packed(properties), queue_id=3, sys_flag=PREPARED_FLAG | 1, store_host=HOST
        )
        unit.born_time = self.clock.now_ms()
        make_half(unit)
        self.log.put(unit)
        return unit

    def decide(self, half: Unit, key: str | None = None) -> bool:
        """A rollback, say; False when it was decided before."""
        header = end(half, msg_id=key or properties_of(half)[UNIQUE_KEY])
        found = self.transactions.half_at(header)
        if self.transactions.is_decided(found):
            return False
        self.transactions.remove(found)
        return True

    async def round(self, seconds: float = 60) -> None:
        self.clock.advance(seconds)
        await self.check.round()

    def front(self, topic: str) -> int:
        return self.offsets.get(CHECK_GROUP, topic, 0)


def end(half: Unit, **changes: object) -> EndTransactionRequest:
    fields = {
        "producer_group": "pg",
        "tran_state_table_offset": half.queue_offset,
        "commit_log_offset": half.physical_offset,
        "commit_or_rollback": TRANSACTION_COMMIT,
        "msg_id": properties_of(half).get(UNIQUE_KEY, ""),
        **changes,
    }
    return EndTransactionRequest(**fields)  # type: ignore[arg-type]


@pytest.fixture
def world() -> World:
    return World()


def test_a_half_message_hides_its_topic_until_it_is_committed(world: World) -> None:
    half = world.send("k1")
    assert (half.topic, half.queue_id, half.sys_flag) == (HALF_TOPIC.encode(), 0, 1)
    message = committed_message(half)
    assert (message.topic, message.queue_id, message.body) == (b"orders", 3, b"k1")
    assert message.sys_flag == TRANSACTION_COMMIT | 1
    assert message.prepared_offset == half.physical_offset
    kept = {REAL_TOPIC: "orders", REAL_QUEUE_ID: "3", TRANSACTION_PREPARED: "true"}
    assert properties_of(message).items() >= kept.items()


def test_only_true_prepares() -> None:
    def says(value: str) -> bool:
        return is_prepared(Unit(b"t", b"", packed({TRANSACTION_PREPARED: value})))

    assert [says(value) for value in ("true", "TRUE", "false", "1")] == [True, True, False, False]
    assert not is_prepared(Unit(b"t", b""))


def test_a_delayed_transaction_is_delayed_when_committed(world: World) -> None:
    half = world.send("k1", **{DELAY: "2"})
    assert half.topic == HALF_TOPIC.encode()
    assert make_delayed(committed_message(half), 18) == 2


@pytest.mark.parametrize(
    "lie",
    [
        {"producer_group": "others"},
        {"tran_state_table_offset": 1},
        {"commit_log_offset": 0, "tran_state_table_offset": 1},
        {"commit_log_offset": 999_999},
        {"commit_log_offset": -1},
        {"msg_id": "of the message that lay here before the log was cut"},
    ],
)
def test_a_decision_must_know_what_it_decides(world: World, lie: dict[str, object]) -> None:
    world.send("k0")
    half = world.send("k1")
    header = end(half, **lie) if "tran_state_table_offset" not in lie else end(world.send("k2"), **lie)
    with pytest.raises(ResponseError):
        world.transactions.half_at(header)


def test_only_half_messages_can_be_decided(world: World) -> None:
    unit = Unit(b"orders", b"", packed({PRODUCER_GROUP: "pg", UNIQUE_KEY: "k"}), store_host=HOST)
    world.log.put(unit)
    with pytest.raises(ResponseError, match="Find prepared"):
        world.transactions.half_at(end(unit))


def test_the_first_decision_stands(world: World) -> None:
    half = world.send("k1")
    assert world.decide(half)
    assert not world.decide(half)
    [op] = world.log.units(HALF_OP_TOPIC)
    assert (op.body, properties_of(op)[TAGS]) == (b"0", "d")


async def test_a_message_object_sent_twice_is_two_transactions(world: World) -> None:
    first = world.send("k1")  # clients keep the unique key of a message; the same millisecond too
    second = world.send("k1")
    assert world.decide(first)
    assert world.decide(second)


async def test_a_decision_after_a_restart_is_on_one_of_two_transactions_with_the_same_key(world: World) -> None:
    first = world.send("k1")
    second = world.send("k1")
    assert world.decide(first)
    world.restart()
    await world.check.recover()
    assert not world.decide(first)
    assert world.decide(second)


async def test_a_half_message_does_not_pose_as_a_copy_of_another(world: World) -> None:
    victim = world.send("k1")
    assert world.decide(world.send("k2", **{TRANSACTION_PREPARED_QUEUE_OFFSET: "0"}))
    assert world.decide(victim)


async def test_a_duplicate_is_known_after_a_restart(world: World) -> None:
    half = world.send("k1")
    world.decide(half)
    await world.round()
    world.restart()
    await world.check.recover()
    assert not world.decide(half)


async def test_nobody_is_asked_before_the_time_out(world: World) -> None:
    world.send("k1")
    await world.round(5.999)
    assert world.producer.asked == []
    await world.round(0.001)
    assert world.producer.keys() == ["k1"]


async def test_the_question_shows_the_message_and_where_its_copy_lies(world: World) -> None:
    half = world.send("k1")
    await world.round()
    [command] = world.producer.asked
    header = CheckTransactionStateRequest.parse(command.fields)
    shown = decode_unit(command.body)
    copy = world.log.units(HALF_TOPIC)[1]
    assert command.code == RequestCode.CHECK_TRANSACTION_STATE
    assert (header.commit_log_offset, header.tran_state_table_offset) == (copy.physical_offset, 1)
    assert (header.transaction_id, header.msg_id) == ("k1", "k1")
    assert (shown.topic, shown.queue_id, shown.body, shown.born_time) == (b"orders", 3, b"k1", half.born_time)
    assert properties_of(copy)[TRANSACTION_CHECK_TIMES] == "1"
    assert world.transactions.half_at(end(copy)) is not None


async def test_the_decided_are_not_asked_about(world: World) -> None:
    halves = [world.send(f"k{i}") for i in range(5)]
    for half in (halves[0], halves[1], halves[3]):
        world.decide(half)
    await world.round()
    assert world.producer.keys() == ["k2", "k4"]
    assert (world.front(HALF_TOPIC), world.front(HALF_OP_TOPIC)) == (5, 3)


async def test_a_late_decision_on_the_original_also_settles_its_copy(world: World) -> None:
    half = world.send("k1")
    await world.round()
    assert world.decide(half)
    assert not world.decide(world.log.units(HALF_TOPIC)[1])
    await world.round()
    assert world.producer.keys() == ["k1"]


async def test_a_late_decision_settles_its_copy_after_a_restart_too(world: World) -> None:
    half = world.send("k1")
    await world.round()
    world.restart()
    await world.check.recover()
    assert world.decide(half)
    await world.round()
    assert world.producer.keys() == ["k1"]


async def test_a_decision_on_the_copy_settles_the_original(world: World) -> None:
    half = world.send("k1")
    await world.round()
    assert world.decide(world.log.units(HALF_TOPIC)[1])
    await world.round()
    assert len(world.producer.asked) == 1
    assert half.queue_offset < world.front(HALF_TOPIC)


async def test_after_the_last_check_it_is_moved_aside(world: World) -> None:
    world.rules.transaction_check_max = 3
    world.send("k1")
    for _ in range(6):
        await world.round()
    assert len(world.producer.asked) == 3
    [given_up] = world.log.units(CHECK_MAX_TIME_TOPIC)
    assert given_up.body == b"k1"
    assert world.front(HALF_TOPIC) == 4


async def test_an_old_half_message_is_moved_aside_unasked(world: World) -> None:
    world.send("k1")
    await world.round(73 * 3600)
    assert world.producer.asked == []
    assert len(world.log.units(CHECK_MAX_TIME_TOPIC)) == 1


async def test_immunity_puts_the_question_off_and_does_not_count(world: World) -> None:
    world.rules.transaction_check_max = 2
    world.send("immune", **{CHECK_IMMUNITY_SECONDS: "300"})
    world.send("plain")
    for _ in range(4):
        await world.round()
    assert set(world.producer.keys()) == {"plain"}
    newest = properties_of(world.log.units(HALF_TOPIC)[-1])
    assert newest[TRANSACTION_PREPARED_QUEUE_OFFSET] == "0"
    await world.round()
    assert world.producer.keys()[-1] == "immune"


async def test_a_decision_within_the_immunity_settles_the_copies(world: World) -> None:
    half = world.send("immune", **{CHECK_IMMUNITY_SECONDS: "100"})
    await world.round()
    world.decide(half)
    await world.round()
    assert world.producer.asked == []


@pytest.mark.parametrize(
    "nonsense",
    [{CHECK_IMMUNITY_SECONDS: "a while"}, {CHECK_IMMUNITY_SECONDS: "9" * 5000}, {TRANSACTION_CHECK_TIMES: "9" * 5000}],
)
async def test_nonsense_counts_as_none(world: World, nonsense: dict[str, str]) -> None:
    world.send("k1", **nonsense)
    await world.round(7)
    assert world.producer.keys() == ["k1"]


@pytest.mark.parametrize("immunity", [{}, {CHECK_IMMUNITY_SECONDS: "300"}])
async def test_a_half_message_without_room_for_more_properties_stops_nobody(
    world: World, immunity: dict[str, str]
) -> None:
    room = MAX_PROPERTIES - len(world.send("before", **immunity).properties) - len("\x02a\x01")
    full = world.send("filled", **{"a": "x" * room, **immunity})
    assert len(full.properties) == MAX_PROPERTIES
    world.send("after")
    await world.round()
    assert world.producer.keys()[-2:] == ["filled", "after"]
    assert world.front(HALF_TOPIC) == 3
    assert world.decide(full)
    assert [unit.body for unit in world.log.units(CHECK_MAX_TIME_TOPIC)] == [b"filled"]


async def test_without_a_producer_the_check_counts_and_another_is_asked_later(world: World) -> None:
    world.online = False
    world.send("k1")
    await world.round()
    world.online = True
    await world.round()
    assert world.producer.keys() == ["k1"]
    assert properties_of(world.log.units(HALF_TOPIC)[-1])[TRANSACTION_CHECK_TIMES] == "2"


@pytest.mark.parametrize("trouble", ["offline", "gone", "last check", "none"])
async def test_a_round_logs_one_line_however_many_half_messages_there_are(
    world: World, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    caplog.set_level(logging.INFO, "ariane.broker")
    world.online = trouble != "offline"
    world.producer.gone = trouble == "gone"
    if trouble == "last check":
        world.rules.transaction_check_max = 0
    for n in range(300):
        world.send(f"k{n}")
    await world.round()
    (line,) = caplog.messages
    assert "300" in line
    assert ("pg: 300" in line) == (trouble in ("offline", "gone"))


async def test_a_producer_that_just_left_stops_nobody(world: World) -> None:
    world.producer.gone = True
    world.send("k1")
    world.send("k2")
    await world.round()
    assert world.front(HALF_TOPIC) == 2


async def test_a_bad_half_message_never_stops_the_checking_of_others(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    def put(body: bytes, **properties: str) -> None:
        unit = Unit(HALF_TOPIC.encode(), body, packed(properties), store_host=HOST, born_time=world.clock.now_ms())
        world.log.put(unit)

    lost = world.send("lost")
    put(b"no group", **{REAL_TOPIC: "orders", REAL_QUEUE_ID: "0"})
    put(b"no topic", **{PRODUCER_GROUP: "pg", REAL_QUEUE_ID: "0"})
    put(b"bad queue", **{PRODUCER_GROUP: "pg", REAL_TOPIC: "orders", REAL_QUEUE_ID: "x"})
    put(b"path", **{PRODUCER_GROUP: "pg", REAL_TOPIC: "../x", REAL_QUEUE_ID: "0"})
    world.send("odd count", **{TRANSACTION_CHECK_TIMES: "many"})
    world.send("good")
    world.log.lose(lost.physical_offset)
    with caplog.at_level(logging.ERROR):
        await world.round()
    assert world.producer.keys() == ["odd count", "good"]
    assert [unit.body for unit in world.log.units(CHECK_MAX_TIME_TOPIC)] == [
        b"no group",
        b"no topic",
        b"bad queue",
        b"path",
    ]


async def test_when_nothing_can_be_stored_the_round_ends_and_nothing_is_skipped(world: World) -> None:
    world.send("k1")
    world.log.refuse = PutStatus.SERVICE_NOT_AVAILABLE
    await world.round()
    assert world.front(HALF_TOPIC) == 0
    world.log.refuse = None
    await world.round()
    assert world.producer.keys() == ["k1"]


async def test_a_clock_that_is_set_back_does_not_stop_the_checks(world: World) -> None:
    world.clock.advance(3600)
    world.send("k1")
    world.restart_clock()
    await world.round()
    assert world.producer.keys() == ["k1"]


async def test_expired_half_messages_are_jumped_over(world: World) -> None:
    for i in range(4):
        world.send(f"k{i}")
    world.log.expire(HALF_TOPIC, 0, 3)
    await world.round()
    assert world.producer.keys() == ["k3"]


async def test_a_producer_that_never_decides_is_asked_each_round(world: World) -> None:
    world.send("k1")
    for _ in range(3):
        await world.round()
    assert world.producer.keys() == ["k1"] * 3
    times = [properties_of(unit).get(TRANSACTION_CHECK_TIMES) for unit in world.log.units(HALF_TOPIC)]
    assert times == [None, "1", "2", "3"]
