"""Changes valid input in the ways that break parsers. The same seed makes the same changes."""

from collections.abc import Sequence
from random import Random
from struct import pack
from typing import Final

TOKENS: Final = [
    b'"', b"\\", b"\\u0001", b"\\ud800", b"{", b"}", b"[", b"]", b":", b",", b"null", b"true", b"NaN", b"-0", b"000",
    b"1e999", b"9" * 30, b"-1", b"\x00", b"\x01", b"\x02", b"\xff\xfe", b"\xed\xa0\x80", b"\xf4\x90\x80\x80",
    b"'", b"''", b"(", b")", b" AND ", b" OR ", b" NOT ", b" BETWEEN ", b" IN (", b" IS NULL", b"--", b"/*",
    b"*/", b"%RETRY%", b"%DLQ%", b"@", b"../", b'{"', b'":{',
    b"[" * 300, b'{"a":' * 100, b"(" * 100, b'"extFields":', b'"opaque":',
]  # fmt: skip
NUMBERS: Final = (0, 1, -1, 4, 127, 128, 255, 256, 32767, -32768, 65535, 1 << 24, (1 << 31) - 1, -(1 << 31), 1 << 30)
LONGEST: Final = 1 << 14


class Mutator:
    """Makes new input of seeds."""

    def __init__(self, seeds: Sequence[bytes], random: Random) -> None:
        self._seeds = [seed[:LONGEST] for seed in seeds]
        self._random = random

    def next(self) -> bytes:
        """A seed with one to six changes; now and then a seed as it is."""
        random = self._random
        data = bytearray(random.choice(self._seeds))
        for _ in range(random.choice((0, 1, 1, 1, 2, 2, 3, 6))):
            self._change(data)
        return bytes(data[:LONGEST])

    def _change(self, data: bytearray) -> None:
        random = self._random
        size = len(data)
        at = random.randrange(size + 1)
        kind = random.randrange(10)
        if kind == 0 and at < size:
            data[at] ^= 1 << random.randrange(8)
        elif kind == 1 and at < size:
            data[at] = random.randrange(256)
        elif kind == 2:
            data[at:at] = random.choice(TOKENS)
        elif kind == 3:
            token = random.choice(TOKENS)
            data[at : at + len(token)] = token
        elif kind == 4:
            del data[at : at + random.choice((1, 1, 2, 8, 100, size))]
        elif kind == 5:
            part = data[at : at + random.choice((1, 4, 16, 64))]
            data[at:at] = part * random.choice((1, 2, 3, 50))
        elif kind == 6:
            data[at : at + 4] = pack(">i", random.choice(NUMBERS))
        elif kind == 7:
            data[at : at + 2] = pack(">h", random.choice((0, -1, 1, 32767, -32768, size & 0x7FFF)))
        elif kind == 8:
            other = random.choice(self._seeds)
            start = random.randrange(len(other) + 1)
            data[at:] = other[start:]
        elif size >= 8:  # a length that is nearly right
            value = int.from_bytes(data[at : at + 4], "big") + random.choice((-1, 1, 4, size))
            data[at : at + 4] = pack(">I", value & 0xFFFFFFFF)
