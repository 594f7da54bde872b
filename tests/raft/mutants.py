"""The core, broken on purpose: each mutant lacks one rule, and the simulator must notice.

The checks of single answers against the disk are off for them (`promises=False`): what is found is the damage done.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from unittest.mock import patch

from ariane.raft import HardState, Log, Membership
from ariane.raft.follower import Follower
from ariane.raft.leader import Leader
from ariane.raft.messages import AppendEntries
from ariane.raft.node import Node
from ariane.raft.outbox import Outbox
from ariane.raft.recovery import Recovery
from ariane.raft.state import Become
from tests.raft.simulator.disk import Disk
from tests.raft.simulator.faults import change_membership, cut_one_link, partition


def acknowledge_before_persisted() -> AbstractContextManager[object]:
    """A follower answers when it has written an entry, not when the entry is durable: Apache's DLedger."""

    def acknowledge(self: Follower) -> None:
        self._reply(success=True, match_index=self.matched)

    return patch.object(Follower, "_acknowledge", acknowledge)


def count_own_entries_before_persisted() -> AbstractContextManager[object]:
    """The leader counts itself at once."""
    commit = Leader._commit

    def commit_unsynced(self: Leader) -> Become | None:
        log, durable = self.state.log, self.state.log.persisted_index
        log.persisted_index = log.last_index
        become = commit(self)
        log.persisted_index = durable
        return become

    return patch.object(Leader, "_commit", commit_unsynced)


def commit_older_terms_by_counting() -> AbstractContextManager[object]:
    """Figure 8: an entry of an earlier term is committed because a majority has it."""

    def commit(self: Leader) -> None:
        log = self.state.log
        matches = {member: progress.match_index for member, progress in self.progress.items()}
        matches[self.state.id] = log.persisted_index
        log.commit(log.membership.quorum_value(matches))

    return patch.object(Leader, "_commit", commit)


def truncate_without_a_check() -> AbstractContextManager[object]:
    """Figure 8 again, with members that remove committed entries instead of stopping."""
    truncate = Log.truncate

    def truncate_all(self: Log, index: int) -> None:
        self.commit_index = min(self.commit_index, index - 1)
        truncate(self, index)

    stack = ExitStack()
    stack.enter_context(commit_older_terms_by_counting())
    stack.enter_context(patch.object(Log, "truncate", truncate_all))
    return stack


def vote_twice() -> AbstractContextManager[object]:
    """A vote for everybody who asks."""
    return patch.object(Node, "_may_vote", lambda self, candidate, term: True)


def vote_before_it_is_stored() -> AbstractContextManager[object]:
    """Messages leave while the term file is being written."""
    return patch.object(Outbox, "durable", property(lambda self: True))


def vote_for_shorter_logs() -> AbstractContextManager[object]:
    """The election restriction (5.4.1) is missing."""
    return patch.object(Log, "up_to_date", lambda self, index, term: True)


def append_without_comparing() -> AbstractContextManager[object]:
    """A follower appends whatever comes, without looking at the entry before (5.3)."""
    append_entries = Follower._append_entries

    def append(self: Follower, message: AppendEntries) -> None:
        term = self.state.log.term(message.prev_log_index)
        append_entries(self, message if term is None else message._replace(prev_log_term=term))

    return patch.object(Follower, "_append_entries", append)


def start_without_the_lost_term() -> AbstractContextManager[object]:
    """A member that has lost its term and vote starts as if it were new: Apache's `currterm`."""
    recover = Disk.recover

    def recover_anyway(self: Disk, options: object) -> tuple[Log, HardState]:
        return recover(self, options)[0], self.hard_state or HardState()  # type: ignore[arg-type]

    return patch.object(Disk, "recover", recover_anyway)


def end_recovery_at_once() -> AbstractContextManager[object]:
    """A member that has lost something votes as soon as it hears a leader."""
    return patch.object(Recovery, "complete", lambda self, matched: True)


def vote_while_a_leader_is_heard() -> AbstractContextManager[object]:
    """A leader's lease is not respected."""
    return patch.object(Node, "hears_leader", property(lambda self: False))


def change_the_group_during_a_change() -> AbstractContextManager[object]:
    """A second change before the first is committed: two voters at once, in effect."""
    check = Leader.check_membership

    def check_less(self: Leader, membership: Membership) -> None:
        with patch.object(Log, "membership_index", -1):
            check(self, membership)

    return patch.object(Leader, "check_membership", check_less)


def no_checksums() -> AbstractContextManager[object]:
    """Recovery takes a torn entry as good: Apache's recovery."""
    init = Disk.__init__

    def without(self: Disk, membership: object, random: object, checksums: bool = False) -> None:
        init(self, membership, random, False)  # type: ignore[arg-type]

    return patch.object(Disk, "__init__", without)


# Each with the weather that shows it soon: seeds alternate between storms and other weather, unless said.
EVERYTHING: dict[str, object] = {}
SHORT_REIGNS: dict[str, object] = {"storm": True, "kinds": []}
CUT_LINKS: dict[str, object] = {"storm": False, "kinds": [cut_one_link]}
CHANGES: dict[str, object] = {"voters": 5, "storm": False, "restless": True, "kinds": [change_membership, partition]}
MUTANTS: dict[Callable[[], AbstractContextManager[object]], dict[str, object]] = {
    acknowledge_before_persisted: EVERYTHING,
    count_own_entries_before_persisted: EVERYTHING,
    commit_older_terms_by_counting: SHORT_REIGNS,
    truncate_without_a_check: SHORT_REIGNS,
    vote_twice: EVERYTHING,
    vote_before_it_is_stored: EVERYTHING,
    vote_for_shorter_logs: EVERYTHING,
    append_without_comparing: EVERYTHING,
    start_without_the_lost_term: EVERYTHING,
    end_recovery_at_once: EVERYTHING,
    vote_while_a_leader_is_heard: CUT_LINKS,
    no_checksums: EVERYTHING,
    change_the_group_during_a_change: CHANGES,
}
