"""Random lives of transactions: whatever order things happen in, each is decided once and as its producer said."""

from random import Random

import pytest

from ariane.broker.transactions.half_messages import committed_message
from ariane.broker.unit_copy import properties_of
from ariane.message import CHECK_IMMUNITY_SECONDS, HALF_OP_TOPIC, HALF_TOPIC, UNIQUE_KEY
from ariane.protocol.headers import CheckTransactionStateRequest
from ariane.protocol.units import TRANSACTION_COMMIT, TRANSACTION_ROLLBACK, Unit
from tests.broker.test_transactions import World, end


class History:
    """Producers that send, decide early, late, twice or never, and a broker that restarts in between."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World()
        self.world.rules.transaction_check_max = 1_000_000
        self.halves: list[Unit] = []
        self.said: dict[str, int] = {}
        self.answered = 0

    def send(self) -> None:
        key = f"k{len(self.halves)}"
        more = {CHECK_IMMUNITY_SECONDS: "150"} if self.random.random() < 0.3 else {}
        self.halves.append(self.world.send(key, **more))

    def decide_original(self) -> None:
        """A decision on the first copy, perhaps long after checks made others, perhaps not the first decision."""
        if self.halves:
            self.decide(self.random.choice(self.halves))

    def answer_check(self) -> None:
        """A producer answers one of the questions, also an old one."""
        if self.world.producer.asked:
            question = self.random.choice(self.world.producer.asked)
            place = CheckTransactionStateRequest.parse(question.fields).commit_log_offset
            copy = self.world.log.unit_at(place)
            assert copy is not None
            self.decide(copy)

    def decide(self, half: Unit) -> None:
        state = self.random.choice((TRANSACTION_COMMIT, TRANSACTION_ROLLBACK))
        found = self.world.transactions.half_at(end(half, commit_or_rollback=state))
        key = properties_of(found)[UNIQUE_KEY]
        if self.world.transactions.is_decided(found):
            assert key in self.said
            return
        assert key not in self.said, f"{key} could be decided twice"
        self.said[key] = state
        if state == TRANSACTION_COMMIT:
            self.world.log.put(committed_message(found))
        self.world.transactions.remove(found)

    async def round(self) -> None:
        await self.world.round(self.random.choice((1, 10, 61)))

    async def restart(self) -> None:
        if self.random.random() < 0.5:
            await self.world.check.keep()
        self.world.restart()
        await self.world.check.recover()

    async def live(self, steps: int) -> None:
        for _ in range(steps):
            step = self.random.choices(
                (self.send, self.decide_original, self.answer_check, self.round, self.restart), (5, 3, 3, 3, 1)
            )[0]
            result = step()
            if result is not None:
                await result


@pytest.mark.parametrize("seed", range(40))
async def test_each_transaction_is_decided_once_and_as_its_producer_said(seed: int) -> None:
    history = History(seed)
    await history.live(120)
    committed = [properties_of(unit)[UNIQUE_KEY] for unit in history.world.log.units("orders", 3)]
    assert sorted(committed) == sorted(key for key, state in history.said.items() if state == TRANSACTION_COMMIT)


@pytest.mark.parametrize("seed", range(20))
async def test_all_undecided_are_asked_about_and_then_nothing_is_left(seed: int) -> None:
    history = History(seed)
    await history.live(80)
    world = history.world
    world.producer.asked.clear()
    await world.round(200)
    await world.round(200)
    asked = set(world.producer.keys())
    undecided = {properties_of(half)[UNIQUE_KEY] for half in history.halves} - history.said.keys()
    assert asked == undecided
    for question in list(world.producer.asked):
        place = CheckTransactionStateRequest.parse(question.fields).commit_log_offset
        half = world.transactions.half_at(end(world.log.unit_at(place) or history.halves[0]))
        if not world.transactions.is_decided(half):
            world.transactions.remove(half)
    await world.round(200)
    assert world.front(HALF_TOPIC) == world.log.max_offset(HALF_TOPIC, 0)
    assert world.front(HALF_OP_TOPIC) == world.log.max_offset(HALF_OP_TOPIC, 0)
