"""The log as the core sees it: terms as runs, durable and committed ends, old entries read from the driver."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.raft import Entry, Log, LogStart, Membership, SafetyViolation
from ariane.raft.terms import Terms

START = LogStart(Membership(frozenset("abc")))


def entries(first: int, terms: list[int], position: int = 0) -> list[Entry]:
    return [Entry(index, term, position + index, 10) for index, term in enumerate(terms, first)]


@given(st.lists(st.integers(0, 3)), st.data())
def test_runs_of_terms_say_what_a_plain_list_says(steps: list[int], data: st.DataObject) -> None:
    terms = Terms(first=0, previous_term=-1)
    plain = [-1]  # the term at index i is plain[i + 1]
    first = -1
    for step in steps:
        action = data.draw(st.sampled_from(["append", "append", "append", "truncate", "forget"]))
        last = len(plain) - 2
        if action == "append":
            plain.append(max(plain[-1], 0) + step)
            terms.append(last + 1, plain[-1])
        elif action == "truncate" and last > first:
            index = data.draw(st.integers(first + 1, last))
            del plain[index + 1 :]
            terms.truncate(index)
        elif action == "forget" and last > first:
            first = data.draw(st.integers(first + 1, last + 1)) - 1
            terms.forget(first + 1)
        last = len(plain) - 2
        assert terms.last == last
        assert [terms.at(index) for index in range(first, last + 1)] == plain[first + 1 :]
        assert terms.at(first - 1) is None
        assert terms.at(last + 1) is None
        index, term = data.draw(st.integers(first, last + 2)), data.draw(st.integers(0, 6))
        agree = [i for i in range(first, min(index, last) + 1) if plain[i + 1] <= term]
        assert terms.last_at_most(index, term) == (agree[-1] if agree else first)
        found = Terms.search(first + 1, plain[first + 1], last, lambda index: plain[index + 1])
        assert [found.at(index) for index in range(first - 1, last + 2)] == [
            terms.at(index) for index in range(first - 1, last + 2)
        ]


def test_a_report_of_removed_entries_does_not_count_for_those_in_their_place() -> None:
    """The same index and term may be written, removed and written again before the first sync is reported."""
    log = Log(START)
    log.append(entries(0, [1, 1, 1]))
    first = log.take_write()
    log.truncate(1)
    log.append(entries(1, [2]))
    second = log.take_write()
    log.truncate(1)
    log.append(entries(1, [3, 3]))
    third = log.take_write()
    assert first
    assert second
    assert third
    log.persisted(first.number)
    assert log.persisted_index == 0
    log.persisted(second.number)
    assert log.persisted_index == 0
    log.persisted(third.number)
    assert log.persisted_index == 2


def test_entries_that_were_never_handed_out_are_removed_without_a_word() -> None:
    log = Log(START)
    log.append(entries(0, [1, 1]))
    log.truncate(1)
    log.append(entries(1, [2]))
    write = log.take_write()
    assert write
    assert write.truncate_from is None
    assert [entry.term for entry in write.entries] == [1, 2]
    assert log.take_write() is None


def test_the_lowest_of_several_truncations_is_handed_out() -> None:
    log = Log(START)
    log.append(entries(0, [1, 1, 1, 1]))
    log.take_write()
    log.truncate(3)
    log.truncate(1)
    log.append(entries(1, [2]))
    write = log.take_write()
    assert write
    assert (write.truncate_from, [entry.index for entry in write.entries]) == (1, [1])


def test_truncation_below_the_commit_index_is_fatal() -> None:
    log = Log(START)
    log.append(entries(0, [1, 1]))
    log.commit(1)
    with pytest.raises(SafetyViolation):
        log.truncate(1)
    assert log.last_index == 1


def test_old_entries_are_read_from_the_driver() -> None:
    disk: list[Entry] = []
    log = Log(START, read=disk.__getitem__, cached_entries=4)
    for index in range(100):
        log.append(entries(index, [1]))
        write = log.take_write()
        assert write
        disk += write.entries
        log.persisted(write.number)
    assert len(log._tail) <= 9
    assert log.entries(0, 100, 10_000) == tuple(disk)
    assert len(log.entries(0, 100, 55)) == 5


def test_entries_not_durable_yet_stay_in_memory() -> None:
    log = Log(START, cached_entries=1)
    log.append(entries(0, [1] * 10))
    write = log.take_write()
    log.append(entries(10, [1] * 10))
    log.take_write()
    assert write
    log.persisted(write.number)
    assert [entry.index for entry in log.entries(10, 100, 10_000)] == list(range(10, 20))


def test_a_compacted_log_knows_the_term_before_its_start_and_the_membership() -> None:
    smaller = Membership(frozenset("ab"))
    log = Log(START)
    log.append([*entries(0, [1, 1]), Entry(2, 2, 2, 10, smaller), *entries(3, [2, 3])])
    write = log.take_write()
    assert write
    log.persisted(write.number)
    log.commit(4)
    log.compact(log.start_at(4, position=40))
    assert log.start == LogStart(smaller, 4, 40, previous_term=2)
    assert (log.term(3), log.term(2), log.membership) == (2, None, smaller)
    log.compact(START)  # an old report changes nothing
    assert log.start.index == 4


def test_only_committed_entries_may_be_deleted() -> None:
    log = Log(START)
    log.append(entries(0, [1, 1]))
    with pytest.raises(ValueError, match="only committed"):
        log.compact(log.start_at(1, 0))


def test_a_checkpoint_beyond_the_end_of_the_log_is_refused() -> None:
    with pytest.raises(ValueError, match="entries are lost"):
        Log(START, commit_index=3)
