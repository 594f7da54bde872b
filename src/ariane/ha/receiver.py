"""One connection of a slave to its master."""

import asyncio
from collections.abc import Callable
from typing import Protocol, cast

from ariane.env import Clock
from ariane.errors import ProtocolError
from ariane.ha.epochs import Epochs, common_end
from ariane.ha.options import HaOptions
from ariane.ha.sender import stored_bytes
from ariane.ha.state import SlavePhase
from ariane.protocol.ha import (
    CHECKED,
    GREETING,
    REPORT,
    VERSION,
    MasterHello,
    Refusal,
    Resume,
    SlaveHello,
    StreamDecoder,
    Welcome,
    checksum,
    handshake_frame,
    handshake_message,
)
from ariane.protocol.log_records import RecordCutter
from ariane.protocol.units import BLANK_MAGIC
from ariane.store import MessageStore

READ = 1 << 17  # bytes that are read at once: they stay in the processor's cache until they are dispatched
HEAD_SIZE = 8  # size and magic of a record
BLANK_HEAD = BLANK_MAGIC.to_bytes(4, "big")

_PHASES = {
    Refusal.KEY: SlavePhase.REFUSED,
    Refusal.NAME: SlavePhase.WRONG_NAME,
    Refusal.DIVERGED: SlavePhase.DIVERGED,
    Refusal.RANGE: SlavePhase.REFUSED,  # files were deleted meanwhile: the next attempt starts at another offset
}


class Owner(Protocol):
    """The part of a slave that a connection uses."""

    options: HaOptions

    def followed(self, receiver: "Receiver") -> None: ...

    def received(self, end: int, master_end: int) -> None: ...

    def give_up(self, phase: SlavePhase, reason: str) -> None: ...

    def lost(self, receiver: "Receiver", reason: str) -> None: ...

    def truncated(self, end: int) -> None: ...


class Receiver(asyncio.BufferedProtocol):
    """Greets the master, finds the common end of both logs, and appends what the master sends.

    The store's log only grows by whole records; `RecordCutter` holds back incomplete ones. All reads use one buffer:
    fresh memory for each would cost more than all other work on the bytes.
    """

    def __init__(
        self, owner: Owner, store: MessageStore, epochs: Epochs | None, clock: Clock, nonce: Callable[[], str]
    ) -> None:
        self.ariane = False
        self.flushed = owner.options.report == "flushed"
        self.last_read = self.last_write = clock.monotonic()
        self.reported = -1
        self._owner = owner
        self._store = store
        self._epochs = epochs
        self._clock = clock
        self._buffer = memoryview(bytearray(READ))
        self._decoder = StreamDecoder()
        self._cutter: RecordCutter | None = None
        self._transport: asyncio.Transport | None = None
        self._nonce = nonce()
        self._step = 0  # of the handshake: 0 greeting sent, 1 hello sent, 2 resume sent, 3 data
        self._welcome: Welcome | None = None
        self._start = -1  # where the master was asked to start
        self._ready = False  # whether this log was found to agree with the master's, so that its end may be reported
        self._closed = False
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        """Done when the master has answered the greeting."""

    # -- the connection -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._write(REPORT.pack(GREETING))

    def connection_lost(self, exc: Exception | None) -> None:
        self._closed = True
        if not self.answered.done():
            self.answered.set_result(False)
        self._owner.lost(self, "" if exc is None else str(exc))

    def abort(self) -> None:
        """Drop the connection."""
        self._closed = True
        if self._transport is not None:
            self._transport.abort()

    @property
    def catch_up_to(self) -> int:
        """The end of the master's log at the handshake; -1 when there was none."""
        return -1 if self._welcome is None else self._welcome.end

    @property
    def following(self) -> bool:
        """Whether the first report was sent."""
        return self._start >= 0

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self._closed and not self._transport.is_closing():
            self._transport.write(data)
            self.last_write = self._clock.monotonic()

    # -- receiving ------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.last_read = self._clock.monotonic()
        pieces: list[memoryview] = []
        size = 0
        at = -1 if self._cutter is None else self._cutter.position + self._cutter.held_size
        try:
            for offset, piece in self._decoder.feed(self._buffer[:nbytes]):
                if self._closed:
                    return
                if offset == GREETING:
                    self._handshake(bytes(piece))
                    continue
                if at < 0:
                    at = self._first_frame(offset)
                    if at < 0:
                        return
                if offset != at + size:
                    raise ProtocolError(f"the master sent offset {offset}, and this log continues at {at + size}")
                if len(piece):
                    pieces.append(piece)
                    size += len(piece)
            if pieces:
                self._append(pieces)
            elif at >= 0:
                self._owner.received(self._store.log.stored, at)
        except ProtocolError as error:
            self.abort()
            self._owner.give_up(SlavePhase.DAMAGED, str(error))
        except OSError as error:  # disk full: the store reports it, and the slave reconnects later
            self.abort()
            self._owner.lost(self, f"the log cannot be written: {error}")

    def _append(self, pieces: list[memoryview]) -> None:
        assert self._cutter is not None
        data, size = self._cutter.cut(pieces)
        if not size:
            return
        at = self._cutter.position - size
        # A report goes first where sends wait for it. Else one wake-up does all the work of a transfer.
        if not self._store.append_raw(at, data, size, gather=self._waited_for):
            self.abort()
            self._owner.lost(self, self._store.health.text or f"the log does not end at {at}")
            return
        end = self._store.log.stored
        self._owner.received(end, self._cutter.position + self._cutter.held_size)
        if not self.flushed:
            self.report(end)
        elif self._waited_for:
            self._store.when_flushed(end, self._when_flushed)

    @property
    def _waited_for(self) -> bool:
        return self._welcome is None or self._welcome.waits

    def _when_flushed(self, ok: bool) -> None:
        if ok:
            self.report_now()

    # -- reporting ------------------------------------------------------------------------------------------------

    def report_now(self) -> None:
        """Report the end of this log, if it has grown since the last report."""
        end = self._store.log.stored
        if self.flushed:
            end = min(end, self._store.log.flushed)
        if self._ready and end > self.reported:
            self.report(end)

    def report(self, offset: int) -> None:
        """Report an offset; a repeated one is a heartbeat."""
        self.reported = max(self.reported, offset)
        self._write(REPORT.pack(self.reported))

    def heartbeat(self) -> None:
        """Send a heartbeat to the master."""
        if self.following:
            self.report_now()
            self.report(self.reported)

    # -- where to start -------------------------------------------------------------------------------------------

    def follow_plain(self, start: int) -> None:
        """Ask a master without the handshake to send from `start`."""
        log = self._store.log
        self._start = self.reported = start
        self._ready = True
        empty = log.min_offset < 0
        self._cutter = RecordCutter(0 if start == 1 and empty else start, log.file_size, self._filler_left(start))
        if start == 1 and empty:
            self._cutter.hold(b"\0")  # 0 would mean the last file; no record is so long that its first byte is not 0
        if start == 0 and empty:
            self._cutter = None  # the first frame shows where the master starts
        self._write(REPORT.pack(start))
        self._owner.followed(self)

    def _filler_left(self, at: int) -> int:
        """The missing bytes of a filler when the log ends within one. The bytes tell; dispatch may be stuck."""
        log = self._store.log
        begin = max(at - at % log.file_size, log.min_offset)
        if log.min_offset < 0 or begin == at:
            return 0
        dispatched = self._store.dispatcher.position  # a record ends there
        start = dispatched if begin <= dispatched < at else begin
        while start < at and (view := log.raw(start, HEAD_SIZE)) is not None and len(view) == HEAD_SIZE:
            if view[4:] == BLANK_HEAD:
                return log.roll(at) - at
            start += max(int.from_bytes(view[:4], "big"), HEAD_SIZE)
        return 0

    def _first_frame(self, offset: int) -> int:
        """Check the first frame against the requested offset, truncate the log there if needed; returns it."""
        if self._step == 2:
            self._step = 3
            assert self._welcome is not None
            if offset != self._start:
                raise ProtocolError(f"the master sent offset {offset} instead of {self._start}")
            log = self._store.log
            if log.min_offset >= 0 and self._start < log.stored:
                self._store.truncate(self._start)
                self._owner.truncated(self._start)
            if self._epochs is not None:
                self._epochs.adopt(self._welcome.epochs, self._start, promised=self._welcome.waits)
            self._ready = True
        elif self._start != 0 or self._step:
            raise ProtocolError(f"the master sent offset {offset} before it was asked to")
        self._cutter = RecordCutter(offset, self._store.log.file_size, self._filler_left(offset))
        return offset

    # -- the handshake --------------------------------------------------------------------------------------------

    def _handshake(self, body: bytes) -> None:
        options = self._owner.options
        key = options.key.encode()
        if self._step == 0:
            if self.following:  # a late answer: this slave already treats the master as Apache's
                self.abort()
                return
            hello, _ = handshake_message(body, MasterHello, b"", "")
            if hello.version != VERSION:
                self._stop(SlavePhase.REFUSED, f"the master speaks version {hello.version} of the handshake")
                return
            self._step = 1
            self.ariane = True
            self.flushed = options.report != "received"
            node = self._epochs.node if self._epochs is not None else self._nonce
            own = SlaveHello(VERSION, options.cluster, options.broker, self._nonce, node, options.learner, self.flushed)
            self._write(handshake_frame(own, key, hello.nonce))
            self.answered.set_result(True)
            return
        welcome, proved = handshake_message(body, Welcome, key if self._step == 1 else b"", self._nonce)
        if welcome.refused:
            phase = _PHASES.get(welcome.refused, SlavePhase.REFUSED)
            self._stop(phase, f"the master refuses this slave: {welcome.text}")
        elif self._step != 1:
            raise ProtocolError("the master repeats its welcome")
        elif key and not proved:
            self._stop(SlavePhase.REFUSED, "the master did not prove the shared key; set the same haKey there")
        else:
            self._step = 2
            self._welcome = welcome
            if self.flushed:  # the master takes what this slave asks to continue for what it has
                self._store.when_flushed(self._store.log.stored, self._when_ready)
            else:
                self._resume(welcome)

    def _when_ready(self, durable: bool) -> None:
        if self._closed:
            return
        if durable and self._welcome is not None:
            self._resume(self._welcome)
        else:
            self.abort()
            self._owner.lost(self, self._store.health.text or "the log could not be made durable in time")

    def _resume(self, welcome: Welcome) -> None:
        """Determine where the two logs diverge, and ask the master to start there."""
        log = self._store.log
        empty = log.min_offset < 0 or log.stored == 0
        if not empty and welcome.file_size != log.file_size:
            text = f"the master's log files have {welcome.file_size} bytes, these have {log.file_size}"
            self._stop(SlavePhase.DAMAGED, f"{text}: set the same mappedFileSizeCommitLog on both")
            return
        start = welcome.first
        if not empty:
            ours = () if self._epochs is None else self._epochs.entries
            start = common_end(ours, log.stored, welcome.epochs, welcome.end)
            if start < log.stored and (reason := self._may_not_truncate(welcome, start)) is not None:
                self._stop(*reason)
                return
            if start < welcome.first:
                text = f"this log shares the first {start} bytes with the master's, which begins at {welcome.first}"
                self._stop(SlavePhase.BEHIND, f"{text}: delete this store to copy the master's whole log")
                return
        checked_from = max(start - CHECKED, log.min_offset, 0) if not empty else start
        crc = checksum(*stored_bytes(log, checked_from, start)) if not empty else 0
        self._start = self.reported = start
        self._write(handshake_frame(Resume(start, checked_from, crc), b"", ""))
        self._owner.followed(self)

    def _may_not_truncate(self, welcome: Welcome, start: int) -> tuple[SlavePhase, str] | None:
        """Why the bytes from `start` on must not be truncated, or None."""
        log, options = self._store.log, self._owner.options
        epoch = max((entry.epoch for entry in welcome.epochs), default=0)
        own = max(1 if self._epochs is None else self._epochs.current, 1)  # 1: never promoted
        more = f"this log goes to {log.stored}, but shares only the first {start} bytes with the master's"
        choice = "promote this broker to keep them, or delete its store to follow the master"
        if options.truncate == "always" or not self._has_messages(start):
            return None  # no message is lost: the rest is a filler
        if start <= max(log.min_offset, 0):
            return SlavePhase.DIVERGED, f"{more}: nothing is in common; {choice}"
        if self._epochs is not None and self._epochs.protected(log.stored) > start:
            return SlavePhase.AHEAD, f"{more}, and sends were acknowledged because this copy had the rest; {choice}"
        if self._epochs is None or not self._epochs.entries:
            return SlavePhase.AHEAD, f"{more}, and which master wrote the rest is not known here; {choice}"
        if options.truncate == "never" or epoch <= own:
            return SlavePhase.AHEAD, f"{more}, and the master was not promoted since (epoch {epoch}); {choice}"
        return None

    def _has_messages(self, start: int) -> bool:
        """Whether something other than fillers begins at `start` or later. The bytes tell; dispatch may be stuck."""
        log = self._store.log
        while (view := log.raw(start, HEAD_SIZE)) is not None:
            if view[4:] != BLANK_HEAD and any(view):  # the rest of a filler after its head is zero
                return True
            start = log.roll(start)
        return False

    def _stop(self, phase: SlavePhase, reason: str) -> None:
        self.abort()
        self._owner.give_up(phase, reason)
