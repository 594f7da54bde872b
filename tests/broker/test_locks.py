"""Queue locks: one owner per group and queue, for as long as it keeps asking."""

from ariane.broker.tables.queue_locks import QueueLocks
from ariane.env import ManualClock
from ariane.message import MessageQueue
from ariane.protocol.bodies import LockBatchRequestBody, LockBatchResponseBody, QueueKey
from ariane.protocol.codes import RequestCode
from ariane.remoting import Refusals
from tests.broker.talk import Talk

QUEUES = [MessageQueue("orders", "broker-a", n) for n in range(4)]


def test_a_queue_has_one_owner_in_each_group() -> None:
    locks = QueueLocks(ManualClock(), 60_000, 100, Refusals())
    assert locks.lock("g", QUEUES[:2], "c1") == QUEUES[:2]
    assert locks.lock("g", QUEUES, "c2") == QUEUES[2:]
    assert locks.lock("other", QUEUES, "c2") == QUEUES
    assert locks.lock("g", QUEUES, "c1") == QUEUES[:2]


def test_a_lock_not_renewed_for_a_minute_is_anybodys() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock, 60_000, 100, Refusals())
    locks.lock("g", QUEUES[:2], "c1")
    clock.advance(40)
    locks.lock("g", QUEUES[:1], "c1")
    clock.advance(21)
    assert locks.lock("g", QUEUES[:2], "c2") == QUEUES[1:2]
    assert locks.owner("g", QUEUES[0]) == "c1"


def test_only_the_owner_unlocks() -> None:
    locks = QueueLocks(ManualClock(), 60_000, 100, Refusals())
    locks.lock("g", QUEUES[:2], "c1")
    locks.unlock("g", QUEUES, "c2")
    assert locks.lock("g", QUEUES[:2], "c2") == []
    locks.unlock("g", QUEUES[:1], "c1")
    assert locks.lock("g", QUEUES[:2], "c2") == QUEUES[:1]


def test_expired_locks_are_dropped() -> None:
    clock = ManualClock()
    locks = QueueLocks(clock, 60_000, 100, Refusals())
    locks.lock("g", QUEUES, "c1")
    clock.advance(40)
    locks.lock("g", QUEUES[:1], "c1")
    clock.advance(30)
    locks.expire()
    assert len(locks) == 1
    locks.unlock("g", QUEUES, "c1")
    assert len(locks) == 0


def test_locks_are_limited() -> None:
    clock = ManualClock()
    refusals = Refusals()
    locks = QueueLocks(clock, 60_000, 3, refusals)
    assert locks.lock("g", QUEUES, "c1") == QUEUES[:3]
    assert locks.lock("other", QUEUES, "c1") == []
    assert refusals.counts()["locks"] == 2 * len(QUEUES) - 3
    assert locks.lock("g", QUEUES, "c1") == QUEUES[:3]
    clock.advance(61)
    locks.expire()
    assert locks.lock("other", QUEUES, "c1") == QUEUES[:3]


async def test_locks_over_the_wire(talk: Talk) -> None:
    await talk.send_ok("orders")

    async def ask(code: int, client: str) -> list[QueueKey]:
        keys = [QueueKey.of(queue) for queue in QUEUES]
        answer = await talk.ask(code, None, LockBatchRequestBody("g", client, keys).encode())
        assert answer.code == 0
        return LockBatchResponseBody.decode(answer.body).lock_ok_mq_set if answer.body else []

    assert len(await ask(RequestCode.LOCK_BATCH_MQ, "c1")) == 4
    assert await ask(RequestCode.LOCK_BATCH_MQ, "c2") == []
    await ask(RequestCode.UNLOCK_BATCH_MQ, "c1")
    assert len(await ask(RequestCode.LOCK_BATCH_MQ, "c2")) == 4
