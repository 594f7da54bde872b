"""`python -m tests.raft.broken MUTANT`: look for the damage that a mutant of the core does, seed by seed.

A process of its own, because mutants replace methods of the core, which compiled classes do not allow: here the core is
the plain one, whatever is installed.
"""

import sys
from collections.abc import Sequence
from importlib.machinery import SOURCE_SUFFIXES, FileFinder, ModuleSpec, SourceFileLoader
from types import ModuleType

ENOUGH = 3000  # seeds in which a mutant must be noticed; most need less than a hundred


class PlainCore:
    """Imports the core from its sources."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, _: ModuleType | None = None) -> ModuleSpec | None:
        if path is None or not name.startswith("ariane.raft."):
            return None
        return FileFinder(path[0], (SourceFileLoader, SOURCE_SUFFIXES)).find_spec(name)


def search(name: str) -> str:
    """The first seed in which the mutant is noticed, and as what; empty when there is none."""
    from tests.raft.mutants import MUTANTS
    from tests.raft.simulator.checker import Violation
    from tests.raft.simulator.world import World

    mutant, world = next((one, world) for one, world in MUTANTS.items() if one.__name__ == name)
    with mutant():
        for seed in range(ENOUGH):
            try:
                World(seed, promises=False, **{"voters": 3, "storm": seed % 2 == 0, **world}).run()  # type: ignore[arg-type]
            except Violation as violation:
                if "liveness" not in str(violation):  # damage is wanted, not only a group that stands still
                    return f"seed {seed}: {violation}"
    return ""


if __name__ == "__main__":
    sys.meta_path.insert(0, PlainCore)
    found = search(sys.argv[1])
    print(found or f"not noticed in {ENOUGH} seeds")
    sys.exit(not found)
