"""The committed offset of each group in each queue.

A committed offset moves forward. It moves back only on purpose: by a reset, by a two-way update, or by a commit of the
client that reads the queue now. A late commit of a former reader is refused.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Final

from ariane.broker.seldom_log import SeldomLog
from ariane.broker.tables.shares import Shares
from ariane.env import Clock
from ariane.protocol.bodies import ConsumerOffsetTable
from ariane.protocol.codes import ResponseCode
from ariane.remoting.gates import Peer
from ariane.remoting.limits import LimitExceeded, Reason, Refusals

log = logging.getLogger("ariane.broker")

SEPARATOR: Final = "@"
COMMITTED_HERE: Final = "committedHere"
"""Field of GET_ALL_CONSUMER_OFFSET between Ariane's brokers: only what clients committed on the slave itself."""


def offset_key(topic: str, group: str) -> str:
    """The key of a group's offsets in a topic."""
    return f"{topic}{SEPARATOR}{group}"


def split_key(key: str) -> tuple[str, str]:
    """Topic and group of a key."""
    topic, _, group = key.partition(SEPARATOR)
    return topic, group


class OffsetTable:
    """Committed offsets by topic@group and queue."""

    def __init__(self, clock: Clock, most: int, most_per_account: int, refusals: Refusals) -> None:
        self._most = most
        self._shares = Shares(most_per_account)
        self._refusals = refusals
        self._late = SeldomLog(log, clock)
        self._full = SeldomLog(log, clock)
        self._offsets: dict[str, dict[int, int]] = {}
        self._readers: dict[str, dict[int, str]] = {}
        self._resets: dict[str, dict[int, int]] = {}  # a client may still move back to these
        self._pending: dict[str, dict[int, int]] = {}  # the next pull is redirected to these
        self.refused = 0
        """Commits that would have moved an offset back by accident."""
        self.dirty = False
        """Whether an offset changed since consumerOffset.json was last written; its writer clears this."""
        self.unreplicated: set[str] | None = None
        """On the leader of a DLedger group: keys that changed since the last record in the log."""
        self._changed: set[str] = set()  # keys whose offsets changed since the journal was last written
        self.copies_master = False
        """On a slave: commits of clients are kept in `committed_here` until the master has them."""
        self.committed_here: dict[str, dict[int, int]] = {}

    def get(self, group: str, topic: str, queue_id: int) -> int:
        """The committed offset, -1 when there is none."""
        queues = self._offsets.get(f"{topic}{SEPARATOR}{group}")
        return -1 if queues is None else queues.get(queue_id, -1)

    def queues(self, group: str, topic: str) -> dict[int, int]:
        """All committed offsets of a group in a topic."""
        return dict(self._offsets.get(offset_key(topic, group), {}))

    def commit(
        self,
        group: str,
        topic: str,
        queue_id: int,
        offset: int,
        *,
        by: str = "",
        explicit: bool = False,
        creator: Peer | None = None,
    ) -> bool:
        """Commit an offset; False when it is refused because it would move back by accident."""
        key = offset_key(topic, group)
        return self.commit_by_key(key, queue_id, offset, by=by, explicit=explicit, creator=creator)

    def commit_by_key(
        self,
        key: str,
        queue_id: int,
        offset: int,
        *,
        by: str = "",
        explicit: bool = False,
        creator: Peer | None = None,
    ) -> bool:
        """Like `commit`, for a caller that has the key."""
        queues = self._offsets.get(key)
        committed = -1 if queues is None else queues.get(queue_id, -1)
        if offset == committed:
            return True
        if self._pending.get(key, {}).get(queue_id, offset) != offset:
            return False  # the reader has not seen the reset yet
        if offset < committed and not (explicit or self._may_go_back(key, queue_id, offset, by)):
            self._refuse(key, queue_id, offset, committed)
            return False
        if queues is None:
            full = self._full_for(creator)
            if full is not None:
                self._full.warning("%s: no offset is kept: %s", key, full[1])
                self._refusals.count(full[0])
                return False
            self._shares.add(key, creator)
            queues = self._offsets[key] = {}
        queues[queue_id] = offset
        if self.copies_master:
            self.committed_here.setdefault(key, {})[queue_id] = offset
        self._mark(key)
        return True

    def check_room(self, group: str, topic: str, by: Peer) -> None:
        """Raise LimitExceeded if a commit would add a topic and group beyond the limit."""
        if offset_key(topic, group) in self._offsets:
            return
        full = self._full_for(by)
        if full is not None:
            remark = f"no offset of group[{group}] in topic[{topic}] is kept: {full[1]}; delete unused groups"
            raise LimitExceeded(full[0], ResponseCode.SYSTEM_ERROR, remark)

    def _full_for(self, by: Peer | None) -> tuple[Reason, str] | None:
        if len(self._offsets) >= self._most:
            text = f"the broker keeps those of {self._most} topics and groups (consumerOffsetMax)"
            return Reason.OFFSETS, text
        account = self._shares.is_used_up(by)
        if account:
            return Reason.OFFSETS_PER_ACCOUNT, f"{account} has as many as one may (consumerOffsetPerAccountMax)"
        return None

    def awaits_reset(self, group: str, topic: str, queue_id: int) -> bool:
        """Whether commits are refused because the group has not pulled since a reset by the broker alone."""
        return queue_id in self._pending.get(offset_key(topic, group), {})

    def reading(self, key: str, queue_id: int, reader: str) -> None:
        """Note the reader of a queue by the address of its connection."""
        readers = self._readers.get(key)
        if readers is None:
            self._readers[key] = {queue_id: reader}
        else:
            readers[queue_id] = reader

    def raise_to(self, key: str, queue_id: int, offset: int) -> None:
        """Take over the offset of another DLedger member, unless the local one is higher."""
        queues = self._offsets.setdefault(key, {})
        if offset > queues.get(queue_id, -1):
            queues[queue_id] = offset
            self._mark(key)

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Set an offset, forward or back, and let the group's clients commit the same offset afterwards."""
        key = offset_key(topic, group)
        self._offsets.setdefault(key, {})[queue_id] = offset
        self._resets.setdefault(key, {})[queue_id] = offset
        self._mark(key)

    def reset_at_next_pull(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Reset without the client's help: redirect its next pull to the offset, and refuse its commits until then."""
        self.reset(group, topic, queue_id, offset)
        self._pending.setdefault(offset_key(topic, group), {})[queue_id] = offset

    def take_pending(self, key: str, queue_id: int) -> int | None:
        """The offset to which a pull of this queue is redirected, once."""
        pending = self._pending.get(key)
        if pending is None:
            return None
        offset = pending.pop(queue_id, None)
        if not pending:
            del self._pending[key]
        if self.unreplicated is not None:
            self.unreplicated.add(key)
        return offset

    def pending(self) -> dict[str, dict[int, int]]:
        """The offsets to which the next pulls are redirected."""
        return self._pending

    @property
    def has_pending(self) -> bool:
        """Whether any pull may have to be redirected."""
        return bool(self._pending)

    def clone(self, source: str, target: str, topic: str) -> None:
        """Copy the offsets of one group to another."""
        offsets = self._offsets.get(offset_key(topic, source))
        if offsets is not None:
            key = offset_key(topic, target)
            self._offsets[key] = dict(offsets)
            self._mark(key)

    def keys(self) -> list[str]:
        """Every `topic@group` that has offsets."""
        return list(self._offsets)

    def topics_of(self, group: str) -> set[str]:
        """Topics in which a group has committed."""
        return {t for t, g in map(split_key, self._offsets) if g == group}

    def groups_of(self, topic: str) -> set[str]:
        """Groups that have committed in a topic."""
        return {g for t, g in map(split_key, self._offsets) if t == topic}

    def groups(self) -> set[str]:
        """Groups that have committed in any topic."""
        return {split_key(key)[1] for key in self._offsets}

    def remove_group(self, group: str) -> None:
        """Delete all offsets of a group."""
        self._remove(key for key in self._offsets if split_key(key)[1] == group)

    def remove_topic(self, topic: str) -> None:
        """Delete all offsets in a topic."""
        self._remove(key for key in self._offsets if split_key(key)[0] == topic)

    def drop_dead_queues(self, queue_exists: Callable[[str, int], bool]) -> int:
        """Delete the offsets of queues that no longer exist; return their number."""
        dropped = 0
        for key, queues in list(self._offsets.items()):
            topic = split_key(key)[0]
            for queue_id in [q for q in queues if not queue_exists(topic, q)]:
                del queues[queue_id]
                self._mark(key)
                dropped += 1
            if not queues:
                self._remove([key])
        for key in [key for key in self._readers if key not in self._offsets]:
            del self._readers[key]
        return dropped

    def limit_to(self, queue_end: Callable[[str, int], int]) -> int:
        """Move offsets beyond the end of their queue back to it; return their number.

        After a power cut the log may have lost messages that were consumed. New messages take their offsets, and a
        group whose offset was not moved back would skip them.
        """
        moved = 0
        for key, queues in self._offsets.items():
            topic = split_key(key)[0]
            for queue_id, offset in queues.items():
                end = max(queue_end(topic, queue_id), 0)
                if offset > end:
                    queues[queue_id] = end
                    self._mark(key)
                    moved += 1
        return moved

    def lowest(self, topic: str, leave_out: Iterable[str] = ()) -> dict[int, int]:
        """The lowest offset of each queue among all groups except those left out."""
        lowest: dict[int, int] = {}
        skipped = set(leave_out)
        for key, queues in self._offsets.items():
            of_topic, group = split_key(key)
            if of_topic == topic and group not in skipped:
                for queue_id, offset in queues.items():
                    lowest[queue_id] = min(offset, lowest.get(queue_id, offset))
        return lowest

    def table(self) -> ConsumerOffsetTable:
        """The body of GET_ALL_CONSUMER_OFFSET, and the content of consumerOffset.json."""
        return ConsumerOffsetTable(self._offsets)

    def load(self, table: ConsumerOffsetTable) -> None:
        """Replace all offsets by those of an earlier run or of a master."""
        self._offsets = {key: dict(queues) for key, queues in table.offset_table.items()}

    def take_from_master(self, table: ConsumerOffsetTable) -> ConsumerOffsetTable:
        """Take a master's offsets; those that clients committed here and the master does not have yet are kept.

        Returns the latter, for the master. Everything else is the master's, lower values too: it was reset there.
        """
        ahead: dict[str, dict[int, int]] = {}
        for key, queues in table.offset_table.items():
            own, here = self._offsets.setdefault(key, {}), self.committed_here.get(key, {})
            for queue_id, offset in queues.items():
                if here.get(queue_id, -1) <= offset:
                    here.pop(queue_id, None)
                    if own.get(queue_id) != offset:
                        own[queue_id] = offset
                        self._mark(key)
            if not here:
                self.committed_here.pop(key, None)
        for key, here in self.committed_here.items():
            ahead[key] = dict(here)
        return ConsumerOffsetTable(ahead)

    @property
    def has_changes(self) -> bool:
        """Whether an offset changed since `take_changes`."""
        return bool(self._changed)

    def take_changes(self) -> bytes:
        """The offsets of every topic and group that changed since the last call; a removed one has no queues."""
        if not self._changed:
            return b""
        changed, self._changed = self._changed, set()
        return ConsumerOffsetTable({key: self._offsets.get(key, {}) for key in changed}).encode()

    def apply_changes(self, data: bytes) -> None:
        """Apply changes that `take_changes` returned in an earlier run."""
        for key, queues in ConsumerOffsetTable.decode(data).offset_table.items():
            if queues:
                self._offsets[key] = queues
            else:
                self._offsets.pop(key, None)

    def replace(self, table: ConsumerOffsetTable, pending: dict[str, dict[int, int]]) -> None:
        """Replace all offsets and resets by those that a DLedger group has committed."""
        old, self._offsets = self._offsets, {key: dict(queues) for key, queues in table.offset_table.items()}
        self._pending = {key: dict(queues) for key, queues in pending.items()}
        for key in old.keys() | self._offsets.keys():
            if old.get(key) != self._offsets.get(key):
                self._mark(key)

    def apply(self, offsets: dict[str, dict[int, int]], pending: dict[str, dict[int, int]]) -> None:
        """Take changes of the leader of a DLedger group: -1 removes a queue, a key without queues all of them.

        An offset that a client committed here stays until the leader has it, unless the leader has moved back: that
        was a reset.
        """
        for key, queues in offsets.items():
            if not queues:
                self._remove([key])
                continue
            own, here = self._offsets.setdefault(key, {}), self.committed_here.get(key, {})
            for queue_id, offset in queues.items():
                ahead = here.get(queue_id, -1)
                if ahead > offset >= own.get(queue_id, -1):
                    continue
                here.pop(queue_id, None)
                if offset < 0:
                    own.pop(queue_id, None)
                else:
                    own[queue_id] = offset
            if not here:
                self.committed_here.pop(key, None)
            self._mark(key)
        for key, queues in pending.items():
            waiting = self._pending.setdefault(key, {})
            for queue_id, offset in queues.items():
                if offset < 0:
                    waiting.pop(queue_id, None)
                else:
                    waiting[queue_id] = offset
            if not queues or not waiting:
                del self._pending[key]

    def _mark(self, key: str) -> None:
        self.dirty = True
        self._changed.add(key)
        if self.unreplicated is not None:
            self.unreplicated.add(key)

    def _may_go_back(self, key: str, queue_id: int, offset: int, by: str) -> bool:
        resets = self._resets.get(key)
        if resets is not None and resets.get(queue_id) == offset:
            del resets[queue_id]
            return True
        return by != "" and self._readers.get(key, {}).get(queue_id) == by

    def _refuse(self, key: str, queue_id: int, offset: int, committed: int) -> None:
        self.refused += 1
        self._late.warning("%s queue %d: a late commit of %d leaves the offset at %d", key, queue_id, offset, committed)

    def _remove(self, keys: Iterable[str]) -> None:
        for key in list(keys):
            for table in (self._offsets, self._readers, self._resets, self._pending, self.committed_here):
                table.pop(key, None)
            self._shares.remove(key)
            self._mark(key)
