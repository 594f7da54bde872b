"""The local end of a queue: what may be committed, what may be cached, what comes twice."""

from hypothesis import given
from hypothesis import strategies as st

from ariane import MessageQueue, ReceivedMessage
from ariane.client.consumer.queues.process_queue import LOCK_LIFE, ProcessQueue
from ariane.client.decoding import decode_messages
from ariane.env import ManualClock
from ariane.protocol.units import Unit, encode_unit

QUEUE = MessageQueue("T", "a", 0)


def messages(*offsets: int, size: int = 10) -> list[ReceivedMessage]:
    body = b"".join(encode_unit(Unit(b"T", b"x" * size, queue_offset=offset)) for offset in offsets)
    return decode_messages(body, "a")


async def test_the_offset_waits_for_the_first_unfinished_message() -> None:
    queue = ProcessQueue(QUEUE, ManualClock())
    one, two, three = queue.put(messages(5, 6, 9))
    assert queue.remove([three]) == 5
    assert queue.remove([one]) == 6
    assert queue.remove([two]) == 10
    assert (queue.count, queue.size, queue.is_empty) == (0, 0, True)
    assert queue.remove([two]) is None


@given(st.permutations(range(20)))
def test_the_offset_never_passes_an_unfinished_message_and_ends_at_the_end(order: list[int]) -> None:
    queue = ProcessQueue(QUEUE, ManualClock())
    cached = {message.queue_offset: message for message in queue.put(messages(*range(20)))}
    finished: set[int] = set()
    last = 0
    for offset in order:
        committed = queue.remove([cached[offset]])
        finished.add(offset)
        assert committed is not None
        assert committed >= last
        assert set(range(committed)) <= finished
        last = committed
    assert last == 20


async def test_a_message_that_is_there_already_is_not_cached_twice() -> None:
    queue = ProcessQueue(QUEUE, ManualClock())
    queue.put(messages(1, 2))
    assert [message.queue_offset for message in queue.put(messages(2, 3))] == [3]
    assert (queue.count, queue.size, queue.span) == (3, 30, 2)


async def test_taking_in_order_commits_what_was_taken() -> None:
    queue = ProcessQueue(QUEUE, ManualClock())
    queue.put(messages(1, 2, 3, 4))
    assert [m.queue_offset for m in queue.take(3)] == [1, 2, 3]
    assert queue.commit() == 4
    assert queue.commit() is None
    assert queue.count == 1


async def test_what_is_put_back_comes_first_again() -> None:
    queue = ProcessQueue(QUEUE, ManualClock())
    queue.put(messages(1, 2, 3, 4))
    taken = queue.take(2)
    queue.put_back(taken)
    assert [m.queue_offset for m in queue.take(3)] == [1, 2, 3]
    queue.put_back()
    assert [m.queue_offset for m in queue.take(9)] == [1, 2, 3, 4]


async def test_what_would_come_twice_is_counted() -> None:
    queue = ProcessQueue(QUEUE, ManualClock())
    one, two, three, _ = queue.put(messages(1, 2, 3, 4))
    queue.running = 1  # message 1 is with a listener
    queue.remove([two])
    queue.remove([three])
    assert queue.repeats_if_dropped() == 3
    queue.running = 0
    queue.remove([one])
    assert queue.repeats_if_dropped() == 0


async def test_a_lock_holds_for_half_a_minute() -> None:
    clock = ManualClock()
    queue = ProcessQueue(QUEUE, clock)
    assert not queue.lock_holds()
    queue.note_lock(True)
    clock.advance(LOCK_LIFE)
    assert queue.lock_holds()
    clock.advance(0.1)
    assert not queue.lock_holds()
