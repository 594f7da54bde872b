"""A model of three brokers: whatever happens to machines and network, no acknowledged message is lost.

The machines have a disk that forgets what was not synced, the network delivers what the test lets it deliver. After
each step these must hold:

- A message was acknowledged only when the promised number of slaves had it on their disks, and such a slave never loses
  it unless its disk is wiped.
- Two logs are equal up to the point to which their epochs agree.
- No slave reports less than before on a connection, and no log shrinks but by a crash or a truncation.
"""

import asyncio
import os
from collections.abc import Coroutine
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from ariane.env import Env, ManualClock
from ariane.ha import Epochs, HaMaster, HaOptions, HaSlave, Replicated, common_end
from ariane.store import MessageStore, PutStatus, StoreOptions
from ariane.testing.faults import MemoryFiles
from tests.ha.wire import Network
from tests.store.units import unit

ROOT = Path("/store")
FILE_SIZE = 4096
NAMES = ("a", "b", "c")
OPTIONS = HaOptions(cluster="c", broker="b", retry_interval=0.5, retry_interval_max=0.5, transfer_batch=700)


@dataclass
class Acknowledged:
    """A message whose send returned SEND_OK, and the slaves that must keep it."""

    at: int
    data: bytes
    keepers: set[str] = field(default_factory=set)


class Machine:
    """A broker's store with its part in replication; `store` is None while it is down."""

    def __init__(self, name: str, network: Network, clock: ManualClock, seed: int, needed: int) -> None:
        self.name = name
        self.files = MemoryFiles(clock)
        self.store: MessageStore | None = None
        self.master: HaMaster | None = None
        self.slave: HaSlave | None = None
        self.replicated: Replicated | None = None
        self.end = 0
        self._network = network
        self._clock = clock
        self._random = Random(f"{seed} {name}")
        self._options = HaOptions(**{**OPTIONS.__dict__, "in_sync_replicas": needed + 1})

    @property
    def address(self) -> str:
        return f"{self.name}:1"

    def open(self) -> MessageStore:
        options = StoreOptions(
            root=ROOT, commitlog_file_size=FILE_SIZE, consumequeue_file_entries=50, index_enabled=False
        )
        self.store = MessageStore(options, Env(self._clock, self.files, self._random))
        self.store.open()
        self.end = self.store.log.stored
        return self.store

    def epochs(self) -> Epochs:
        return Epochs(self.files, ROOT, self._random)

    async def lead(self, *, promote: bool) -> None:
        store = self.store or self.open()
        if self.slave is not None:
            await self.slave.stop()
            self.slave = None
        store.take_over()
        self.end = store.log.stored
        epochs = self.epochs()
        epochs.begin(store.log.stored, promote=promote)
        listen = self._network.listen(self.address)
        self.master = HaMaster(
            store, self._options, self._clock, epochs, waits=True, random=self._random, listen=listen
        )
        self.replicated = Replicated(store, self.master, self._options, self._clock)
        await self.master.start(self.name, 1)

    async def follow(self, address: str) -> None:
        store = self.store or self.open()
        self.slave = HaSlave(
            store,
            self._options,
            self._clock,
            address,
            self.epochs(),
            random=self._random,
            connect=self._network.connect,
        )
        self.slave.on_truncate.append(self.cut)
        self.slave.start()

    def cut(self, end: int) -> None:
        self.end = end

    async def down(self, files: MemoryFiles) -> None:
        """Take the machine down; `files` is what its disk has afterwards."""
        if self.master is not None:
            await self.master.stop()
        if self.replicated is not None:
            self.replicated.close()
        if self.slave is not None:
            await self.slave.stop()
        self.master = self.slave = self.replicated = self.store = None
        self.files = files

    def has(self, message: Acknowledged, *, durable: bool = False) -> bool:
        """Whether the log on disk, or what of it survives a power cut, holds a message."""
        files = self.files.after_power_cut() if durable else self.files
        base = message.at - message.at % FILE_SIZE
        path = ROOT / "commitlog" / f"{base:020d}"
        inside = message.at - base
        return files.exists(path) and files.read(path)[inside : inside + len(message.data)] == message.data


class Replication(RuleBasedStateMachine):
    """Three machines, of which the operator makes one the master."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clock = ManualClock()
        self.network = Network()
        self.machines: dict[str, Machine] = {}
        self.acknowledged: list[Acknowledged] = []
        self.sent = 0

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        async def whole() -> None:
            await step
            await self.settle()

        self.loop.run_until_complete(whole())

    async def settle(self) -> None:
        """Let all tasks run until they wait for the network or the clock."""
        for _ in range(12):
            await asyncio.sleep(0)
            for machine in self.machines.values():
                if machine.store is not None:
                    machine.store.dispatch_now()

    def teardown(self) -> None:
        async def end() -> None:
            for machine in self.machines.values():
                await machine.down(machine.files)

        self.loop.run_until_complete(end())
        self.loop.close()

    # -- the machines ---------------------------------------------------------------------------------------------

    @initialize(seed=st.integers(0, 1000), needed=st.integers(1, 2))
    def begin(self, seed: int, needed: int) -> None:
        self.needed = needed
        self.machines = {name: Machine(name, self.network, self.clock, seed, needed) for name in NAMES}
        self.leader = "a"
        self.run(self.machines["a"].lead(promote=False))
        for name in "bc":
            self.run(self.machines[name].follow("a:1"))
        for _ in range(8):
            self.everything()

    @property
    def up(self) -> list[Machine]:
        return [machine for machine in self.machines.values() if machine.store is not None]

    @rule(size=st.sampled_from([10, 300, 900]), nul=st.booleans(), count=st.integers(1, 3))
    def send(self, size: int, nul: bool, count: int) -> None:
        """Send messages to the master, each waiting for its copies."""

        async def sending() -> None:
            master = self.machines[self.leader]
            for _ in range(count):
                if master.store is None or master.replicated is None:
                    return
                self.sent += 1
                properties = {"KEYS": "\0" * 1100} if nul else {"KEYS": "k"}
                result = master.store.append(unit(body=f"{self.sent:08d}".encode().ljust(size, b"."), **properties))
                master.store.dispatch_now()
                view = master.store.log.raw(result.physical_offset, result.size)
                assert view is not None
                message = Acknowledged(result.physical_offset, bytes(view))
                master.end = master.store.log.stored
                master.replicated.wait(result, lambda status, message=message: self.answered(message, status))  # type: ignore[misc]

        self.run(sending())

    def answered(self, message: Acknowledged, status: PutStatus) -> None:
        if status is PutStatus.OK:
            keepers = {m.name for m in self.machines.values() if m.name != self.leader and m.has(message, durable=True)}
            assert len(keepers) >= self.needed, f"acknowledged with copies on {keepers} only"
            message.keepers = keepers
            self.acknowledged.append(message)

    @rule(which=st.integers(0, 9), size=st.sampled_from([1, 7, 13, 100, 711, 5000]))
    def deliver(self, which: int, size: int) -> None:
        """One connection delivers some bytes; others are late."""

        async def delivering() -> None:
            if pairs := self.network.open_pairs():
                self.network.deliver(pairs[which % len(pairs)], size)

        self.run(delivering())

    @rule()
    def everything(self) -> None:
        """All connections deliver what they have."""

        async def delivering() -> None:
            for _ in range(6):
                for pair in list(self.network.open_pairs()):
                    self.network.deliver(pair, 1 << 20)
                await self.settle()

        self.run(delivering())

    @rule(which=st.integers(0, 9), ends=st.sampled_from([(True, True), (True, False), (False, True)]))
    def cut(self, which: int, ends: tuple[bool, bool]) -> None:
        async def cutting() -> None:
            if pairs := self.network.open_pairs():
                self.network.cut(pairs[which % len(pairs)], ends=ends)

        self.run(cutting())

    @rule(seconds=st.sampled_from([0.5, 3.0, 21.0]), silent=st.sampled_from([False, False, False, True]))
    def wait(self, seconds: float, silent: bool) -> None:
        """Time goes by, with a network that works or one that delivers nothing."""

        async def waiting() -> None:
            left = seconds
            while left > 0:
                self.clock.advance(0.5)
                left -= 0.5
                await self.settle()
                for pair in [] if silent else list(self.network.open_pairs()):
                    self.network.deliver(pair, 1 << 20)

        self.run(waiting())

    @rule(count=st.integers(1, 4))
    def work(self, count: int) -> None:
        """Messages are sent and copied while nothing fails."""
        self.wait(3.0, False)
        self.send(300, False, count)
        self.everything()

    @rule(how=st.sampled_from(["kill", "power", "wipe"]), heir=st.sampled_from(NAMES), late=st.booleans())
    def fail_over(self, how: str, heir: str, late: bool) -> None:
        """The master fails with messages on their way, a slave takes its place, and the old master comes back."""
        self.send(300, False, 2)
        self.deliver(0 if late else 1, 711)
        old = self.leader
        self.crash(old, how)
        self.promote(heir)
        self.restart(old)
        self.work(1)

    @rule(heir=st.sampled_from(NAMES), how=st.sampled_from(["kill", "power", "wipe"]))
    def promote_the_lagging(self, heir: str, how: str) -> None:
        """The operator promotes a slave that was down while the other one received messages."""
        if heir == self.leader:
            return
        self.crash(heir, "kill")
        self.work(2)
        old = self.leader
        self.crash(old, how)
        self.restart(heir)
        self.promote(heir)
        self.work(1)
        self.restart(old)
        self.work(1)

    @rule(name=st.sampled_from(NAMES), how=st.sampled_from(["kill", "power", "wipe"]))
    def crash(self, name: str, how: str) -> None:
        machine = self.machines[name]
        if machine.store is None:
            return
        if how == "wipe":
            files = MemoryFiles(self.clock)
            for message in self.acknowledged:
                message.keepers.discard(name)
        else:
            files = machine.files.after_kill() if how == "kill" else machine.files.after_power_cut()
        self.run(machine.down(files))

    @rule(name=st.sampled_from(NAMES))
    def restart(self, name: str) -> None:
        """Start a machine in the role that the operator has given it."""
        machine = self.machines[name]
        if machine.store is None:
            if name == self.leader:
                self.run(machine.lead(promote=False))
            else:
                self.run(machine.follow(f"{self.leader}:1"))

    @rule(name=st.sampled_from(NAMES))
    def promote(self, name: str) -> None:
        """The operator makes a slave the master, perhaps one that lags, and has the others follow it."""
        machine = self.machines[name]
        if machine.store is None or machine.slave is None or self.machines[self.leader].store is not None:
            return
        self.leader = name
        self.run(machine.lead(promote=True))
        for other in self.up:
            if other.slave is not None:
                self.run(other.slave.follow(machine.address))

    # -- what must hold -------------------------------------------------------------------------------------------

    @invariant()
    def acknowledged_messages_are_kept(self) -> None:
        for message in self.acknowledged:
            for name in message.keepers:
                assert self.machines[name].has(message), f"{name} lost the message at {message.at}"

    @invariant()
    def logs_agree_where_epochs_do(self) -> None:
        up = [(machine, machine.store, machine.epochs().entries) for machine in self.up if machine.store is not None]
        for one, store, entries in up:
            for other, their_store, theirs in up:
                end = common_end(entries, store.log.stored, theirs, their_store.log.stored)
                start = max(store.log.min_offset, their_store.log.min_offset, 0)
                if entries and theirs and start < end:
                    same = raw(store, start, end) == raw(their_store, start, end)
                    assert same, f"{one.name} {entries} and {other.name} {theirs} differ before {end}"

    @invariant()
    def logs_only_grow(self) -> None:
        for machine in self.up:
            if machine.store is not None:
                assert machine.store.log.stored >= machine.end, f"{machine.name} {machine.end}"
                machine.end = machine.store.log.stored


def raw(store: MessageStore, start: int, end: int) -> bytes:
    parts = []
    while start < end and (view := store.log.raw(start, end - start)) is not None:
        parts.append(bytes(view))
        start += len(view)
    return b"".join(parts)


def test_no_acknowledged_message_is_lost_whatever_fails() -> None:
    """Bounded here; `make model-ha` runs many more."""
    run_state_machine_as_test(
        Replication,
        settings=settings(
            max_examples=int(os.environ.get("HA_MODEL_EXAMPLES", "20")),
            stateful_step_count=int(os.environ.get("HA_MODEL_STEPS", "40")),
            deadline=None,
            report_multiple_bugs=False,
            phases=[Phase.generate] if os.environ.get("HA_MODEL_QUICK") else list(Phase),
            suppress_health_check=list(HealthCheck),
        ),
    )
