"""The replication stream between master and slave, as RocketMQ 4.9 speaks it, and Ariane's handshake before it.

Big-endian, without a version and without authentication:

| direction       | frame                                     | meaning                                           |
|-----------------|-------------------------------------------|---------------------------------------------------|
| slave to master | int64                                     | first: send from here; later: my log ends here    |
| master to slave | int64 offset, int32 size, `size` bytes    | bytes of the log; size 0 is a heartbeat           |

Between Ariane nodes a handshake comes first. The slave opens it with the report `GREETING` (-1), which Apache's master
treats as "no report yet" and ignores: it does not answer, and the slave continues with a plain report. An Ariane
master answers with a frame at the offset `GREETING`; from there on both sides send such frames, each a proof (32 bytes)
and a JSON text:

    slave   GREETING
    master  MasterHello      its identity, and a nonce
    slave   SlaveHello       its identity, what it reports, a nonce, and the proof that it has the shared key
    master  Welcome          its epochs and log range, and its own proof; or why the slave is refused
    slave   Resume           the offset to start from, and a checksum of the bytes before; then plain reports follow

A slave that asks for `TABLES` gets, on a connection of its own, `Tables` in the place of the Welcome: what RocketMQ has
no request for.

Apache peers never see this handshake.
"""

import hmac
from collections.abc import Iterator
from struct import Struct
from typing import Final, TypeVar
from zlib import crc32

import msgspec

from ariane.errors import ProtocolError

REPORT: Final = Struct(">q")
HEAD: Final = Struct(">qi")  # offset, size
GREETING: Final = -1
PROOF_SIZE: Final = 32
MAX_FRAME: Final = 64 << 20
"""The largest frame of log bytes that a slave takes. Apache's slave takes 4 MiB."""
MAX_HANDSHAKE: Final = 1 << 20
MAX_HELLO: Final = 16 << 10
"""The largest frame of the handshake that a master takes: peers that have proved nothing send it."""
MAX_TABLES: Final = 32 << 20
"""The largest frame with tables that a slave takes."""
CHECKED: Final = 1 << 16
"""A slave proves the bytes before its end by a checksum of at most this many of them."""
VERSION: Final = 1
LOG: Final = "log"
TABLES: Final = "tables"
"""What a slave may want of its master (`SlaveHello.wants`)."""


class EpochEntry(msgspec.Struct, frozen=True, array_like=True):
    """The log from `start` on was written by a master of this epoch; `run` names one run of that master.

    A promotion raises the epoch. A restart of the same master keeps it and begins another run: after a power cut a
    master may have lost bytes that a slave still has, so that their logs diverge within one epoch.
    """

    epoch: int
    start: int
    run: str


class MasterHello(msgspec.Struct, frozen=True):
    """The master's answer to the greeting."""

    version: int
    cluster: str
    broker: str
    nonce: str


class SlaveHello(msgspec.Struct, frozen=True):
    """Identifies the slave: `node` names its store, `flushed` says that it reports only durable bytes."""

    version: int
    cluster: str
    broker: str
    nonce: str
    node: str
    learner: bool
    flushed: bool
    wants: str = LOG


class Welcome(msgspec.Struct, frozen=True):
    """The master's log, or in `refused` the reason (a `Refusal`) why the slave may not follow it.

    `waits`: sends wait for this slave's reports, so it should report as soon as it can.
    """

    refused: str = ""
    text: str = ""
    epochs: tuple[EpochEntry, ...] = ()
    first: int = 0
    end: int = 0
    file_size: int = 0
    waits: bool = False


class Resume(msgspec.Struct, frozen=True):
    """Where the slave's log ends, and the CRC-32 of its bytes from `checked_from` to there."""

    offset: int
    checked_from: int
    crc: int


class Tables(msgspec.Struct, frozen=True):
    """Tables of the master: those that anybody may read who may read the log, and `sealed` ones for holders of the key.

    A refusal is a `Welcome`.
    """

    plain: bytes = b""
    sealed: bytes = b""


class Refusal:
    """Why a master does not serve a slave."""

    KEY: Final = "key"
    NAME: Final = "name"
    DIVERGED: Final = "diverged"
    RANGE: Final = "range"


_T = TypeVar("_T")


def frame_head(offset: int, size: int) -> bytes:
    """The head of a frame from a master; `size` bytes of the log follow."""
    return HEAD.pack(offset, size)


def handshake_frame(message: msgspec.Struct, key: bytes, challenge: str) -> bytes:
    """A frame of the handshake, with a proof for the peer's `challenge` when there is a key."""
    text = msgspec.json.encode(message)
    return HEAD.pack(GREETING, PROOF_SIZE + len(text)) + proof(key, challenge, type(message).__name__, text) + text


def handshake_message(body: bytes, kind: type[_T], key: bytes, challenge: str) -> tuple[_T, bool]:
    """Decode the body of a handshake frame. The second value tells whether its proof is right."""
    given, text = body[:PROOF_SIZE], body[PROOF_SIZE:]
    try:
        message = msgspec.json.decode(text, type=kind)
    except msgspec.DecodeError as error:
        raise ProtocolError(f"no {kind.__name__} of the replication handshake: {error}") from None
    return message, hmac.compare_digest(given, proof(key, challenge, kind.__name__, text))


def proof(key: bytes, challenge: str, kind: str, text: bytes) -> bytes:
    """The HMAC of a challenge, which proves possession of the key; zeros without a key."""
    if not key:
        return bytes(PROOF_SIZE)
    return hmac.digest(key, f"{kind}\n{challenge}\n".encode() + text, "sha256")


def checksum(*parts: bytes | memoryview) -> int:
    """The checksum of a `Resume`."""
    value = 0
    for part in parts:
        value = crc32(part, value)
    return value


class ReportDecoder:
    """Decodes what a slave sends: reports, and while `framed` is set, bodies of handshake frames.

    >>> list(ReportDecoder().feed(REPORT.pack(0) + REPORT.pack(70)))
    [0, 70]
    """

    def __init__(self) -> None:
        self.framed = False
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[int | bytes]:
        """Yield reports as integers, handshake bodies as bytes; incomplete data is kept for the next call."""
        data = self._rest + data
        at, end = 0, len(data)
        while True:
            self._rest = data[at:]
            if not self.framed:
                if end - at < REPORT.size:
                    return
                at += REPORT.size
                yield REPORT.unpack_from(data, at - REPORT.size)[0]
                continue
            if end - at < HEAD.size:
                return
            offset, size = HEAD.unpack_from(data, at)
            if offset != GREETING or not PROOF_SIZE <= size <= MAX_HELLO:
                raise ProtocolError("no frame of the replication handshake")
            if end - at < HEAD.size + size:
                return
            at += HEAD.size + size
            yield data[at - size : at]


class StreamDecoder:
    """Decodes what a master sends into (offset, bytes).

    No bytes: a heartbeat. The offset `GREETING`: the body of a handshake frame. The bytes of a large frame
    come in pieces, as they arrive. They are slices of what is fed.

    >>> [(offset, bytes(data)) for offset, data in StreamDecoder().feed(HEAD.pack(70, 2) + b"ab" + HEAD.pack(72, 0))]
    [(70, b'ab'), (72, b'')]
    """

    def __init__(self, longest: int = MAX_HANDSHAKE) -> None:
        self._longest = longest  # bytes of a handshake frame
        self._rest = b""
        self._offset = 0
        self._left = 0

    def feed(self, data: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
        """Yield the frames and pieces of frames in `data`, continuing from earlier data."""
        if self._rest:
            data = self._rest + data
            self._rest = b""
        view = memoryview(data)
        at, end = 0, len(view)
        while at < end:
            if self._left:
                size = min(self._left, end - at)
                offset = self._offset
                self._offset += size
                self._left -= size
                at += size
                yield offset, view[at - size : at]
                continue
            if end - at < HEAD.size:
                break
            offset, size = HEAD.unpack_from(view, at)
            if offset < GREETING or not 0 <= size <= (self._longest if offset == GREETING else MAX_FRAME):
                raise ProtocolError(f"no frame of a replication stream: offset {offset}, size {size}")
            if offset == GREETING:
                if end - at < HEAD.size + size:
                    break
                at += HEAD.size + size
                yield offset, view[at - size : at]
                continue
            at += HEAD.size
            if size:
                self._offset, self._left = offset, size
            else:
                yield offset, view[at:at]
        self._rest = bytes(view[at:])
