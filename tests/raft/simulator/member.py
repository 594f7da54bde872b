"""The driver of one simulated member: does what the core wants, in steps, with a crash possible before each."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Protocol

from ariane.raft import HardState, Message, Node, Options, RaftError, Ready, Role, Vote
from tests.raft.simulator.checker import Checker
from tests.raft.simulator.disk import Disk
from tests.raft.simulator.network import Network


class Surroundings(Protocol):
    """What a member needs of the world."""

    time: int
    random: Random
    network: Network
    options: Options
    checker: Checker
    counts: Counter[str]

    def later(self, delay: int, action: Callable[[], None]) -> None: ...
    def send(self, message: Message) -> None: ...
    def trace(self, text: str) -> None: ...
    def crash_now(self, member: "Member") -> bool: ...
    def tempt_fate(self, member: "Member", leads: bool) -> None: ...
    def jitter(self) -> float: ...
    def new_position(self) -> int: ...
    def all_members(self) -> list["Member"]: ...


class Member:
    """A process with its disk. `node` is None while it is down."""

    def __init__(self, world: Surroundings, name: str, disk: Disk) -> None:
        self.world = world
        self.name = name
        self.disk = disk
        self.node: Node | None = None
        self.life = 0  # counts starts: what was begun in an earlier one is gone
        self.rate = 1.0
        self.sync_time = 2
        self.paused: list[Callable[[], None]] | None = None  # what waits for the end of a pause
        self._timer = 0
        self._waiting: dict[int, int] = {}  # proposals of this leader: position by index
        self._written = self._to_sync = self._syncing = self._synced = 0  # numbers of log writes
        self._commit = -1
        self._to_store: list[HardState] = []

    def now(self) -> int:
        """This member's clock, which may run fast or slow."""
        return int(self.world.time * self.rate)

    def start(self) -> None:
        """Start the process on what the disk has."""
        world = self.world
        log, hard_state = self.disk.recover(world.options)
        self.life += 1
        self.paused = None
        self.node = Node(self.name, log, hard_state, world.options, world.jitter, self.now())
        self._timer = 0
        self._waiting.clear()
        self._written = self._to_sync = self._syncing = self._synced = 0
        self._commit = log.commit_index
        self._to_store = []
        if hard_state.abstaining:
            world.counts["abstaining starts"] += 1
        world.trace(f"{self.name} starts: {hard_state}, log to {log.last_index}/{log.last_term}")
        self.work()

    def crash(self) -> None:
        """End the process; the disk keeps what it keeps."""
        self.node = None
        torn = self.disk.power_cut()
        self.world.counts["torn entries"] += torn
        self.world.trace(f"{self.name} crashes: log to {self.disk.last_index}, {torn} torn")

    def later(self, delay: int, action: Callable[[], None]) -> None:
        """Do something later in this life, after a pause if there is one."""
        life = self.life

        def act() -> None:
            if self.life != life or self.node is None:
                return
            if self.paused is not None:
                self.paused.append(act)
            else:
                action()

        self.world.later(delay, act)

    def receive(self, message: Message) -> None:
        """Take a message from the network."""
        if self.node is None:
            return
        if self.paused is not None:
            life = self.life
            self.paused.append(lambda: self.receive(message) if self.life == life else None)
            return
        self.node.tick(self.now())
        self.node.step(message)
        self.work()

    def propose(self, count: int) -> None:
        """Propose entries, as a client's send does."""
        assert self.node
        positions = [self.world.new_position() for _ in range(count)]
        try:
            first = self.node.propose([(position, 100) for position in positions])
        except RaftError:
            self.world.counts["refused proposals"] += 1
            return
        self.world.counts["proposals"] += count
        self._waiting.update(enumerate(positions, first))
        self.work()

    def work(self) -> None:
        """Do what the core wants."""
        assert self.node
        if ready := self.node.ready():
            self._do(ready)
        if self.node:
            self._set_timer()

    def _do(self, ready: Ready) -> None:
        world, disk, node = self.world, self.disk, self.node
        assert node
        if ready.role and ready.role.role is not Role.LEADER:
            self._waiting.clear()
        if ready.hard_state:
            if world.crash_now(self):
                return
            self._to_store.append(ready.hard_state)
            if len(self._to_store) == 1:
                self._store()
        if ready.write:
            if world.crash_now(self):
                return
            write = ready.write
            if write.reset:
                world.counts["resets"] += 1
                disk.reset(write.reset)
            if write.truncate_from is not None:
                world.counts["truncations"] += 1
                disk.truncate(write.truncate_from)
                if world.crash_now(self):
                    return
            disk.append(write.entries)
            self._written = write.number
        if ready.sync:
            self._to_sync = self._written
            if self._syncing == self._synced:
                self._sync()
        for message in ready.messages:
            if world.crash_now(self):
                return
            world.checker.sends(self, message)
            world.send(message)
            if isinstance(message, Vote) and message.granted and not message.pre:
                world.tempt_fate(self, leads=False)
        if ready.commit_index is not None:
            first, self._commit = self._commit + 1, ready.commit_index
            world.checker.commits(self, node.hard_state.term, first, ready.commit_index)
            if world.random.random() < 0.1:
                disk.checkpoint = max(disk.checkpoint, min(ready.commit_index, disk.synced))
            for index in [index for index in self._waiting if index <= ready.commit_index]:
                world.counts["acknowledged"] += 1
                world.checker.acknowledges(index, self._waiting.pop(index))
        if ready.role:
            world.counts[f"became {ready.role.role.value}"] += 1
            world.trace(f"{self.name} is {ready.role.role.value} of term {ready.role.term}, leader {ready.role.leader}")
            if ready.role.role is Role.LEADER:
                world.checker.leads(self, ready.role.term, world.all_members())
                self._waiting.clear()
                world.tempt_fate(self, leads=True)
                node.propose([(world.new_position(), 100)])  # the start of the term
                self.work()

    def _store(self) -> None:
        """Write the term file; the next one waits."""
        self.disk.begin_store(self._to_store[0])
        self.later(1 + int(self.world.random.random() * self.sync_time), self._stored)

    def _stored(self) -> None:
        assert self.node
        self._to_store.pop(0)
        hard_state = self.disk.end_store()
        if self._to_store:
            self._store()
        self.node.tick(self.now())
        self.node.vote_stored(hard_state)
        self.work()

    def _sync(self) -> None:
        """Sync the log; what is written meanwhile waits for the next sync."""
        if self._to_sync <= self._synced:
            return
        self._syncing = self._written
        self.disk.begin_sync()
        self.later(1 + int(self.world.random.random() * self.sync_time), self._sync_ended)

    def _sync_ended(self) -> None:
        assert self.node
        number = self._synced = self._syncing
        self.disk.end_sync()
        self._sync()
        self.node.tick(self.now())
        self.node.persisted(number)
        self.work()

    def _set_timer(self) -> None:
        """Wake at the deadline; one timer is enough, an early one is set again."""
        assert self.node
        at = max(self.world.time + 1, int(self.node.deadline / self.rate) + 1)
        if self._timer and self._timer <= at:
            return
        self._timer = at

        def wake() -> None:
            if self._timer == at:
                self._timer = 0
            assert self.node
            self.node.tick(self.now())
            self.work()

        self.later(at - self.world.time, wake)
