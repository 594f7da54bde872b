"""A model of deliveries that crash between any two steps, come twice, outlive their lease, or fail."""

import shutil
import tempfile
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule, run_state_machine_as_test
from sqlalchemy import create_engine, func, select
from sqlalchemy import event as events
from sqlalchemy.orm import Session, sessionmaker

from ariane.env import ManualClock
from ariane.guarantee import GuaranteeOptions, Idempotence, Outcome, Settlement, StubStatus, metadata
from ariane.guarantee import idempotence as way
from ariane.guarantee.idempotence import acknowledges
from ariane.guarantee.operate import void
from ariane.guarantee.outbox import StagedMessage
from ariane.guarantee.tables import message_log, message_stub
from ariane.guarantee.threads import _Drive
from ariane.guarantee.tokens import RedisTokens
from tests.guarantee.bank import bank, book, booking
from tests.guarantee.deliveries import delivery
from tests.guarantee.servers import Redis

LEASE = 60.0
_numbers = count()


class World:
    """A database, a cache, a clock, and deliveries that can be stopped at any step."""

    def __init__(self, cache: str | None, mode: Idempotence = Idempotence.LEASE) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="ariane-model-"))
        self.engine = create_engine(f"sqlite:///{self._folder}/model.db")
        events.listen(self.engine, "connect", lambda c, _: c.execute("PRAGMA synchronous=OFF"))  # nobody cuts the power
        metadata.create_all(self.engine)
        bank.create_all(self.engine)
        self.clock = ManualClock()
        self.options = GuaranteeOptions(
            consumers={"orders": "billing"}, lease=LEASE, idempotence=mode, max_reconsume_times=1000
        )
        self.tokens = None if cache is None else RedisTokens(cache)
        self._held: set[str] = set()

    def close(self) -> None:
        self.engine.dispose()
        if self.tokens is not None:
            self.tokens.close()
        shutil.rmtree(self._folder)

    def stage(self) -> str:
        message_id = f"m{next(_numbers)}-{self._folder.name}"  # the cache is shared, and keeps tokens of other worlds
        with self.engine.begin() as connection:
            staged = StagedMessage.of("orders", b"", None, None, None, None, message_id)
            staged.write(connection, ["billing"], self.clock.now_ms(), self.clock.now_ms())
        self._held.add(way.token_key("billing", message_id))
        return message_id

    def flush(self) -> None:
        """The cache forgets."""
        if self.tokens is not None and self._held:
            self.tokens._redis.delete(*self._held)

    def let_leases_end(self) -> None:
        """Time passes: every lease that there is ends, in the database and in the cache."""
        self.clock.advance(LEASE + 1)
        if self.options.idempotence is Idempotence.LEASE:
            self.flush()

    def status(self, message_id: str) -> StubStatus:
        query = select(message_stub.c.status).where(message_stub.c.message_id == message_id)
        with self.engine.connect() as connection:
            return StubStatus(connection.execute(query).scalar_one())

    def booked(self, message_id: str) -> int:
        query = select(func.count()).select_from(booking).where(booking.c.what == message_id)
        with self.engine.connect() as connection:
            return int(connection.execute(query).scalar_one())

    def logged(self) -> int:
        with self.engine.connect() as connection:
            return int(connection.execute(select(func.count()).select_from(message_log)).scalar_one())


class Attempt:
    """One delivery under way, step by step."""

    def __init__(self, world: World, message_id: str, *, joined: bool = True, fails: bool = False) -> None:
        self.message_id = message_id
        self.taken = 0
        self.settled: Settlement | None = None

        def handle(message: Any, session: Session) -> None:
            book(session, message_id)
            if fails:
                raise ValueError("the handler fails")

        def handle_alone(message: Any) -> None:
            if fails:
                raise ValueError("the handler fails")

        message = delivery(message_id)
        self._steps = way.consume(message, "billing", world.options, world.clock.now_ms, joined=joined)
        handler = handle if joined else handle_alone
        self._drive = _Drive(world.engine, sessionmaker(world.engine), world.tokens, handler, message)
        self._step: way.Step | None = next(self._steps)

    @property
    def in_transaction(self) -> bool:
        return self._drive._connection is not None

    def step(self) -> None:
        """Take one step."""
        assert self._step is not None
        self.taken += 1
        try:
            try:
                result = self._drive._take(self._step)
            except Exception as error:
                self._step = self._steps.throw(error)
            else:
                self._step = self._steps.send(result)
        except StopIteration as end:
            self._step = None
            self.settled = end.value

    def run(self, steps: int = 1000) -> None:
        """Take so many steps, or all."""
        while self.settled is None and steps > 0:
            self.step()
            steps -= 1

    def pause(self) -> None:
        """Go on to where others may go on too: a database shows them no open transaction."""
        while self.settled is None and self.in_transaction:
            self.step()

    def crash(self) -> None:
        """The process dies: the database ends its transaction, the cache keeps its token."""
        self._steps.close()
        self._drive._end(commit=False)


class Deliveries(RuleBasedStateMachine):
    """Any interleaving of deliveries, crashes, leases that end, a cache that forgets, and a person who voids."""

    cache: str | None = None
    messages: Bundle[str] = Bundle("messages")
    attempts: Bundle[Attempt] = Bundle("attempts")

    def __init__(self) -> None:
        super().__init__()
        self.world = World(self.cache)
        self.ids: list[str] = []
        self.alone: set[str] = set()  # messages whose handler has no part in the transaction
        self.under_way: list[Attempt] = []

    @rule(target=messages, joined=st.booleans())
    def stage(self, joined: bool) -> str:
        message_id = self.world.stage()
        self.ids.append(message_id)
        if not joined:
            self.alone.add(message_id)
        return message_id

    @rule(target=attempts, message_id=messages, fails=st.booleans())
    def deliver(self, message_id: str, fails: bool) -> Attempt:
        attempt = Attempt(self.world, message_id, joined=message_id not in self.alone, fails=fails)
        self.under_way.append(attempt)
        return attempt

    @rule(attempt=attempts, steps=st.integers(1, 12))
    def go_on(self, attempt: Attempt, steps: int) -> None:
        if attempt not in self.under_way:
            return
        attempt.run(steps)
        attempt.pause()
        if attempt.settled is not None:
            self.under_way.remove(attempt)
            self._settled(attempt, attempt.settled)

    @rule(attempt=consumes(attempts), steps=st.integers(0, 12))
    def crash(self, attempt: Attempt, steps: int) -> None:
        if attempt not in self.under_way:
            return
        self.under_way.remove(attempt)
        attempt.run(steps)
        if attempt.settled is not None:
            self._settled(attempt, attempt.settled)
        attempt.crash()
        event(f"crash after step {attempt.taken}")

    @rule()
    def let_leases_end(self) -> None:
        self.world.let_leases_end()

    @rule()
    def flush_the_cache(self) -> None:
        self.world.flush()

    @rule(message_id=messages)
    def void(self, message_id: str) -> None:
        if self.world.status(message_id) is StubStatus.UNCONFIRMED:
            with self.world.engine.begin() as connection:
                void(connection, message_id, None, "ann", "because", self.world.clock.now_ms())

    def _settled(self, attempt: Attempt, settled: Settlement) -> None:
        event(settled.outcome.value)
        if acknowledges(settled.outcome, self.world.options):
            assert self.world.status(attempt.message_id) is not StubStatus.UNCONFIRMED  # or it would be lost

    @invariant()
    def a_confirmed_message_was_done_once_and_no_other_was_done(self) -> None:
        for message_id in self.ids:
            if message_id not in self.alone:
                done = self.world.status(message_id) is StubStatus.CONFIRMED
                assert self.world.booked(message_id) == int(done)

    def teardown(self) -> None:
        try:
            for attempt in self.under_way:
                attempt.crash()
            self.world.let_leases_end()
            for message_id in self.ids:
                last = Attempt(self.world, message_id, joined=message_id not in self.alone)
                last.run()
                assert last.settled is not None
                assert acknowledges(last.settled.outcome, self.world.options)
            self.a_confirmed_message_was_done_once_and_no_other_was_done()
            assert self.world.logged() == 0
        finally:
            self.world.close()


@pytest.mark.parametrize("cached", [False, True])
def test_any_interleaving_of_deliveries_and_crashes_does_each_message_once(redis: Redis, cached: bool) -> None:
    machine = type("Cached" if cached else "Uncached", (Deliveries,), {"cache": redis.url if cached else None})
    run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=30, deadline=None))


@pytest.mark.parametrize("fails", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_a_crash_after_any_step_loses_and_doubles_nothing(redis: Redis, cached: bool, fails: bool) -> None:
    whole = _attempt_after_a_crash(redis.url if cached else None, Idempotence.LEASE, fails, 1000)
    assert whole.taken >= 8
    for steps in range(whole.taken):
        _attempt_after_a_crash(redis.url if cached else None, Idempotence.LEASE, fails, steps)


def _attempt_after_a_crash(cache: str | None, mode: Idempotence, fails: bool, steps: int) -> Attempt:
    """Crash a delivery after some steps, deliver the message again, and look."""
    world = World(cache, mode)
    try:
        message_id = world.stage()
        first = Attempt(world, message_id, fails=fails)
        first.run(steps)
        first.crash()
        for _ in range(2):  # at once, when the lease may still hold, and after it
            again = Attempt(world, message_id)
            again.run()
            assert again.settled is not None
            if acknowledges(again.settled.outcome, world.options):
                break
            assert again.settled.outcome is Outcome.BUSY
            world.let_leases_end()
        assert world.status(message_id) is StubStatus.CONFIRMED
        assert world.booked(message_id) == 1
        assert world.logged() == 0
        return first
    finally:
        world.close()


@pytest.mark.parametrize("cached", [False, True])
def test_the_documents_way_loses_a_message_when_a_crash_comes_after_the_token(redis: Redis, cached: bool) -> None:
    cache = redis.url if cached else None
    lost = []
    for steps in range(8):
        try:
            _attempt_after_a_crash(cache, Idempotence.DOCUMENTS, False, steps)
        except AssertionError:
            lost.append(steps)
    assert lost  # between the token and the confirmation
    assert 0 not in lost
