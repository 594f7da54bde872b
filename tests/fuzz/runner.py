"""Runs a decoder against mutated input, and keeps what it fails on."""

import os
from hashlib import sha256
from pathlib import Path
from random import Random

from tests.fuzz.decoders import Target
from tests.fuzz.mutate import Mutator

KEPT = Path(".cache/fuzz")
MEMORY = 64 << 20  # bytes that decoding may leave behind


class Finding(AssertionError):
    """A decoder raised what it must not, or disagreed; the text says how to repeat it."""


def run(name: str, target: Target, count: int, seed: int) -> None:
    """Feed a number of inputs to a decoder; Finding at the first that it does not handle."""
    random = Random(f"{name} {seed}")
    mutator = Mutator(target.seeds, random)
    before = 0
    for number in range(count):
        data = mutator.next()
        if target.mutated_inside is not None:
            data = target.mutated_inside(data)
        state = random.getstate()
        try:
            target.run(data, random)
        except target.allowed:
            pass
        except Exception as error:
            random.setstate(state)
            raise Finding(_kept(name, data, error)) from error
        if number == min(count // 10, 10_000):  # caches are full now
            before = resident_bytes()
    grown = resident_bytes() - before
    if before and grown > MEMORY:
        raise Finding(f"{name}: {grown >> 20} MiB more memory after {count} inputs (seed {seed})")


def _kept(name: str, data: bytes, error: Exception) -> str:
    KEPT.mkdir(parents=True, exist_ok=True)
    file = KEPT / f"{name}-{sha256(data).hexdigest()[:12]}"
    file.write_bytes(data)
    return (
        f"{name}: {type(error).__name__}: {error}\n  {data[:300]!r}\n  repeat with: python -m tests.fuzz {name} {file}"
    )


def resident_bytes(process: int | str = "self") -> int:
    """The resident memory of a process; 0 where /proc is missing."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")
