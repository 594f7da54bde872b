"""The order of one socket read: handle, make visible, wake, answer; and what happens outside of a read."""

from ariane.broker.read_cycle import ReadCycle
from ariane.env import ManualClock
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.units import Unit
from tests.broker.talk import Talk, send_fields, settled


class Recorder:
    """A log and latencies that note what they are told."""

    def __init__(self, clock: ManualClock) -> None:
        self.events: list[object] = []
        self._clock = clock

    def hold(self) -> None:
        self.events.append("hold")

    def dispatch_now(self) -> None:
        self.events.append("dispatch")
        self._clock.advance(0.02)

    def took(self, ms: int, count: int = 1) -> None:
        self.events.append((ms, count))

    def took_no_time(self, count: int) -> None:
        self.events.append((0, count))


def test_a_cycle_holds_the_log_dispatches_it_and_records_how_long_its_puts_took() -> None:
    clock = ManualClock()
    seen = Recorder(clock)
    cycle = ReadCycle(seen, clock, seen, busy_after=1.0)
    cycle.begin(clock.monotonic())
    cycle.puts += 3
    cycle.end()
    cycle.begin(clock.monotonic())
    cycle.end()
    cycle.record(0.0)
    cycle.report()
    assert seen.events == ["hold", "dispatch", (20, 3), "hold", "dispatch", (0, 1)]


def test_with_promises_a_put_is_recorded_when_it_is_kept() -> None:
    clock = ManualClock()
    seen = Recorder(clock)
    cycle = ReadCycle(seen, clock, seen, busy_after=0.01, promises=["flush"])
    cycle.begin(clock.monotonic())
    cycle.puts += 1
    cycle.end()
    assert seen.events == ["hold", "dispatch"]
    assert cycle.busy_until > clock.monotonic()


async def test_messages_of_one_read_become_visible_together_before_any_answer_leaves(talk: Talk) -> None:
    await talk.send_ok("orders")  # the topic is on the disk
    store = talk.broker.store
    connection = await talk.client.connection(talk.address)
    [server_side] = talk.broker._server.connections
    seen: list[tuple[int, int, bool]] = []

    class Watched:
        hold = store.hold

        def dispatch_now(self) -> None:
            before = store.max_offset("orders", 0)
            store.dispatch_now()
            if store.max_offset("orders", 0) > before:
                seen.append((before, store.max_offset("orders", 0), bool(server_side._outgoing.size)))

    talk.broker.cycle._store = Watched()
    sends = [Command(RequestCode.SEND_MESSAGE_V2, send_fields("orders"), b"%d" % n) for n in range(3)]
    for answer in [connection.submit(send, 60) for send in sends]:
        assert (await answer).code == 0
    assert seen == [(1, 4, True)]


async def test_a_message_stored_outside_of_a_read_becomes_visible_by_itself(talk: Talk) -> None:
    await talk.send_ok("orders")
    talk.broker.writer.append(Unit(b"orders", b"own", born_time=1))
    await settled(lambda: talk.broker.store.max_offset("orders", 0) == 2)
