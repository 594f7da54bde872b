"""One slave's connection, as its master sees it."""

import asyncio
import logging
from collections import deque
from dataclasses import dataclass
from typing import Protocol, cast

from ariane.env import Clock
from ariane.errors import ProtocolError
from ariane.ha.options import HaOptions
from ariane.protocol.ha import (
    CHECKED,
    GREETING,
    TABLES,
    VERSION,
    EpochEntry,
    MasterHello,
    Refusal,
    ReportDecoder,
    Resume,
    SlaveHello,
    Tables,
    Welcome,
    checksum,
    frame_head,
    handshake_frame,
    handshake_message,
)
from ariane.remoting.outgoing import write_lines
from ariane.store.log.log import Log

log = logging.getLogger("ariane.ha")

HIGH_WATER = 1 << 20  # bytes of the log that wait in a socket's buffer
READS_UNREPORTED = 1  # frames that may be on the way to a slave that reports what it has received
FLUSHES_UNREPORTED = 4  # the same for one that reports what it has flushed: it receives during a flush
SLICE = 1 << 19  # bytes of the log that are sent in one turn of the loop
PAUSE = 0.001  # seconds before the next slice while messages arrive: catching up must not slow down their sends
ARRIVING = 0.05  # seconds after a message in which the next one is expected


@dataclass(slots=True)
class SlaveProgress:
    """The master's view of a slave."""

    address: str
    node: str
    """Names the copy: an Ariane slave's store, or the host of an Apache slave."""
    acknowledged: int
    """The end of the log that the slave reported last."""
    sent: int
    lag: int
    flushed: bool
    """Whether the slave reports only what is durable."""
    learner: bool
    in_sync: bool
    ariane: bool


class Owner(Protocol):
    """The part of a master that a connection uses."""

    options: HaOptions

    def opened(self, sender: "Sender") -> bool: ...

    def greeted(self, sender: "Sender") -> None: ...

    def reported(self, sender: "Sender") -> None: ...

    def closed(self, sender: "Sender") -> None: ...

    def refuse(self, sender: "Sender", what: str, text: str) -> None: ...

    def take_budget(self, size: int) -> int: ...

    def epochs(self) -> tuple[EpochEntry, ...]: ...

    def nonce(self) -> str: ...

    def sends_wait(self) -> bool: ...

    def tables(self, sender: "Sender", slave_nonce: str) -> Tables: ...


class Sender(asyncio.Protocol):
    """Takes the reports of one slave and sends it the log from there on."""

    def __init__(self, owner: Owner, source: Log, clock: Clock) -> None:
        self.address = ""
        self.host = ""
        self.node = ""
        self.acknowledged = -1  # -1: no first report yet
        self.next = -1
        self.learner = False
        self.flushed = False
        self.ariane = False
        self.last_read = self.last_write = clock.monotonic()
        self._owner = owner
        self._log = source
        self._clock = clock
        self._decoder = ReportDecoder()
        self._transport: asyncio.Transport | None = None
        self._next_slice: asyncio.Handle | None = None
        self._grown_to = -1  # the end of the log when it was last seen to grow, and when that was
        self._grown_at = 0.0
        self._paused_at = -1.0  # when the socket's buffer became full; -1: it is not
        self._unreported: deque[int] = deque()
        """Ends of the log at which everything was sent, and that the slave has not reported; record boundaries all."""
        self.nonce = ""
        """The challenge that the slave must sign with the shared key."""
        self._greeting = 0  # the step of the handshake that is expected next

    @property
    def following(self) -> bool:
        """Whether the slave has made a valid first report."""
        return self.acknowledged >= 0

    # -- the connection -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(HIGH_WATER)
        peer = transport.get_extra_info("peername") or ("", 0)
        self.host = str(peer[0])
        self.node = self.host  # several plain connections of one host count as one copy
        self.address = f"{peer[0]}:{peer[1]}"
        if not self._owner.opened(self):
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._next_slice is not None:
            self._next_slice.cancel()
            self._next_slice = None
        self._owner.closed(self)

    def pause_writing(self) -> None:
        self._paused_at = self._clock.monotonic()

    def resume_writing(self) -> None:
        self._paused_at = -1.0
        self.pump()

    def stuck(self, now: float, limit: float) -> bool:
        """Whether the slave has read nothing for longer than `limit` seconds."""
        return 0 <= self._paused_at < now - limit

    def forget(self) -> None:
        """Stop counting this slave and sending to it."""
        self.acknowledged = self.next = -1

    def abort(self) -> None:
        """Drop the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    # -- receiving ------------------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self.last_read = self._clock.monotonic()
        before = self.acknowledged
        try:
            for event in self._decoder.feed(data):
                if self._transport is None or self._transport.is_closing():
                    return
                if isinstance(event, bytes):
                    self._handshake(event)
                elif not self.following:
                    self._first_report(event)
                else:
                    self._report(event)
        except ProtocolError as error:
            self._owner.refuse(self, "garbage", str(error))
        if self.acknowledged > before:
            self._owner.reported(self)

    def _first_report(self, offset: int) -> None:
        options = self._owner.options
        if offset == GREETING and not self._greeting:
            self._greeting = 1
            self._decoder.framed = True
            self.nonce = self._owner.nonce()
            self._write(handshake_frame(MasterHello(VERSION, options.cluster, options.broker, self.nonce), b"", ""))
        elif options.key and not options.allows(self.host):
            self._owner.refuse(self, "key", "it did not prove the shared key; set haKey there or allow its address")
        elif offset == 0:
            self._begin(self._first_offset(), 0)
        elif self._in_range(offset):
            self._begin(offset, offset)
        else:
            held = f"this log goes from {max(self._log.min_offset, 0)} to {self._log.stored}"
            self._owner.refuse(self, "range", f"it asks for offset {offset}, and {held}")

    def _first_offset(self) -> int:
        """Where an empty slave starts."""
        first = max(self._log.min_offset, 0)
        if self._owner.options.from_last_file:
            return max(first, self._log.stored - self._log.stored % self._log.file_size)
        return first

    def _in_range(self, offset: int) -> bool:
        return max(self._log.min_offset, 0) <= offset <= self._log.stored

    def _begin(self, start: int, acknowledged: int) -> None:
        self.next = start
        self.acknowledged = acknowledged
        self._owner.greeted(self)
        self._owner.reported(self)
        self.heartbeat()
        self.pump()

    def _report(self, offset: int) -> None:
        if self.acknowledged <= offset <= self.next:
            self.acknowledged = offset
            if self._unreported and self._unreported[0] <= offset:
                while self._unreported and self._unreported[0] <= offset:
                    self._unreported.popleft()
                self.pump()
        else:
            known = f"{self.acknowledged} was reported and {self.next} sent"
            self._owner.refuse(self, "report", f"it reports offset {offset}, but {known}")

    # -- the handshake --------------------------------------------------------------------------------------------

    def _handshake(self, body: bytes) -> None:
        options = self._owner.options
        if self._greeting == 1:
            hello, proved = handshake_message(body, SlaveHello, options.key.encode(), self.nonce)
            self._greeting = 2
            if options.key and not proved:
                self._refuse_handshake(Refusal.KEY, "the shared key of slave and master differ", hello.nonce)
            elif (hello.cluster, hello.broker) != (options.cluster, options.broker):
                theirs = f"the slave is {hello.broker} of cluster {hello.cluster}"
                ours = f"the master is {options.broker} of cluster {options.cluster}"
                self._refuse_handshake(Refusal.NAME, f"{theirs}, {ours}", hello.nonce)
            elif hello.wants == TABLES:
                tables = self._owner.tables(self, hello.nonce)
                self._write(handshake_frame(tables, options.key.encode(), hello.nonce))
                self.close()
            else:
                self.node, self.learner, self.flushed, self.ariane = hello.node, hello.learner, hello.flushed, True
                first, end = max(self._log.min_offset, 0), self._log.stored
                welcome = Welcome(
                    epochs=self._owner.epochs(),
                    first=self._first_offset() if options.from_last_file else first,
                    end=end,
                    file_size=self._log.file_size,
                    waits=self._owner.sends_wait() and not hello.learner,
                )
                self._write(handshake_frame(welcome, options.key.encode(), hello.nonce))
            return
        resume, _ = handshake_message(body, Resume, b"", "")
        self._decoder.framed = False
        if not self._in_range(resume.offset):
            held = f"the master's log goes from {max(self._log.min_offset, 0)} to {self._log.stored}"
            self._refuse_handshake(Refusal.RANGE, f"the slave asks for offset {resume.offset}, and {held}", "")
        elif not self._same_bytes(resume):
            text = f"the bytes before offset {resume.offset} differ between slave and master"
            self._refuse_handshake(Refusal.DIVERGED, text, "")
        else:
            self._begin(resume.offset, resume.offset)

    def _same_bytes(self, resume: Resume) -> bool:
        start = max(resume.checked_from, self._log.min_offset, 0)
        if not 0 <= resume.offset - resume.checked_from <= CHECKED:
            return False
        if start != resume.checked_from:
            return True  # the master has deleted the bytes to compare
        return checksum(*stored_bytes(self._log, start, resume.offset)) == resume.crc

    def _refuse_handshake(self, what: str, text: str, challenge: str) -> None:
        key = self._owner.options.key.encode() if challenge else b""
        self._write(handshake_frame(Welcome(refused=what, text=text), key, challenge))
        self._owner.refuse(self, what, text)

    # -- sending --------------------------------------------------------------------------------------------------

    def pump(self) -> None:
        """Send the bytes that the slave lacks, as far as socket and budget allow, but no more than a slice in one turn.

        A slave that sends wait for reports each read at once. While it owes such reports, new messages are gathered
        for it: one frame per round trip costs both sides much less than one per message, and delays none for longer.
        """
        if self.next < 0 or self._transport is None or self._transport.is_closing() or self._next_slice is not None:
            return
        if len(self._unreported) >= (FLUSHES_UNREPORTED if self.flushed else READS_UNREPORTED):
            return
        end, most = self._log.stored, self._owner.options.transfer_batch
        slice_end = self.next + SLICE
        while self.next < end and self._paused_at < 0:
            if self.next >= slice_end:
                self._continue_later(end)
                return
            size = self._owner.take_budget(most)
            if size <= 0:
                return
            view = self._log.raw(self.next, size)
            if view is None:
                self._owner.refuse(self, "range", f"the log from offset {self.next} on was deleted before it was sent")
                return
            write_lines(self._transport, (frame_head(self.next, len(view)), view))
            self.last_write = self._clock.monotonic()
            self.next += len(view)
            if self.next == end and not self.learner and self._owner.sends_wait():
                self._unreported.append(end)

    def _continue_later(self, end: int) -> None:
        """Send the next slice in another turn; while messages arrive, after a pause."""
        loop, now = asyncio.get_running_loop(), self._clock.monotonic()
        if end > self._grown_to:
            self._grown_to, self._grown_at = end, now
        if now - self._grown_at < ARRIVING:
            self._next_slice = loop.call_later(PAUSE, self._send_slice)
        else:
            self._next_slice = loop.call_soon(self._send_slice)

    def _send_slice(self) -> None:
        self._next_slice = None
        self.pump()

    def heartbeat(self) -> None:
        """Send a heartbeat to the slave."""
        self._write(frame_head(self.next, 0))

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)
            self.last_write = self._clock.monotonic()

    def close(self) -> None:
        """Close the connection after pending writes."""
        if self._transport is not None:
            self._transport.close()


def stored_bytes(source: Log, start: int, end: int) -> list[memoryview]:
    """The bytes of a log from `start` to `end`, in slices that do not cross a file."""
    slices: list[memoryview] = []
    while start < end and (view := source.raw(start, end - start)) is not None:
        slices.append(view)
        start += len(view)
    return slices
