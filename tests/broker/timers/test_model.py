"""Timers against a list: whatever is sent, crashed, expired and cancelled, each message comes once and never early."""

import contextlib
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ariane.broker.timers.timers import Timers
from ariane.broker.unit_copy import packed
from ariane.env import Env, ManualClock
from ariane.errors import ResponseError
from ariane.message import TIMER_CANCEL, TIMER_DELIVER_MS, UNIQUE_KEY
from ariane.protocol.units import Unit
from tests.broker.memory_log import MemoryLog

DAY = 86_400_000
LONGEST = 40 * DAY


class TimerMachine(RuleBasedStateMachine):
    """Drives `Timers.turn` on a log in memory and a clock that jumps both ways."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = TemporaryDirectory()
        self.clock = ManualClock()
        self.log = MemoryLog(self.clock)
        self.timers = self.new_timers()
        self.number = 0
        self.due: dict[bytes, int] = {}  # accepted, by body
        self.place: dict[bytes, int] = {}
        self.cancelled: dict[bytes, int] = {}  # where the cancellation is in the log
        self.may_repeat = False

    def teardown(self) -> None:
        for _ in range(3):
            self.clock.advance(2 * LONGEST / 1000)
            self.settle()
        self.check()
        came = Counter(unit.body for unit in self.log.units("orders"))
        for body in self.due:
            if body in self.cancelled:
                assert not came[body] or self.may_repeat
            elif self.place[body] >= 0:
                assert came[body] >= 1, (body, self.due[body])
        self.folder.cleanup()

    def new_timers(self) -> Timers:
        return Timers(
            self.log,
            self.log.put,
            self.clock,
            Env().files,
            Path(self.folder.name) / "wheel",
            enabled=lambda: True,
            longest_ms=lambda: LONGEST,
        )

    def settle(self) -> None:
        for _ in range(100_000):
            if self.timers.turn() >= 0.001:
                return
        raise AssertionError("the timers never come to rest")

    @rule(delay=st.one_of(st.integers(0, 5000), st.integers(0, 4 * 3_600_000), st.integers(0, LONGEST)))
    def send(self, delay: int) -> None:
        self.number += 1
        body = str(self.number).encode()
        due = self.clock.now_ms() + delay
        unit = Unit(b"orders", body, packed({TIMER_DELIVER_MS: str(due), UNIQUE_KEY: f"key{self.number}"}))
        self.timers.rewrite(unit)
        self.log.put(unit)
        self.due[body] = due
        self.place[body] = unit.physical_offset

    @rule(which=st.integers(0, 1 << 30))
    def cancel(self, which: int) -> None:
        waiting = [body for body, due in self.due.items() if due > self.clock.now_ms() and self.place[body] >= 0]
        if not waiting:
            return
        body = waiting[which % len(waiting)]
        properties = {TIMER_DELIVER_MS: str(self.due[body]), TIMER_CANCEL: f"key{body.decode()}"}
        unit = Unit(b"orders", b"cancel", packed(properties))
        with contextlib.suppress(ResponseError):
            self.timers.rewrite(unit)
            self.log.put(unit)
            self.cancelled.setdefault(body, unit.physical_offset)

    @rule(seconds=st.one_of(st.floats(0, 3), st.floats(0, 4000), st.floats(0, 90_000)))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.settle()

    @rule(turns=st.integers(1, 5))
    def run_a_little(self, turns: int) -> None:
        for _ in range(turns):
            self.timers.turn()

    @rule(seconds=st.floats(1, 100_000))
    def set_the_clock_back(self, seconds: float) -> None:
        self.clock.set_wall(self.clock.now_ms() - int(seconds * 1000))
        self.may_repeat = True  # a note cannot tell what came at a time that came twice

    @rule()
    def restart_cleanly(self) -> None:
        self.timers._write_note()
        self.timers = self.new_timers()

    @rule(lost=st.integers(0, 12))
    def crash(self, lost: int) -> None:
        positions = self.log.positions()
        end = max(positions[max(0, len(positions) - 1 - lost)], self.log.flushed_offset)
        self.log.cut(end)
        for table in (self.place, self.cancelled):
            for body, at in list(table.items()):
                if at >= end:
                    table[body] = -1
        self.cancelled = {body: at for body, at in self.cancelled.items() if at >= 0}
        self.due = {body: due for body, due in self.due.items() if self.place[body] >= 0}
        self.may_repeat = True
        self.timers = self.new_timers()

    @precondition(lambda self: len(self.log.positions()) > 4)
    @rule(part=st.floats(0.1, 0.9))
    def expire(self, part: float) -> None:
        positions = self.log.positions()
        end = positions[int(len(positions) * part)]
        self.settle()
        for _ in range(1000):
            if self.timers.keep(end):
                break
            self.settle()
            self.log.flushed_offset = self.log.end
        else:
            raise AssertionError("what waits is never stored again")
        came = {unit.body for unit in self.log.units("orders")}
        self.log.expire_before(end)
        for body in list(self.due):  # a delivered message may expire; one that waits may not
            if body in came and body not in {unit.body for unit in self.log.units("orders")}:
                del self.due[body]

    @invariant()
    def check(self) -> None:
        came = Counter()  # type: Counter[bytes]
        for unit in self.log.units("orders"):
            came[unit.body] += 1
            if unit.body in self.due:
                assert unit.store_time >= self.due[unit.body], "early"
        if not self.may_repeat:
            assert max(came.values(), default=0) <= 1


TimerMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestTimers = TimerMachine.TestCase
