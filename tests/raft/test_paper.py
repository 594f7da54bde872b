"""What the paper and the dissertation demand, by section. What is easier to read as a story is in `scenarios/`."""

import pytest

from ariane.raft import (
    AppendEntries,
    AppendReply,
    Entry,
    HardState,
    Heartbeat,
    Log,
    LogStart,
    Membership,
    MembershipRefused,
    Message,
    Node,
    NotLeader,
    Options,
    RequestVote,
    Role,
    SafetyViolation,
    TimeoutNow,
    TooManyUncommitted,
    TransferInProgress,
    Vote,
)
from tests.raft.group import OPTIONS, Group

GROUP = Membership(frozenset("abc"))


def member(
    terms: list[int] | None = None, hard_state: HardState | None = None, commit_index: int | None = None
) -> Node:
    """Start b with entries of these terms; the time is long after its start, so that it may vote."""
    entries = [Entry(index, term, index * 100, 100) for index, term in enumerate(terms or [])]
    log = Log(LogStart(GROUP), len(entries) - 1, entries.__getitem__, commit_index=commit_index)
    node = Node("b", log, hard_state or HardState(max(terms or [0])), OPTIONS, lambda: 0.9, 0)
    node.tick(OPTIONS.election_timeout)
    return node


def answers(node: Node, message: Message) -> list[Message]:
    """Give a message, complete all writes, and return what is sent."""
    node.step(message)
    sent: list[Message] = []
    while ready := node.ready():
        sent += ready.messages
        if ready.hard_state:
            node.vote_stored(ready.hard_state)
        if ready.write:
            node.persisted(ready.write.number)
    return sent


# -- 5.1: terms -------------------------------------------------------------------------------------------------


def test_5_1_a_stale_candidate_learns_the_term() -> None:
    node = member(hard_state=HardState(5))
    assert answers(node, RequestVote("a", "b", 4, 10, 4)) == [Vote("b", "a", 5, False)]


def test_5_1_a_stale_leader_learns_the_term_and_steps_down() -> None:
    group = Group("abc")
    group.elect("a")
    group.cut = {("a", "b"), ("b", "a"), ("a", "c"), ("c", "a")}
    group.quiet("c", 1000)
    group.campaign("b")
    group.stabilize()
    assert (group["a"].role, group["b"].role) == (Role.LEADER, Role.LEADER)
    group.cut = set()
    group.tick("a", 100)
    group.stabilize()
    assert group["a"].role is Role.FOLLOWER
    assert group["a"].hard_state.term == group["b"].hard_state.term


@pytest.mark.parametrize("leader", [True, False])
def test_5_1_whoever_sees_a_higher_term_becomes_follower(leader: bool) -> None:
    group = Group("abc", options=Options(pre_vote=False))
    group.campaign("a")
    if leader:
        group = Group("abc")
        group.elect("a")
    group["a"].step(Heartbeat("b", "a", 9, -1, 0))
    assert (group["a"].role, group["a"].hard_state, group["a"].leader) == (Role.FOLLOWER, HardState(9), "b")


# -- 5.2: elections ---------------------------------------------------------------------------------------------


def test_5_2_one_vote_in_a_term_first_come_first_served() -> None:
    node = member()
    assert answers(node, RequestVote("a", "b", 1, -1, -1)) == [Vote("b", "a", 1, True)]
    assert answers(node, RequestVote("c", "b", 1, -1, -1)) == [Vote("b", "c", 1, False)]
    assert answers(node, RequestVote("a", "b", 1, -1, -1)) == [Vote("b", "a", 1, True)]  # the answer was lost


def test_5_2_a_vote_leaves_after_it_is_stored() -> None:
    node = member()
    node.step(RequestVote("a", "b", 1, -1, -1))
    ready = node.ready()
    assert (ready.hard_state, ready.messages) == (HardState(1, "a"), ())
    assert not node.ready()
    node.vote_stored(HardState(1, "a"))
    assert node.ready().messages == (Vote("b", "a", 1, True),)


def test_5_2_a_vote_is_kept_over_a_restart() -> None:
    node = member(hard_state=HardState(1, "a"))
    assert answers(node, RequestVote("c", "b", 1, 10, 1)) == [Vote("b", "c", 1, False)]


def test_5_2_a_single_voter_leads_when_its_vote_is_stored() -> None:
    group = Group("a")
    group.campaign("a")
    assert group["a"].role is Role.CANDIDATE
    group.disk("a")
    assert group["a"].role is Role.LEADER
    assert group["a"].log.commit_index == 0


def test_5_2_a_split_vote_ends_with_another_election() -> None:
    group = Group("ab", options=Options(pre_vote=False))
    group.campaign("a")
    group.campaign("b")
    group.stabilize()
    assert {group["a"].role, group["b"].role} == {Role.CANDIDATE}
    group.elect("b")
    assert group["b"].hard_state.term == 2


def test_5_2_time_outs_are_spread_by_the_randomness_given() -> None:
    early = Node("a", Log(LogStart(GROUP)), HardState(), OPTIONS, lambda: 0.0, 0)
    late = Node("a", Log(LogStart(GROUP)), HardState(), OPTIONS, lambda: 0.999, 0)
    assert (early.deadline, late.deadline) == (1000, 1999)


# -- 5.3: replication -------------------------------------------------------------------------------------------


def test_5_3_an_acknowledgement_leaves_after_the_entries_are_durable() -> None:
    node = member()
    node.step(AppendEntries("a", "b", 1, -1, -1, (Entry(0, 1, 0, 100),), -1))
    ready = node.ready()
    assert ready.write
    assert ready.hard_state
    node.vote_stored(ready.hard_state)
    assert node.ready().messages == ()
    node.persisted(ready.write.number)
    assert node.ready().messages == (AppendReply("b", "a", 1, True, 0),)


def test_5_3_the_leader_counts_itself_after_its_own_disk() -> None:
    group = Group("abc")
    group.elect("a")
    group.members["c"].crash()
    group.propose("a", 1)
    for message in list(group.messages):
        group.deliver(message)
    group.disk("b")
    group.deliver(group.messages[-1])
    assert group["a"].log.commit_index == 0
    group.disk("a")
    assert group["a"].log.commit_index == 1


def test_5_3_two_followers_commit_without_the_leaders_disk() -> None:
    group = Group("abc")
    group.elect("a")
    group.propose("a", 1)
    for message in list(group.messages):
        group.deliver(message)
    group.disk("b")
    group.disk("c")
    for message in list(group.messages):
        group.deliver(message)
    assert (group["a"].log.commit_index, group["a"].log.persisted_index) == (1, 0)


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        ([1, 1, 1, 4, 4, 5, 5, 6, 6], (8, 6)),  # (a) one missing
        ([1, 1, 1, 4], (3, 4)),  # (b) many missing
        ([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 6], None),  # (c) one extra
        ([1, 1, 1, 4, 4, 5, 5, 6, 6, 6, 7, 7], None),  # (d) extra ones of a later term
        ([1, 1, 1, 4, 4, 4, 4], (6, 4)),  # (e) both
        ([1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3], (9, 3)),  # (f) both
    ],
)
def test_figure_7_a_follower_says_where_the_logs_can_agree(terms: list[int], expected: tuple[int, int] | None) -> None:
    """The leader of term 8 has the terms 1 1 1 4 4 5 5 6 6 6 and asks about its last entry, index 9."""
    node = member(terms)
    [reply] = answers(node, AppendEntries("a", "b", 8, 9, 6, (), -1))
    assert isinstance(reply, AppendReply)
    assert reply.success is (expected is None)
    if expected:
        assert (reply.hint_index, reply.hint_term) == expected


def test_5_3_a_conflicting_entry_and_all_after_it_are_removed() -> None:
    node = member([1, 1, 2, 2, 2])
    [reply] = answers(node, AppendEntries("a", "b", 3, 1, 1, (Entry(2, 3, 0, 1),), -1))
    assert reply == AppendReply("b", "a", 3, True, 2)
    assert (node.log.last_index, node.log.term(2)) == (2, 3)


def test_5_3_an_old_message_does_not_shorten_the_log() -> None:
    node = member()
    entries = tuple(Entry(index, 1, index, 1) for index in range(4))
    answers(node, AppendEntries("a", "b", 1, -1, -1, entries, -1))
    [reply] = answers(node, AppendEntries("a", "b", 1, -1, -1, entries[:1], -1))
    assert node.log.last_index == 3
    assert isinstance(reply, AppendReply)
    assert reply.match_index == 3


def test_5_3_commit_follows_the_leader_only_as_far_as_the_logs_are_known_to_agree() -> None:
    node = member([1, 1, 1])
    answers(node, AppendEntries("a", "b", 2, 0, 1, (), 2))
    assert node.log.commit_index == 0


# -- 5.4: safety ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("last_index", "last_term", "granted"), [(1, 2, True), (5, 1, False), (0, 3, True), (0, 2, False), (9, 2, True)]
)
def test_5_4_1_votes_go_to_logs_that_are_at_least_as_complete(last_index: int, last_term: int, granted: bool) -> None:
    node = member([1, 2])
    [vote] = answers(node, RequestVote("a", "b", 4, last_index, last_term))
    assert vote == Vote("b", "a", 4, granted)


def test_figure_8_an_entry_of_an_earlier_term_is_not_committed_by_counting() -> None:
    """The story is told in scenarios/figure_8.txt; this is the rule alone."""
    group = Group("abc")
    group.elect("a")
    group.markers = False
    group.propose("a", 1)
    group.disk("a")
    group.messages.clear()
    group.elect("a")  # in a later term, without an entry of its own
    assert group["a"].progress("b") == ("replicate", 1)
    assert group["a"].log.commit_index == 0
    group.propose("a", 1)
    group.stabilize()
    assert group["a"].log.commit_index == 2


def test_5_4_3_a_committed_entry_is_never_removed() -> None:
    node = member([1, 1], commit_index=1)
    with pytest.raises(SafetyViolation, match="up to 1 are committed"):
        node.step(AppendEntries("a", "b", 2, 0, 1, (Entry(1, 2, 0, 1),), 1))


def test_5_4_3_a_leader_without_a_committed_entry_is_a_reason_to_stop() -> None:
    node = member([1, 1], commit_index=1)
    with pytest.raises(SafetyViolation, match="has another entry 1"):
        node.step(AppendEntries("a", "b", 3, 1, 2, (), 1))


def test_5_2_two_leaders_of_a_term_are_a_reason_to_stop() -> None:
    group = Group("abc")
    group.elect("a")
    with pytest.raises(SafetyViolation, match="leads term 1 too"):
        group["a"].step(Heartbeat("b", "a", 1, -1, 0))


# -- 6 and dissertation 4: membership -----------------------------------------------------------------------------


def test_4_1_no_change_before_an_entry_of_the_term_is_committed() -> None:
    group = Group("abc")
    group.elect("a")
    group.markers = False
    group.elect("a")
    with pytest.raises(MembershipRefused, match="no entry of this term"):
        group["a"].change_membership(GROUP.without("c"), 0, 1)


def test_4_1_one_voter_at_a_time() -> None:
    group = Group("abcde")
    group.elect("a")
    with pytest.raises(MembershipRefused, match="one voter at a time"):
        group["a"].change_membership(Membership(frozenset("abc")), 0, 1)


def test_4_1_a_removed_entry_takes_its_membership_along() -> None:
    node = member([1])
    change = Entry(1, 1, 0, 1, GROUP.without("c"))
    answers(node, AppendEntries("a", "b", 1, 0, 1, (change,), 0))
    assert node.log.membership.voters == frozenset("ab")
    answers(node, AppendEntries("c", "b", 2, 0, 1, (Entry(1, 2, 0, 1),), 0))
    assert node.log.membership == GROUP


def test_4_2_1_a_learner_neither_counts_nor_campaigns_but_votes_when_asked() -> None:
    group = Group("ab", learners="l")
    group.elect("a")
    group.members["b"].crash()
    group.propose("a", 1)
    group.stabilize()
    assert group["l"].log.persisted_index == 1
    assert group["a"].log.commit_index == 0
    group.tick("l", 5000)
    assert group["l"].role is Role.FOLLOWER
    group["l"].step(RequestVote("b", "l", 7, 9, 7))
    group.work(group.members["l"])
    group.disk("l")
    assert Vote("l", "b", 7, True) in group.messages


def test_4_2_1_a_learner_far_behind_is_not_promoted() -> None:
    group = Group("ab", learners="l", options=Options(max_inflight_entries=5))
    group.elect("a")
    group.members["l"].crash()
    group.propose("a", 10)
    group.stabilize()
    with pytest.raises(MembershipRefused, match="l is 10 entries behind"):
        group["a"].change_membership(Membership(frozenset("abl")), 0, 1)


def test_4_2_2_a_removed_member_is_needed_until_its_removal_is_committed() -> None:
    """Figure 4.6: only the removed leader has the entry that removes it, so it must be able to lead once more."""
    group = Group("ab")
    group.elect("a")
    group["a"].change_membership(Membership(frozenset("b")), 0, 1)
    group.work(group.members["a"])
    group.disk("a")
    group.messages.clear()
    group.members["a"].crash()
    group.members["a"].boot()
    group.quiet("b", 1000)
    group.campaign("a")  # b, with the shorter log, could not win
    group.stabilize()
    assert group["b"].log.membership.voters == frozenset("b")
    assert group["b"].log.commit_index == group["b"].log.last_index
    assert group["a"].role is Role.FOLLOWER  # its own entry of the new term committed the removal


def test_4_2_3_a_removed_member_does_not_disturb() -> None:
    group = Group("abc", options=Options(pre_vote=False))
    group.elect("a")
    term = group["a"].hard_state.term
    group["b"].step(RequestVote("x", "b", 99, 99, 99))
    group["a"].step(RequestVote("x", "a", 99, 99, 99))
    assert (group["a"].hard_state.term, group["b"].hard_state.term) == (term, term)


def test_changes_wait_for_a_majority_that_is_up_and_votes() -> None:
    group = Group("abc")
    group.elect("a")
    group.members["c"].crash()
    for _ in range(12):
        group.tick("a", 100)
        group.stabilize()
    with pytest.raises(MembershipRefused, match="no majority of voters a c"):
        group["a"].change_membership(GROUP.without("b"), 0, 1)
    assert group["a"].change_membership(GROUP.without("c"), 0, 1) == 1


# -- dissertation 3.10: transfer ----------------------------------------------------------------------------------


def test_3_10_proposals_are_refused_during_a_transfer_and_taken_after_it_failed() -> None:
    group = Group("abc")
    group.elect("a")
    group.members["b"].crash()
    group["a"].transfer("b")
    with pytest.raises(TransferInProgress):
        group.propose("a", 1)
    for _ in range(11):
        group.tick("a", 100)
        group.stabilize()
    group.propose("a", 1)
    group.stabilize()
    assert group["a"].log.commit_index == 1


def test_3_10_who_is_no_voter_ignores_an_early_election() -> None:
    group = Group("ab", learners="l")
    group.elect("a")
    group["l"].step(TimeoutNow("a", "l", group["a"].hard_state.term, 0))
    assert group["l"].role is Role.FOLLOWER


# -- dissertation 6.2 and 6.4: what clients see -------------------------------------------------------------------


def test_6_2_only_the_leader_takes_proposals_and_the_others_name_it() -> None:
    group = Group("abc")
    group.elect("a")
    with pytest.raises(NotLeader, match="ask a") as raised:
        group["b"].propose([(0, 1)])
    assert raised.value.leader == "a"


def test_6_4_1_a_lease_counts_from_the_heartbeat_that_a_majority_answered() -> None:
    group = Group("abc")
    group.elect("a")
    group.tick("a", 100)
    sent = group.members["a"].now
    group.tick("a", 50)
    group.stabilize()
    assert group["a"].lease_end == sent + OPTIONS.election_timeout - OPTIONS.lease_margin


def test_6_4_1_no_lease_before_an_entry_of_the_term_is_committed() -> None:
    group = Group("abc")
    group.elect("a")
    group.markers = False
    group.elect("a")
    group.tick("a", 100)
    group.stabilize()
    assert group["a"].lease_end is None
    assert not group["a"].term_committed


def test_6_4_1_no_lease_after_a_transfer_was_tried() -> None:
    group = Group("abc")
    group.elect("a")
    group.members["b"].crash()
    group["a"].transfer("b")
    group.work(group.members["a"])
    group.stabilize()
    for _ in range(12):
        group.tick("a", 100)
        group.stabilize()
    assert group["a"].role is Role.LEADER
    assert group["a"].lease_end is None


def test_6_4_1_a_restarted_voter_respects_the_lease_it_no_longer_knows() -> None:
    group = Group("abc")
    group.elect("a")
    group.members["b"].crash()
    group.members["b"].boot()
    group["b"].step(RequestVote("c", "b", 9, 9, 9))
    assert group["b"].hard_state.term == group["a"].hard_state.term


# -- members that have lost something: see recovery.py and scenarios/wiped_member.txt ------------------------------


def test_an_abstention_is_stored_before_anything_is_said() -> None:
    """A member that lost its log but not its term file would look healthy after the next crash."""
    node = member(hard_state=HardState(3, "a", abstaining=True))
    ready = node.ready()
    assert (ready.hard_state, ready.messages) == (HardState(3, "a", abstaining=True), ())
    node.vote_stored(HardState(3, "a", abstaining=True))
    assert {message.target for message in node.ready().messages} == {"a", "c"}


def test_an_abstaining_member_answers_votes_with_no() -> None:
    node = member(hard_state=HardState(3, abstaining=True))
    sent = answers(node, RequestVote("a", "b", 4, 9, 9))
    assert Vote("b", "a", 4, False) in sent


# -- limits -------------------------------------------------------------------------------------------------------


def test_proposals_are_refused_when_too_many_wait_for_a_majority() -> None:
    group = Group("abc", options=Options(max_uncommitted_entries=3))
    group.elect("a")
    group.propose("a", 3)
    with pytest.raises(TooManyUncommitted, match="3 entries wait"):
        group.propose("a", 1)
    group.stabilize()
    group.propose("a", 1)


def test_inherited_entries_do_not_keep_a_leader_from_its_first_entry() -> None:
    group = Group("abc", options=Options(max_uncommitted_entries=3))
    group.elect("a")
    group.propose("a", 3)
    group.disk("a")
    group.messages.clear()
    group.elect("a")
    assert group["a"].log.commit_index == 4


def test_bytes_in_flight_are_limited_too_and_a_large_entry_goes_alone() -> None:
    group = Group("ab", options=Options(max_batch_bytes=250, max_inflight_bytes=500))
    group.elect("a")
    group.propose("a", 7)  # of 100 bytes each
    sent = [len(m.entries) for m in group.messages if isinstance(m, AppendEntries)]
    assert sent == [2, 2, 1]
    group.stabilize()
    group["a"].propose([(0, 10_000)])
    group.work(group.members["a"])
    group.stabilize()
    assert group["b"].log.commit_index == 8
