"""One run from one seed: a time of faults, then peace, in which the group must work again."""

import heapq
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import count
from random import Random

from ariane.raft import Membership, Message, Node, Options, Removed, Role, SafetyViolation
from tests.raft.simulator import faults
from tests.raft.simulator.checker import Checker, Violation
from tests.raft.simulator.disk import Disk
from tests.raft.simulator.member import Member
from tests.raft.simulator.network import Network, Weather

WEATHERS = [
    Weather(),
    Weather(delay=20, late=0.02),
    Weather(loss=0.02, double=0.02, delay=10),
    Weather(loss=0.15, double=0.1, delay=30, late=0.05),
    Weather(loss=0.4, delay=10),
    Weather(loss=0.05, double=0.2, delay=150, late=0.02),
]
PEACE = Weather()


class World:
    """Everything of one run. The same seed gives the same run."""

    def __init__(
        self,
        seed: int,
        voters: int | None = None,
        storm: bool | None = None,
        kinds: Collection[Callable[[faults.Target], None]] | None = None,
        promises: bool = True,
        restless: bool | None = None,
        show: bool = False,
    ) -> None:
        self.random = random = Random(seed)
        self.time = 0
        self.at_peace = False
        self.show = show
        if kinds is None:
            kinds = [kind for kind in faults.KINDS if random.random() < 0.6]
        self.kinds = {**faults.CURES, **{kind: faults.KINDS[kind] for kind in kinds}}
        self.counts: Counter[str] = Counter()
        self.checker = Checker(promises)
        self.options = Options(
            heartbeat_interval=100,
            election_timeout=random.choice([300, 500, 1000]),
            lease_margin=80,
            pre_vote=random.random() < 0.8,
            max_batch_entries=random.choice([1, 3, 100]),
            max_inflight_entries=random.choice([1, 2, 10, 1000]),
            cached_entries=random.choice([1, 10, 1000]),
            gather_bytes=random.choice([0, 0, 250, 1 << 16]),
            commit_delay=random.choice([0, 0, 20, 150]),
        )
        names = [chr(ord("a") + number) for number in range(voters or random.choice([1, 2, 3, 3, 3, 3, 3, 4, 5, 5]))]
        self.first_membership = Membership(frozenset(names))
        self.network = Network(random, random.choice(WEATHERS))
        self.crash_chance = random.choice([0.0, 0.0, 0.001, 0.005])  # at each step of a driver
        self.cruelty = random.choice([0.0, 0.0, 0.3, 0.8])  # how often a member that voted or won crashes soon after
        self.spread = random.choice([1.0, 1.0, 0.1])  # a small one lets several campaign at once
        self.storm = random.random() < 0.15 if storm is None else storm
        if self.storm:
            # Short reigns and one entry at a time: leaders end between an old entry and their own first (figure 8).
            self.options = replace(
                self.options, election_timeout=300, max_batch_entries=1, max_inflight_entries=1, pre_vote=False
            )
            self.network.weather = Weather(delay=random.choice([20, 60, 120]), double=0.05)
            self.cruelty = 0.9
        self.members: dict[str, Member] = {}
        self._events: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = count()
        self._positions = count()
        self._wish = (-1, -1)  # index and position of the proposal that shows liveness
        self.restless = random.random() < 0.1 if restless is None else restless
        if self.restless:  # the group changes all the time
            self.kinds[faults.change_membership] = 60
        for name in names:
            self._add(name).sync_time = random.choice([2, 2, 2, 20, 200])

    # -- what members and faults use ------------------------------------------------------------------------

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """Do something after a delay."""
        heapq.heappush(self._events, (self.time + delay, next(self._sequence), action))

    def send(self, message: Message) -> None:
        """Hand a message to the network."""
        target = self.members.get(message.target)
        if target is None:
            return
        self.counts["messages"] += 1
        if isinstance(message, Removed):
            self.counts["told to be removed"] += 1
        for delay in self.network.arrivals(message.source, message.target):
            self.later(delay, lambda: self._arrive(target, message))

    def _arrive(self, target: Member, message: Message) -> None:
        if self.show and target.node:
            self.trace(f"  {message}")
        target.receive(message)

    def crash_now(self, member: Member) -> bool:
        """Crash a member between two steps of its driver, now and then."""
        if self.crash_chance and self.random.random() < self.crash_chance:
            self.counts["crash between steps"] += 1
            member.crash()
            return True
        return False

    def jitter(self) -> float:
        """Return a number for an election time-out."""
        return self.random.random() * self.spread

    def tempt_fate(self, member: Member, leads: bool) -> None:
        """Let a member that has just voted or won crash, and come back soon."""
        if self.cruelty and self.random.random() < self.cruelty:
            life = member.life

            names = [name for name in self.members if self.random.random() < 0.4]
            cut = {(member.name, name) for name in names} if self.storm and leads else set()
            self.network.cut = self.network.cut | cut  # its entries reach only some

            def strike() -> None:
                self.network.cut = self.network.cut - cut
                if self.cruelty and member.node and member.life == life:
                    self.count("crash after a vote or an election")
                    member.crash()
                    self.later(1 + int(self.random.random() * 400), come_back)

            def come_back() -> None:
                if member.node is None and member.life == life:
                    member.start()

            reach = 10 + 5 * self.network.weather.delay if leads else 5
            self.later(1 + int(self.random.random() * reach), strike)

    def new_position(self) -> int:
        """Return a position that no other proposal has."""
        return next(self._positions)

    def all_members(self) -> list[Member]:
        """Return all members, the gone ones too."""
        return list(self.members.values())

    def count(self, fault: str) -> None:
        """Note a fault."""
        self.counts[fault] += 1
        self.trace(f"fault: {fault}")

    def leader(self) -> tuple[Member, Node] | None:
        """Return a running leader, the newest if there are two."""
        leaders = [
            (member, member.node)
            for member in self.members.values()
            if member.node and member.paused is None and member.node.role is Role.LEADER
        ]
        return max(leaders, key=lambda leader: leader[1].hard_state.term, default=None)

    def add_member(self) -> Member:
        """Start a new member, which is nobody's peer yet."""
        name = chr(ord("a") + len(self.members))
        member = self._add(name)
        member.start()
        return member

    def _add(self, name: str) -> Member:
        member = Member(self, name, Disk(self.first_membership, self.random))
        member.rate = self.random.choice([1.0, 1.0, 0.97, 1.03])
        self.members[name] = member
        return member

    def trace(self, text: str) -> None:
        """Show what happens, when asked to."""
        if self.show:
            print(f"{self.time:6} {text}")

    # -- the run --------------------------------------------------------------------------------------------

    def run(self, duration: int = 8000) -> Counter[str]:
        """Run to the end; return what happened how often. Raise Violation when something must not happen."""
        for member in self.all_members():
            member.start()
        self.later(1, lambda: self._propose(duration))
        self.later(500, lambda: self._fault(duration))
        self.run_until(lambda: self.time >= duration, duration)
        self.peace()
        self.trace("peace")
        self.run_until(self.healthy, duration + 20_000)
        if not self.healthy():
            raise Violation(
                f"liveness: no working group {self.time - duration} ms after the last fault: {self.state()}"
            )
        self.checker.end(self._group())
        for member in self.members.values():
            if member.node and member not in self._group():
                self.counts["outside: quiet" if member.node.removed else "outside: campaigns in vain"] += 1
        self.counts.update(self.network.counts)
        return self.counts

    def run_until(self, done: Callable[[], bool], limit: int) -> None:
        """Let events happen until `done`, or until the time `limit`."""
        events = self._events
        while events and not done():
            if events[0][0] > limit:
                self.time = limit
                return
            self.time, _, action = heapq.heappop(events)
            self.counts["events"] += 1
            try:
                action()
            except Violation:
                raise
            except (SafetyViolation, AssertionError) as error:
                raise Violation(f"a member stopped: {error}") from error

    def peace(self) -> None:
        """End all faults."""
        self.at_peace = True
        self.crash_chance = self.cruelty = 0.0
        self.spread = 1.0
        self.network.weather = PEACE
        self.network.cut = set()
        for member in self.all_members():
            member.sync_time = 2
            if member.paused is not None:
                faults.resume(member)
            if member.node is None:
                member.start()

    def healthy(self) -> bool:
        """Test for liveness: a new proposal is committed and durable on all members of the group, and all vote."""
        leader = self.leader()
        if leader is None:
            return False
        member, node = leader
        index, position = self._wish
        if (
            not (member.disk.start.index <= index <= member.disk.last_index)
            or member.disk.read(index).position != position
        ):
            before = node.log.last_index
            member.propose(1)
            if member.disk.last_index > before:
                self._wish = member.disk.last_index, member.disk.read(member.disk.last_index).position
            return False
        return all(
            m.node is not None
            and min(m.node.log.commit_index, m.node.log.persisted_index) >= index
            and not m.node.hard_state.abstaining
            for m in self._group()
        )

    def _group(self) -> list[Member]:
        """The members that the leader counts."""
        leader = self.leader()
        assert leader
        return [self.members[name] for name in sorted(leader[1].log.membership.members)]

    def state(self) -> str:
        """Describe all members."""
        texts = []
        for name, member in self.members.items():
            if node := member.node:
                log = f"log to {node.log.last_index}, committed to {node.log.commit_index}"
                texts.append(f"{name} {node.role.value}, {node.hard_state}, {log}")
            else:
                texts.append(f"{name} down")
        return "; ".join(texts)

    def _propose(self, until: int) -> None:
        """Clients send now and then, to whoever leads."""
        if self.time < until:
            self.checker.lease(self.all_members())
            if leader := self.leader():
                leader[0].propose(self.random.choice([1, 1, 1, 2, 5]))
            self.later(20 + int(self.random.random() * 200), lambda: self._propose(until))

    def _fault(self, until: int) -> None:
        if self.time < until:
            self.random.choices(list(self.kinds), list(self.kinds.values()))[0](self)
            self.later(int(self.random.random() * 500), lambda: self._fault(until))
