"""`make fuzz`: a million inputs for every decoder, and recorded frames against a live broker.

python -m tests.fuzz                          every decoder, and the broker
python -m tests.fuzz --count 10000 batch      some decoders
python -m tests.fuzz batch .cache/fuzz/...    repeat an input that failed
"""

import argparse
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from random import Random

from tests.fuzz.decoders import targets
from tests.fuzz.live import attack
from tests.fuzz.runner import Finding, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("names", nargs="*", help="decoders, or a decoder and a file to repeat")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--frames", type=int, default=100_000, help="frames against the live broker")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    chosen = parser.parse_args()
    if len(chosen.names) == 2 and Path(chosen.names[1]).is_file():
        targets()[chosen.names[0]].run(Path(chosen.names[1]).read_bytes(), Random(chosen.seed))
        return 0
    names = chosen.names or [*targets(), "live"]
    failed = 0
    with ProcessPoolExecutor(chosen.jobs) as pool:
        work = {name: pool.submit(one, name, chosen.count, chosen.frames, chosen.seed) for name in names}
        for name, result in work.items():
            text, good = result.result()
            print(f"{name:24} {text}", flush=True)
            failed += not good
    return 1 if failed else 0


def one(name: str, count: int, frames: int, seed: int) -> tuple[str, bool]:
    """Run one decoder; what to print, and whether all is well."""
    started = time.monotonic()
    try:
        if name == "live":
            text = attack(frames, seed)
        else:
            run(name, targets()[name], count, seed)
            text = f"{count} inputs"
    except Finding as finding:
        return str(finding), False
    return f"{text} in {time.monotonic() - started:.0f} s", True


if __name__ == "__main__":
    sys.exit(main())
