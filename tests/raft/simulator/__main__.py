"""Run seeds: `python -m tests.raft.simulator 100000 --jobs 2`; show one: `python -m tests.raft.simulator --seed 17`."""

import argparse
import sys
import time
import traceback
from collections import Counter
from multiprocessing import Pool

from tests.raft.simulator.world import World


def run(seed: int) -> tuple[int, Counter[str], str]:
    """Run one seed; the text is what went wrong."""
    world = World(seed)
    try:
        return seed, world.run(), ""
    except Exception:
        return seed, world.counts, traceback.format_exc()


def main() -> int:
    """Run what the command line says; 1 when a seed failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.raft.simulator", description=__doc__)
    parser.add_argument("seeds", type=int, nargs="?", default=1000, help="how many seeds to run")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=1, help="processes to run them in")
    parser.add_argument("--seed", type=int, help="run this one only, and show what happens")
    arguments = parser.parse_args()
    if arguments.seed is not None:
        World(arguments.seed, show=True).run()
        return 0
    began = time.monotonic()
    counts: Counter[str] = Counter()
    failed = []
    with Pool(arguments.jobs) as pool:
        seeds = range(arguments.first, arguments.first + arguments.seeds)
        for seed, counted, error in pool.imap_unordered(run, seeds, chunksize=20):
            counts.update(counted)
            if error:
                failed.append(seed)
                print(f"seed {seed} failed:\n{error}replay: make simulate SEED={seed}", file=sys.stderr, flush=True)
    seconds = time.monotonic() - began
    rate = arguments.seeds / seconds * 60
    print(f"{arguments.seeds} seeds in {seconds:.0f} s ({rate:.0f} a minute), {len(failed)} failed")
    for name, number in sorted(counts.items(), key=lambda pair: -pair[1]):
        print(f"{number:12,} {name}")
    if failed:
        print(f"failed: {sorted(failed)[:20]}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
