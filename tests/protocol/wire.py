"""The frames recorded from Apache RocketMQ 4.9.7, with each response beside its request."""

import base64
import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from struct import pack
from typing import Any

FIXTURES = Path(__file__).parent.parent / "fixtures"
RECORDINGS = ("wire-json", "wire-rocketmq")


@dataclass(frozen=True)
class Recorded:
    """One frame as it was on the wire, and what the recorder read out of it."""

    link: str
    connection: int
    to_server: bool
    kind: str
    code: int
    header: dict[str, Any]
    raw_header: bytes
    body: bytes

    @property
    def frame(self) -> bytes:
        binary = self.header["serializeTypeCurrentRPC"] == "ROCKETMQ"
        size = len(self.raw_header)
        return pack(">iI", 4 + size + len(self.body), int(binary) << 24 | size) + self.raw_header + self.body

    @property
    def fields(self) -> dict[str, str]:
        return self.header.get("extFields") or {}


@cache
def recording(name: str) -> tuple[Recorded, ...]:
    with gzip.open(FIXTURES / f"{name}.jsonl.gz") as lines:
        return tuple(_recorded(json.loads(line)) for line in lines)


def _recorded(row: dict[str, Any]) -> Recorded:
    return Recorded(
        row["link"],
        row["conn"],
        row["dir"] == "c2s",
        row["kind"],
        row["code"],
        row["header"],
        base64.b64decode(row["header_base64"]),
        base64.b64decode(row["body_base64"]),
    )


def everything() -> Iterator[Recorded]:
    for name in RECORDINGS:
        yield from recording(name)


def exchanges() -> Iterator[tuple[Recorded, Recorded]]:
    """Requests with their responses."""
    for name in RECORDINGS:
        asked: dict[tuple[str, int, int, bool], Recorded] = {}
        for frame in recording(name):
            place = (frame.link, frame.connection, frame.header["opaque"])
            if frame.kind == "request":
                asked[(*place, frame.to_server)] = frame
            elif frame.kind == "response" and (*place, not frame.to_server) in asked:
                yield asked.pop((*place, not frame.to_server)), frame
