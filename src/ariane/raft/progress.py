"""The leader's view of one other member's log, and flow control.

| flow      | meaning                                      | may send                            | ends when it is |
|-----------|----------------------------------------------|-------------------------------------|-----------------|
| PROBE     | where the logs agree is not known            | one empty AppendEntries, then waits | acknowledged    |
| REPLICATE | they agree up to `match_index`               | batches ahead of the answers        | refused         |
| REFILL    | the leader has deleted what the member needs | one ResetLog, then waits            | acknowledged    |

A message that gets no answer is sent again when the member answers a later heartbeat.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum

from ariane.raft.entry import NO_INDEX, Entry
from ariane.raft.options import Options


class Flow(Enum):
    """How entries flow to a member."""

    PROBE = "probe"
    REPLICATE = "replicate"
    REFILL = "refill"


class Progress:
    """The leader's view of one member: `matchIndex` and `nextIndex` of figure 2, and what is in flight."""

    def __init__(self, next_index: int, now: int) -> None:
        self.match_index = NO_INDEX
        self.next_index = next_index
        self.flow = Flow.PROBE
        self.heard = now  # when it last answered
        self.lease_from = now - (1 << 62)  # the newest heartbeat that it answered was sent then
        self.abstained: int | None = None  # when it last reported that it abstains
        self.commit_told = NO_INDEX
        self.sent_at = now  # when the newest message but heartbeats was sent
        self.waiting = False  # PROBE, REFILL: one message is out
        self.check = False  # REPLICATE: probe its position, in case the newest messages were lost
        self._inflight: deque[tuple[int, int, int]] = deque()  # of each message: last index, entries, bytes
        self._inflight_entries = 0
        self._inflight_bytes = 0

    def room(self, options: Options) -> tuple[int, int]:
        """Return how many entries and bytes may be sent now."""
        entries = options.max_inflight_entries - self._inflight_entries
        size = options.max_inflight_bytes - self._inflight_bytes
        if entries <= 0 or size <= 0:
            return 0, 0
        return min(entries, options.max_batch_entries), min(size, options.max_batch_bytes)

    @property
    def owes_answer(self) -> bool:
        """Whether entries are in flight."""
        return bool(self._inflight)

    def sent(self, entries: Sequence[Entry]) -> None:
        """Record entries in flight, so that the next message continues after them."""
        size = sum(entry.size for entry in entries)
        self.next_index = entries[-1].index + 1
        self._inflight.append((entries[-1].index, len(entries), size))
        self._inflight_entries += len(entries)
        self._inflight_bytes += size

    def acknowledged(self, match_index: int) -> None:
        """The member's log matches the leader's up to `match_index`."""
        self.match_index = max(self.match_index, match_index)
        self.next_index = max(self.next_index, match_index + 1)
        while self._inflight and self._inflight[0][0] <= match_index:
            _, entries, size = self._inflight.popleft()
            self._inflight_entries -= entries
            self._inflight_bytes -= size
        if self.flow is not Flow.REPLICATE:
            self.next_index = self.match_index + 1
            self._enter(Flow.REPLICATE)

    def refused(self, prev_log_index: int, agree_index: int) -> None:
        """The logs differ at `prev_log_index`; at `agree_index` they may agree. Old answers are ignored."""
        if prev_log_index <= self.match_index or (
            self.flow is not Flow.REPLICATE and prev_log_index != self.next_index - 1
        ):
            return
        self.next_index = max(self.match_index, min(agree_index, prev_log_index - 1)) + 1
        self._enter(Flow.PROBE)

    def refill(self) -> None:
        """A ResetLog was sent."""
        self._enter(Flow.REFILL)
        self.waiting = True

    def lost(self, last_log_index: int) -> None:
        """The member has lost acknowledged entries after `last_log_index`: probe its log again."""
        self.match_index = NO_INDEX
        self.next_index = last_log_index + 1
        self._enter(Flow.PROBE)

    def answered(self, sent: int) -> None:
        """The member has answered a heartbeat sent then: resend messages sent before that and not answered."""
        if sent <= self.sent_at:
            return
        self.waiting = False
        self.check = self.flow is Flow.REPLICATE and bool(self._inflight)

    def _enter(self, flow: Flow) -> None:
        self.flow = flow
        self.waiting = self.check = False
        self._inflight.clear()
        self._inflight_entries = self._inflight_bytes = 0
