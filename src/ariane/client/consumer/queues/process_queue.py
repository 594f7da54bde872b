"""The local cache of one queue: messages that were pulled and are not consumed yet."""

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from ariane.env import Clock
from ariane.message import MessageQueue, ReceivedMessage
from ariane.protocol.bodies import ProcessQueueInfo

LOCK_LIFE = 30.0  # seconds for which a lock at the broker counts as held
PULL_IDLE = 120.0  # seconds without a pull after which a queue counts as stuck


class ProcessQueue:
    """Cached messages by offset. The offset to commit never passes the first message that is not consumed."""

    def __init__(self, queue: MessageQueue, clock: Clock) -> None:
        self.queue = queue
        self.dropped = False
        """The queue is being released: no more of its messages go to a listener."""
        self.abandoned = False
        """The queue is released: results of listener calls are ignored."""
        self.locked = False
        self.next_offset = 0
        self.max_offset = 0
        """The end of the queue in the last response of the broker."""
        self.pull_step = 0
        """By how many offsets a response advances before the end of the queue; 0 until one had messages."""
        self.pull_bytes = 0
        """The size of such a response."""
        self.count = 0
        self.size = 0
        self.last_lock = clock.monotonic()
        self.last_pull = clock.monotonic()
        self.last_consume = clock.monotonic()
        self.held_back = False
        """The next pull waits for room in the cache, or for the end of a pause."""
        self.unlock_tries = 0
        self.failures = 0
        """Consecutive pulls that failed."""
        self.running = 0
        """Messages that were submitted to a runner and are not done."""
        self.changed = asyncio.Event()
        """Set when messages are added or removed, or the queue is dropped."""
        self._clock = clock
        self._messages: OrderedDict[int, ReceivedMessage] = OrderedDict()
        self._taken: OrderedDict[int, ReceivedMessage] = OrderedDict()
        self._above: set[int] = set()  # consumed, while a message before them is not
        self._first = -1  # the offset that `remove` returned last
        self._end = 0  # one past the last offset that was ever cached

    def put(self, messages: Sequence[ReceivedMessage]) -> list[ReceivedMessage]:
        """Cache messages; returns those that were not cached before."""
        cached = self._messages
        fresh: list[ReceivedMessage] = []
        for message in messages:
            offset = message.queue_offset
            if offset not in cached:
                cached[offset] = message
                self.size += len(message.body)
                fresh.append(message)
        if fresh:
            self.count += len(fresh)
            self._end = max(self._end, fresh[-1].queue_offset + 1)
            self.changed.set()
        return fresh

    def remove(self, messages: Sequence[ReceivedMessage]) -> int | None:
        """Remove consumed messages; returns the offset to commit, None when nothing was cached."""
        self.last_consume = self._clock.monotonic()
        cached = self._messages
        if not cached:
            return None
        highest = -1
        for message in messages:
            offset = message.queue_offset
            if cached.pop(offset, None) is not None:
                self.count -= 1
                self.size -= len(message.body)
                highest = max(highest, offset)
        self.changed.set()
        if not cached:
            self._above.clear()
            return self._end
        first: int = next(iter(cached))
        if highest > first:
            self._above.update(message.queue_offset for message in messages)
        if first != self._first and self._above:
            self._above = {offset for offset in self._above if offset > first}
        self._first = first
        return first

    def holds(self, message: ReceivedMessage) -> bool:
        """Whether a message is cached, so not consumed yet."""
        return message.queue_offset in self._messages

    @property
    def is_empty(self) -> bool:
        """Whether nothing is cached or taken."""
        return not self._messages and not self._taken

    @property
    def span(self) -> int:
        """The distance between the first and the last cached offset."""
        if not self._messages:
            return 0
        return next(reversed(self._messages)) - next(iter(self._messages))

    async def drained(self, seconds: float) -> bool:
        """Wait until no listener call runs; False when that takes too long."""
        try:
            async with asyncio.timeout(seconds):
                while self.running:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            return False
        return True

    def repeats_if_dropped(self) -> int:
        """How many messages already passed to a listener will be redelivered to the queue's next owner."""
        first = next(iter(self._messages), self._end)
        return self.running + len(self._taken) + sum(1 for offset in self._above if offset > first)

    def take(self, most: int) -> list[ReceivedMessage]:
        """Orderly: the next messages, in order; they stay uncommitted."""
        self.last_consume = self._clock.monotonic()
        found: list[ReceivedMessage] = []
        while self._messages and len(found) < most:
            offset, message = self._messages.popitem(last=False)
            self._taken[offset] = message
            found.append(message)
        return found

    def commit(self) -> int | None:
        """Orderly: remove the taken messages; returns the offset to commit."""
        if not self._taken:
            return None
        end = next(reversed(self._taken)) + 1
        self.count -= len(self._taken)
        self.size -= sum(len(message.body) for message in self._taken.values())
        self._taken.clear()
        self.changed.set()
        return end

    def put_back(self, messages: Iterable[ReceivedMessage] | None = None) -> None:
        """Orderly: return these messages, or all taken ones, to the cache."""
        again = list(self._taken.values()) if messages is None else list(messages)
        for message in sorted(again, key=lambda message: message.queue_offset, reverse=True):
            self._taken.pop(message.queue_offset, None)
            self._messages[message.queue_offset] = message
            self._messages.move_to_end(message.queue_offset, last=False)
        self.changed.set()

    def drop(self) -> None:
        """Start to release the queue: no more of its messages go to a listener."""
        self.dropped = True
        self.changed.set()

    def clear(self) -> None:
        """Clear the cache."""
        self._messages.clear()
        self._taken.clear()
        self._above.clear()
        self.count = self.size = 0
        self.changed.set()

    def lock_holds(self) -> bool:
        """Orderly: whether this client alone may consume the queue."""
        return self.locked and self._clock.monotonic() - self.last_lock <= LOCK_LIFE

    def note_lock(self, locked: bool) -> None:
        """Note the result of a lock request."""
        self.locked = locked
        if locked:
            self.last_lock = self._clock.monotonic()
        self.changed.set()

    def is_stuck(self) -> bool:
        """Whether the last pull is so long ago that pulling must be stuck."""
        return not self.held_back and self._clock.monotonic() - self.last_pull > PULL_IDLE

    def lag(self, committed: int | None) -> int:
        """Messages between the group's offset and the end of the queue, as of the last pull."""
        return max(0, self.max_offset - (self.next_offset if committed is None else committed))

    def describe(self, committed: int) -> ProcessQueueInfo:
        """Describe the queue for running info."""
        offset = self._clock.now_ms() - self._clock.monotonic() * 1000
        return ProcessQueueInfo(
            commit_offset=committed,
            cached_msg_min_offset=next(iter(self._messages), 0),
            cached_msg_max_offset=next(reversed(self._messages), 0),
            cached_msg_count=len(self._messages),
            cached_msg_size_in_mib=self.size >> 20,
            transaction_msg_min_offset=next(iter(self._taken), 0),
            transaction_msg_max_offset=next(reversed(self._taken), 0),
            transaction_msg_count=len(self._taken),
            locked=self.locked,
            try_unlock_times=self.unlock_tries,
            last_lock_timestamp=int(offset + self.last_lock * 1000),
            dropped=self.dropped,
            last_pull_timestamp=int(offset + self.last_pull * 1000),
            last_consume_timestamp=int(offset + self.last_consume * 1000),
        )
