"""The index of a ledger, whose newest units are in memory until a checkpoint."""

import random
from pathlib import Path

from ariane.dledger.storage.index import LedgerIndex
from ariane.env import SystemFiles

UNITS = 1 << 12  # of a file


def test_units_are_found_wherever_they_are(tmp_path: Path) -> None:
    index, chance = LedgerIndex(tmp_path, SystemFiles(), UNITS), random.Random(1)
    known: list[tuple[int, int, int]] = []
    while len(known) < 3 * UNITS:
        for _ in range(chance.randrange(1, 1500)):
            known.append((len(known) * 100, 100, 1 + len(known) // 1000))
            index.put(len(known) - 1, *known[-1])
        first, count = chance.randrange(len(known)), chance.randrange(1, 3000)
        found = index.units(first, count)
        assert 0 < len(found) <= count
        assert found == [known[n] if n < len(known) else None for n in range(first, first + len(found))]
        if chance.random() < 0.2:
            index.sync_job()()
    assert [index.get(number) for number in range(len(known))] == known
    assert index.get(len(known)) is None
    index.close()
    again = LedgerIndex(tmp_path, SystemFiles(), UNITS)
    assert [again.get(number) for number in range(len(known))] == known
    again.close()


def test_a_unit_that_is_put_again_replaces_the_old_one(tmp_path: Path) -> None:
    index = LedgerIndex(tmp_path, SystemFiles(), UNITS)
    for number in range(10):
        index.put(number, number * 100, 100, 1)
    for number in range(5, 8):  # truncated, and written by another leader
        index.put(number, number * 100, 100, 2)
    assert [unit and unit[2] for unit in index.units(0, 8)] == [1] * 5 + [2] * 3
    index.close()
