"""A sample of the simulator's seeds, and proof that it notices when the core is broken. All seeds: `make simulate`."""

import subprocess
import sys
from collections import Counter

import pytest

from tests.raft.mutants import MUTANTS
from tests.raft.simulator.world import World

SAMPLE, DEEP = 240, 4000  # seeds; `make simulate` runs more


@pytest.mark.parametrize("part", range(4))
def test_nothing_is_violated_in_a_sample_of_seeds(part: int, deep: bool) -> None:
    for seed in range(part, DEEP if deep else SAMPLE, 4):
        try:
            World(seed).run()
        except Exception as error:
            pytest.fail(f"seed {seed}: {error}\nreplay: make simulate SEED={seed}")


def test_a_seed_replays() -> None:
    assert World(11).run() == World(11).run()
    assert World(11).run() != World(12).run()


def test_the_sample_reaches_what_can_go_wrong() -> None:
    counts: Counter[str] = Counter()
    for seed in range(60):
        counts.update(World(seed).run())
    wanted = {
        "became leader",
        "acknowledged",
        "truncations",
        "resets",
        "torn entries",
        "lost term file",
        "wiped disk",
        "membership change",
        "transfer",
        "pause",
        "partition",
        "one-way cut",
        "doubled",
        "crash between steps",
    }
    assert wanted <= {name for name, count in counts.items() if count}


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [mutant.__name__ for mutant in MUTANTS])
def test_a_broken_core_is_noticed(mutant: str) -> None:
    command = [sys.executable, "-m", "tests.raft.broken", mutant]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
