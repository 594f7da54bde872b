"""What a consumer does with a delivery: the four outcomes, failures, leases, fences."""

from typing import Any

import pytest
from sqlalchemy import insert, select, update
from sqlalchemy.orm import Session

from ariane import ConsumeStatus, Delivery, MessageQueue
from ariane.env import ManualClock
from ariane.guarantee import Guarantee, GuaranteeError, Idempotence, Outcome, StubStatus
from ariane.guarantee.idempotence import token_key
from ariane.guarantee.tables import message_log, message_stub
from ariane.guarantee.tokens import RedisTokens
from tests.guarantee.bank import book, bookings
from tests.guarantee.conftest import Make
from tests.guarantee.deliveries import delivery
from tests.guarantee.servers import Redis
from tests.peers import unique


def stage(guarantee: Guarantee, topic: str = "orders") -> str:
    with Session(guarantee.engine) as session, session.begin():
        return guarantee.stage(session, topic, b"100", message_id=unique("m"))


def state(guarantee: Guarantee, message_id: str) -> StubStatus:
    [found] = guarantee.inspect(message_id)
    return found.stub.status


def logged(guarantee: Guarantee, message_id: str) -> bool:
    with guarantee.engine.connect() as connection:
        rows = connection.execute(select(message_log).where(message_log.c.message_id == message_id))
        return bool(rows.all())


def set_token(cache: str | None, message_id: str, owner: str = "somebody") -> None:
    """Let another consumer hold the token."""
    assert cache is not None
    tokens = RedisTokens(cache)
    assert tokens.acquire(token_key("billing", message_id), owner, 60)
    tokens.close()


def booking(message: Any, session: Session) -> None:
    book(session, message.properties["GUARANTEE_ID"])


def test_a_won_token_and_an_unconfirmed_stub_mean_work(make: Make, cache: str | None) -> None:
    guarantee = make(cache=cache)
    message_id = stage(guarantee)
    seen_in_log = []

    def handle(message: Any, session: Session) -> None:
        seen_in_log.append(logged_within(session, message_id))
        booking(message, session)

    assert guarantee.process(delivery(message_id), handle).outcome is Outcome.DONE
    assert seen_in_log == [True]
    assert bookings(guarantee.engine) == [message_id]
    assert state(guarantee, message_id) is StubStatus.CONFIRMED
    assert not logged(guarantee, message_id)


def logged_within(session: Session, message_id: str) -> bool:
    return bool(session.execute(select(message_log).where(message_log.c.message_id == message_id)).all())


def test_a_confirmed_stub_means_success_though_the_token_was_won(make: Make, redis: Redis) -> None:
    guarantee = make(cache=redis.url)
    message_id = stage(guarantee)
    guarantee.process(delivery(message_id), booking)
    forget = RedisTokens(redis.url)
    forget._redis.delete(token_key("billing", message_id))
    forget.close()
    assert guarantee.process(delivery(message_id), booking).outcome is Outcome.DUPLICATE
    assert bookings(guarantee.engine) == [message_id]
    assert not logged(guarantee, message_id)


def test_a_confirmed_stub_means_success_when_the_token_is_lost(make: Make, cache: str | None) -> None:
    guarantee = make(cache=cache)
    message_id = stage(guarantee)
    guarantee.process(delivery(message_id), booking)
    assert guarantee.process(delivery(message_id), booking).outcome is Outcome.DUPLICATE
    assert bookings(guarantee.engine) == [message_id]
    assert not logged(guarantee, message_id)


def test_a_message_that_another_consumer_works_on_comes_again_later(make: Make, cache: str | None) -> None:
    guarantee = make(cache=cache, lease=60)
    message_id = stage(guarantee)
    listener = guarantee.listener(booking)
    told = Delivery(MessageQueue("orders", "broker-a", 0))
    inner: list[ConsumeStatus] = []

    def slow(message: Any) -> None:
        inner.append(listener([delivery(message_id)], told))

    assert guarantee.process(delivery(message_id), slow).outcome is Outcome.DONE
    assert inner == [ConsumeStatus.RECONSUME_LATER]
    assert told.delay_level == 5  # one minute: the lease has run out then
    assert bookings(guarantee.engine) == []


def test_a_token_held_by_a_dead_consumer_is_taken_over_when_its_lease_ends(make: Make, cache: str | None) -> None:
    clock = ManualClock()
    guarantee = make(cache=cache, lease=0.001 if cache else 60, clock=clock)
    message_id = stage(guarantee)

    def die(message: Any, session: Session) -> None:
        book(session, "half done")
        raise SystemExit  # what a kill leaves: no failure is recorded, the transaction ends with the connection

    with pytest.raises(SystemExit):
        guarantee.process(delivery(message_id), die)
    assert state(guarantee, message_id) is StubStatus.UNCONFIRMED
    assert logged(guarantee, message_id)
    if not cache:
        assert guarantee.process(delivery(message_id), booking).outcome is Outcome.BUSY
    clock.advance(61)
    outcome = guarantee.process(delivery(message_id), booking).outcome
    while outcome is Outcome.BUSY:  # Redis has a clock of its own, and a millisecond to wait
        outcome = guarantee.process(delivery(message_id), booking).outcome
    assert outcome is Outcome.DONE
    assert bookings(guarantee.engine) == [message_id]


def test_the_documents_way_acknowledges_a_dead_consumers_message_and_loses_it(make: Make, cache: str | None) -> None:
    guarantee = make(cache=cache, idempotence=Idempotence.DOCUMENTS)
    message_id = stage(guarantee)

    def die(message: Any) -> None:
        raise SystemExit

    with pytest.raises(SystemExit):
        guarantee.process(delivery(message_id), die)
    told = Delivery(MessageQueue("orders", "broker-a", 0))
    assert guarantee.listener(booking)([delivery(message_id)], told) is ConsumeStatus.CONSUME_SUCCESS
    assert bookings(guarantee.engine) == []
    assert state(guarantee, message_id) is StubStatus.UNCONFIRMED
    assert logged(guarantee, message_id)  # so that no resender would ever send it


def test_the_documents_way_has_the_other_three_outcomes(make: Make, cache: str | None) -> None:
    guarantee = make(cache=cache, idempotence=Idempotence.DOCUMENTS)
    message_id = stage(guarantee)

    def fail(message: Any) -> None:
        raise ValueError("no money")

    assert guarantee.process(delivery(message_id), fail).outcome is Outcome.FAILED
    assert guarantee.process(delivery(message_id), booking).outcome is Outcome.DONE
    assert guarantee.process(delivery(message_id), booking).outcome is Outcome.DUPLICATE
    assert bookings(guarantee.engine) == [message_id]
    assert not logged(guarantee, message_id)


@pytest.mark.parametrize("joined", [True, False])
def test_a_failure_rolls_back_and_gives_the_token_back(make: Make, cache: str | None, joined: bool) -> None:
    guarantee = make(cache=cache)
    message_id = stage(guarantee)

    def fail_joined(message: Any, session: Session) -> None:
        booking(message, session)
        raise ValueError("no money")

    def fail(message: Any) -> ConsumeStatus:
        return ConsumeStatus.RECONSUME_LATER

    settled = guarantee.process(delivery(message_id), fail_joined if joined else fail)
    assert settled.outcome is Outcome.FAILED
    assert bookings(guarantee.engine) == []
    assert logged(guarantee, message_id)  # the broker delivers it again: no reason to resend it
    assert guarantee.process(delivery(message_id), booking).outcome is Outcome.DONE
    assert bookings(guarantee.engine) == [message_id]


def test_the_last_failure_makes_a_dead_letter_that_a_person_is_told_of(make: Make) -> None:
    guarantee = make(max_reconsume_times=3)
    message_id = stage(guarantee)
    told = Delivery(MessageQueue("orders", "broker-a", 0))

    def fail(message: Any) -> None:
        raise ValueError("no money")

    listener = guarantee.listener(fail)
    assert listener([delivery(message_id, reconsume_times=2)], told) is ConsumeStatus.RECONSUME_LATER
    assert told.delay_level == 0
    assert guarantee.stubs(attention=True) == []
    assert listener([delivery(message_id, reconsume_times=3)], told) is ConsumeStatus.RECONSUME_LATER
    assert told.delay_level == -1
    [stub] = guarantee.stubs(attention=True)
    assert stub.attention == "dead letter: failed 4 times, last with ValueError: no money"


def test_a_zombies_late_success_is_rolled_back(make: Make) -> None:
    clock = ManualClock()
    guarantee = make(lease=10, clock=clock)
    message_id = stage(guarantee)
    outcomes = []

    def paused(message: Any, session: Session) -> None:
        clock.advance(11)  # the process stood still, and another consumer got the message
        outcomes.append(guarantee_of_another.process(delivery(message_id), booking).outcome)
        book(session, "zombie")

    guarantee_of_another = make(lease=10, clock=clock)
    if guarantee.engine.dialect.name == "sqlite":  # one writer: the other would wait for the zombie's transaction
        outcomes.append(Outcome.DONE)

        def paused(message: Any) -> None:  # type: ignore[misc]
            clock.advance(11)
            guarantee_of_another.process(delivery(message_id), booking)

    assert guarantee.process(delivery(message_id), paused).outcome is Outcome.LOST_LEASE
    assert outcomes == [Outcome.DONE]
    assert bookings(guarantee.engine) == [message_id]
    assert state(guarantee, message_id) is StubStatus.CONFIRMED


def test_a_zombie_cannot_confirm_while_another_works(make: Make) -> None:
    clock = ManualClock()
    guarantee, other = make(lease=10, clock=clock), make(lease=10, clock=clock)
    message_id = stage(guarantee)
    zombie: list[Outcome] = []

    def taken_over(message: Any) -> None:
        clock.advance(11)
        with pytest.raises(SystemExit):
            other.process(delivery(message_id), dies)

    def dies(message: Any) -> None:
        raise SystemExit

    zombie.append(guarantee.process(delivery(message_id), taken_over).outcome)
    assert zombie == [Outcome.LOST_LEASE]
    assert state(guarantee, message_id) is StubStatus.UNCONFIRMED


def test_a_void_message_is_not_done_and_a_consumer_at_work_is_fenced_off(make: Make) -> None:
    guarantee = make()
    first, second = stage(guarantee), stage(guarantee)
    guarantee.void(first, who="ann", reason="sent by mistake")
    assert guarantee.process(delivery(first), booking).outcome is Outcome.VOID

    def voided_meanwhile(message: Any) -> None:
        guarantee.void(second, who="ann", reason="sent by mistake")

    assert guarantee.process(delivery(second), voided_meanwhile).outcome is Outcome.LOST_LEASE
    assert state(guarantee, second) is StubStatus.VOID
    assert bookings(guarantee.engine) == []


def test_each_group_does_the_message_once(make: Make, cache: str | None) -> None:
    guarantee = make(cache=cache, consumers={"orders": ["billing", "audit"]})
    message_id = stage(guarantee)
    for group in ("billing", "audit", "billing", "audit"):
        guarantee.process(delivery(message_id), booking, group=group)
    assert bookings(guarantee.engine) == [message_id, message_id]
    with pytest.raises(GuaranteeError, match="say which one consumes here"):
        guarantee.process(delivery(message_id), booking)


def test_a_message_without_a_stub_comes_again(make: Make, cache: str | None) -> None:
    guarantee = make(cache=cache)
    assert guarantee.process(delivery("unknown"), booking).outcome is Outcome.NO_STUB
    assert not logged(guarantee, "unknown")
    assert bookings(guarantee.engine) == []


def test_a_message_of_a_plain_producer_is_done_without_a_guarantee(make: Make) -> None:
    guarantee = make()

    def handle(message: Any, session: Session) -> None:
        book(session, "plain")

    def fail(message: Any, session: Session) -> None:
        book(session, "plain")
        raise ValueError

    assert guarantee.process(delivery(None), fail).outcome is Outcome.FAILED
    assert guarantee.process(delivery(None), handle).outcome is Outcome.PLAIN
    assert bookings(guarantee.engine) == ["plain"]


def test_a_handler_cannot_commit_before_the_confirmation(make: Make) -> None:
    guarantee = make()
    message_id = stage(guarantee)

    def commits(message: Any, session: Session) -> None:
        book(session, "too early")
        session.commit()

    def uses_a_savepoint(message: Any, session: Session) -> None:
        with session.begin_nested():
            booking(message, session)

    settled = guarantee.process(delivery(message_id), commits)
    assert settled.outcome is Outcome.FAILED
    assert isinstance(settled.error, GuaranteeError)
    assert guarantee.process(delivery(message_id), uses_a_savepoint).outcome is Outcome.DONE
    assert bookings(guarantee.engine) == [message_id]


def test_a_batch_with_a_failure_comes_again_whole_and_nothing_is_done_twice(make: Make) -> None:
    guarantee = make()
    ids = [stage(guarantee) for _ in range(3)]
    failing = {ids[1]}

    def handle(message: Any, session: Session) -> None:
        if message.properties["GUARANTEE_ID"] in failing:
            raise ValueError("not now")
        booking(message, session)

    told = Delivery(MessageQueue("orders", "broker-a", 0))
    listener = guarantee.listener(handle)
    assert listener([delivery(i) for i in ids], told) is ConsumeStatus.RECONSUME_LATER
    assert told.delay_level == 0
    failing.clear()
    assert listener([delivery(i) for i in ids], told) is ConsumeStatus.CONSUME_SUCCESS
    assert sorted(bookings(guarantee.engine)) == sorted(ids)


def test_the_database_decides_when_the_cache_is_away(make: Make) -> None:
    server = Redis()
    with server:
        guarantee = make(cache=server.url)
        first, second = stage(guarantee), stage(guarantee)
        guarantee.process(delivery(first), booking)
        server.kill()
        assert guarantee.process(delivery(first), booking).outcome is Outcome.DUPLICATE

        def busy(message: Any) -> None:
            assert guarantee.process(delivery(second), booking).outcome is Outcome.BUSY

        assert guarantee.process(delivery(second), busy).outcome is Outcome.DONE


def test_a_flushed_cache_does_not_let_a_second_consumer_in(make: Make, redis: Redis) -> None:
    guarantee = make(cache=redis.url)
    message_id = stage(guarantee)

    def flushed_meanwhile(message: Any) -> None:
        tokens = RedisTokens(redis.url)
        tokens._redis.flushall()
        tokens.close()
        assert guarantee.process(delivery(message_id), booking).outcome is Outcome.BUSY

    assert guarantee.process(delivery(message_id), flushed_meanwhile).outcome is Outcome.DONE


def test_a_token_of_another_consumer_spares_the_database_the_claim(make: Make, redis: Redis) -> None:
    guarantee = make(cache=redis.url)
    message_id = stage(guarantee)
    set_token(redis.url, message_id)
    assert guarantee.process(delivery(message_id), booking).outcome is Outcome.BUSY
    [found] = guarantee.inspect(message_id)
    assert found.stub.lease_owner is None


def test_an_error_of_the_database_leaves_the_message_to_the_next_delivery(make: Make, cache: str | None) -> None:
    guarantee = make(cache=cache)
    message_id = stage(guarantee)

    def breaks(message: Any, session: Session) -> None:
        session.execute(insert(message_stub).values(message_id=message_id, consumer_group="billing"))

    assert guarantee.process(delivery(message_id), breaks).outcome is Outcome.FAILED
    assert guarantee.process(delivery(message_id), booking).outcome is Outcome.DONE
    assert bookings(guarantee.engine) == [message_id]


def test_a_lease_says_who_holds_it(make: Make) -> None:
    guarantee = make(lease=60)
    message_id = stage(guarantee)
    held = []

    def look(message: Any) -> None:
        held.append(guarantee.inspect(message_id)[0].stub)

    guarantee.process(delivery(message_id), look)
    [stub] = held
    assert stub.lease_owner is not None
    assert stub.lease_until is not None
    assert stub.lease_until > stub.created
    with guarantee.engine.begin() as connection:
        connection.execute(update(message_stub).values(status=StubStatus.UNCONFIRMED))
    guarantee.process(delivery(message_id), look)
    assert held[1].lease_owner != stub.lease_owner
