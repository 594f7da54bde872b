"""Power cuts of the whole group, among them the one that ended Apache's: a torn last entry and a lost term file."""

from collections import Counter

from tests.raft.mutants import no_checksums
from tests.raft.simulator.checker import Violation
from tests.raft.simulator.faults import lose_term_file, power_cut
from tests.raft.simulator.world import World

SEEDS = 60


def run(seed: int) -> Counter[str]:
    world = World(seed, voters=3, storm=False, kinds=[power_cut, lose_term_file], promises=False)
    for member in world.members.values():
        member.sync_time = 100  # much is unsynced at any time
    return world.run()


def damaged() -> int:
    """Count the seeds in which something is violated."""
    count = 0
    for seed in range(SEEDS):
        try:
            run(seed)
        except Violation:
            count += 1
    return count


def test_apaches_power_cut_disaster_loses_nothing_and_the_group_leads_again() -> None:
    counts: Counter[str] = Counter()
    for seed in range(SEEDS):
        counts.update(run(seed))
    assert counts["power cut of all"] > SEEDS
    assert counts["torn entries"] > 10
    assert counts["lost term file"] > 10
    assert counts["acknowledged"] > 1000


def test_apaches_recovery_without_checksums_commits_a_torn_entry() -> None:
    with no_checksums():
        assert damaged()
