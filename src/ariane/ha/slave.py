"""The slave of a replicated log: follows a master, and connects again when the connection is lost."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from random import Random, SystemRandom
from typing import Any

from ariane.env import Clock
from ariane.ha.epochs import Epochs
from ariane.ha.options import HaOptions
from ariane.ha.receiver import Receiver
from ariane.ha.state import FINAL, SlavePhase, SlaveState
from ariane.store import MessageStore

log = logging.getLogger("ariane.ha")

Connect = Callable[[Callable[[], asyncio.BaseProtocol], str, int], Awaitable[object]]
MasterRange = Callable[[], Awaitable[tuple[int, int]]]
"""Asks a master without the handshake for the first offset and the end of its log (-1 and 0 when it is empty)."""

_TICK = 0.5


class HaSlave:
    """Copies a master's log into its store. `state` is its progress; `on_change` is called when the phase changes.

    A slave that needs an operator (diverged, ahead, wrong name) stops and gives the reason in `state.reason`.
    `on_truncate` is called with the new end after bytes that the master does not have were dropped.
    """

    def __init__(
        self,
        store: MessageStore,
        options: HaOptions,
        clock: Clock,
        master_address: str,
        epochs: Epochs | None = None,
        *,
        master_range: MasterRange | None = None,
        random: Random | None = None,
        connect: Connect | None = None,
    ) -> None:
        self.options = options
        self.state = SlaveState(master=master_address)
        self.on_change: list[Callable[[SlaveState], None]] = []
        self.on_truncate: list[Callable[[int], None]] = []
        self._store = store
        self._clock = clock
        self._epochs = epochs
        self._master_range = master_range
        self._random = random or SystemRandom()  # challenges must be unpredictable
        self._connect = connect or _connect
        self._receiver: Receiver | None = None
        self._gone = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._counts: Counter[str] = Counter()
        self._still_at = -1  # the end of this log, and since when it has not changed
        self._still_since = clock.monotonic()

    # -- start and stop -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to follow the master."""
        if not self._tasks:
            self.state.offset = max(self._store.log.stored, 0)
            self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._watch())]

    async def stop(self) -> None:
        """Stop following the master."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._drop()
        if not self.state.stopped:
            self._enter(SlavePhase.STOPPED, "")

    async def follow(self, master_address: str) -> None:
        """Follow another master, also after giving up on the last one."""
        await self.stop()
        self.state = SlaveState(master=master_address, offset=self._store.log.stored)
        self.start()

    def counts(self) -> dict[str, int]:
        """How often the slave connected, lost its master, truncated and gave up."""
        return dict(self._counts)

    def _drop(self) -> None:
        if self._receiver is not None:
            self._receiver.abort()
            self._receiver = None

    def _enter(self, phase: SlavePhase, reason: str) -> None:
        changed = (phase, reason) != (self.state.phase, self.state.reason)
        self.state.phase, self.state.reason = phase, reason
        if changed:
            for listener in self.on_change:
                listener(self.state)

    # -- the connection -------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        pause = self.options.retry_interval
        while not self.state.stopped:
            began = self._clock.monotonic()
            self._gone = asyncio.Event()
            if self.state.phase is not SlavePhase.REFUSED:
                self._enter(SlavePhase.CONNECTING, self.state.reason)
            try:
                await self._greet()
            except (TimeoutError, OSError, ValueError) as error:  # ValueError: a name server may say anything
                self._counts["connect_failed"] += 1
                text = f"cannot connect to {self.state.master}: {error or 'no answer'}"
                if text != self.state.reason:
                    log.warning("%s; trying again", text)
                self._enter(SlavePhase.CONNECTING, text)
            else:
                await self._gone.wait()
            self._drop()
            if self._clock.monotonic() - began > self.options.housekeeping_interval:
                pause = self.options.retry_interval
            if not self.state.stopped:
                await self._clock.sleep(pause)
                pause = min(pause * 2, self.options.retry_interval_max)

    async def _greet(self) -> None:
        """Connect and start the handshake. A master that does not answer it is treated as Apache's."""
        host, _, port = self.state.master.rpartition(":")
        nonce = f"{self._random.getrandbits(128):032x}"

        def made() -> Receiver:
            self._enter(SlavePhase.HANDSHAKE, "")  # before the master can answer: its answer enters the next phase
            self._receiver = Receiver(self, self._store, self._epochs, self._clock, lambda: nonce)
            return self._receiver

        connecting = asyncio.ensure_future(self._connect(made, host.strip("[]"), int(port)))
        await self._within(connecting, self.options.connect_timeout)
        receiver = self._receiver
        if receiver is None:
            return
        with suppress(asyncio.TimeoutError):
            await self._within(receiver.answered, self.options.handshake_timeout)
        if receiver.answered.done() or self._gone.is_set():
            return
        if self.options.key and not self.options.allows(host.strip("[]")):
            self._drop()
            text = "the master does not prove the shared key (haKey): set it there, or name it in haAllowedPeers"
            self.give_up(SlavePhase.REFUSED, text)
            return
        start = await self._plain_start()
        if start >= 0 and not receiver.answered.done() and not self._gone.is_set():
            receiver.follow_plain(start)

    async def _within(self, waiting: "asyncio.Future[Any]", seconds: float) -> None:
        """Wait on the slave's clock; TimeoutError when that took too long."""
        timer = asyncio.ensure_future(self._clock.sleep(seconds))
        try:
            await asyncio.wait({waiting, timer}, return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                raise TimeoutError
            waiting.result()
        finally:
            timer.cancel()
            if isinstance(waiting, asyncio.Task):
                waiting.cancel()

    async def _plain_start(self) -> int:
        """The offset to request from an Apache master; -1 when this slave cannot follow it.

        An empty slave asks for the first offset, because 0 means the master's last file. If the first offset is 0 it
        asks for 1 and supplies the first byte.
        """
        store_log = self._store.log
        empty = store_log.min_offset < 0
        end = 0 if empty else store_log.stored
        if self._master_range is None:
            return end
        first, last = await self._master_range()
        self.state.catch_up_to = last
        if empty:
            return max(first, 1) if first >= 0 else 0
        if end > last:
            self.give_up(
                SlavePhase.AHEAD,
                f"this log goes to {end}, the master's to {last}: promote this broker, or delete its store",
            )
            return -1
        if end < first:
            self.give_up(
                SlavePhase.BEHIND, f"this log goes to {end}, the master's begins at {first}: delete this store"
            )
            return -1
        return end

    async def _watch(self) -> None:
        """Send heartbeats, report newly flushed offsets, and drop a silent master."""
        while True:
            await self._clock.sleep(min(_TICK, self.options.heartbeat_interval / 2))
            self.tick()
            if self._is_still():
                await self._look_for_a_gap()

    def _is_still(self) -> bool:
        """Whether this log did not grow for a housekeeping interval; True once an interval."""
        now = self._clock.monotonic()
        if self.state.offset != self._still_at:
            self._still_at, self._still_since = self.state.offset, now
        if now - self._still_since <= self.options.housekeeping_interval:
            return False
        self._still_since = now
        return True

    async def _look_for_a_gap(self) -> None:
        """Leave an Apache master that has deleted the bytes that come next: it would send heartbeats for ever."""
        receiver = self._receiver
        if receiver is None or not receiver.following or receiver.ariane or self._master_range is None:
            return
        try:
            first, _ = await self._master_range()
        except (TimeoutError, OSError, ValueError):
            return
        if receiver is self._receiver and first > max(self._store.log.stored, receiver.reported):
            receiver.abort()
            self.lost(
                receiver, f"the master has deleted its log up to {first}"
            )  # the next attempt stops, or begins there

    def tick(self) -> None:
        """Check the connection once."""
        receiver, now, options = self._receiver, self._clock.monotonic(), self.options
        if receiver is None:
            return
        receiver.report_now()
        if now - receiver.last_read > options.housekeeping_interval:
            self._counts["silent_master"] += 1
            receiver.abort()
            self.lost(receiver, f"nothing from the master for {options.housekeeping_interval:g} s")
        elif now - receiver.last_write >= options.heartbeat_interval:
            receiver.heartbeat()

    # -- what the connection says ---------------------------------------------------------------------------------

    def followed(self, receiver: Receiver) -> None:
        """The master was asked for its log."""
        self._counts["followed"] += 1
        self.state.ariane = receiver.ariane
        if receiver.ariane:
            self.state.catch_up_to = receiver.catch_up_to
        kind = "an Ariane" if receiver.ariane else "a plain"
        log.info("following %s, %s master, from offset %d", self.state.master, kind, receiver.reported)
        self._enter(SlavePhase.FOLLOWING, "")

    def received(self, end: int, master_end: int) -> None:
        """Bytes or a heartbeat arrived."""
        self.state.offset = end
        self.state.master_end = max(self.state.master_end, master_end)
        if self._receiver is not None:
            self.state.reported = self._receiver.reported

    def truncated(self, end: int) -> None:
        """Bytes that the master does not have were truncated."""
        self._counts["truncated"] += 1
        log.warning("the master has another history: this log was cut at %d, where they part", end)
        for listener in self.on_truncate:
            listener(end)

    def give_up(self, phase: SlavePhase, reason: str) -> None:
        """The master cannot be followed in the current state."""
        self._counts[phase.value.replace(" ", "_")] += 1
        if (phase, reason) != (self.state.phase, self.state.reason):
            text = "%s; this slave stops" if phase in FINAL else "%s; trying again"
            log.error("cannot follow %s: " + text, self.state.master, reason)
        self._enter(phase, reason)
        self._gone.set()

    def lost(self, receiver: Receiver, reason: str) -> None:
        """The connection is gone."""
        if receiver is not self._receiver or self._gone.is_set():
            return
        self._counts["lost"] += 1
        log.warning("lost the master %s at offset %d%s", self.state.master, self.state.offset, reason and f": {reason}")
        self._enter(SlavePhase.CONNECTING, reason or "the master closed the connection")
        self._gone.set()


async def _connect(factory: Callable[[], asyncio.BaseProtocol], host: str, port: int) -> object:
    return await asyncio.get_running_loop().create_connection(factory, host, port)
