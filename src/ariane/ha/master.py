"""The master of a replicated log: accepts slaves, sends them the log, and tracks the acknowledged offset of each."""

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable
from random import Random, SystemRandom

from ariane.env import Clock
from ariane.errors import ListenFailed
from ariane.ha.epochs import Epochs
from ariane.ha.options import HaOptions
from ariane.ha.sender import Sender, SlaveProgress
from ariane.ha.tables import may_seal, seal
from ariane.protocol.ha import EpochEntry, Tables
from ariane.store import MessageStore
from ariane.store.log.commitlog import NO_LIMIT, CommitLog

log = logging.getLogger("ariane.ha")

_TICK = 0.5  # seconds between checks of heartbeats and silent peers
_BUDGET_TICK = 0.05
_GATHER = 0.04  # seconds in which messages are gathered for one transfer, if no send waits for it; Apache's takes 0.1
_QUIET = 60.0  # seconds in which a refusal of the same kind from the same host is logged once

Listen = Callable[[Callable[[], asyncio.Protocol], str, int], Awaitable[asyncio.AbstractServer]]


class HaMaster:
    """Serves slaves. Everything runs on the event loop of the store.

    `on_acknowledged` is called whenever `acknowledged` may have changed. `waits` tells whether sends wait for copies
    (SYNC_MASTER); slaves then flush and report at once.
    """

    def __init__(
        self,
        store: MessageStore,
        options: HaOptions,
        clock: Clock,
        epochs: Epochs | None = None,
        *,
        waits: bool = False,
        random: Random | None = None,
        listen: Listen | None = None,
    ) -> None:
        self.options = options
        self.port = 0
        self.waits = waits
        self.on_acknowledged: list[Callable[[], None]] = []
        self.on_slaves: list[Callable[[], None]] = []
        """Called when a slave has joined or left."""
        self.plain_tables: Callable[[], bytes] = bytes
        """Tables for slaves that ask for them; they are as public as the log."""
        self.secret_tables: Callable[[], bytes | None] = lambda: None
        """The same for slaves that prove the shared key; encrypted on the way. None: there are none."""
        self._store = store
        self._clock = clock
        self._epochs = epochs
        self._random = random or SystemRandom()  # challenges must be unpredictable
        self._listen = listen or _listen
        self._server: asyncio.AbstractServer | None = None
        self._serving = False
        self._senders: dict[Sender, None] = {}  # oldest first
        self._counts: Counter[str] = Counter()
        self._told: dict[tuple[str, str], float] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._budget = float(options.transfer_budget)
        self._budget_at = clock.monotonic()
        self._starved = False
        self._reach = -1  # the offset that as many slaves as are needed have; -1: to be found out
        self._gathering: asyncio.TimerHandle | None = None

    # -- start and stop -------------------------------------------------------------------------------------------

    async def start(self, host: str, port: int) -> None:
        """Listen for slaves; raises ListenFailed when the port is in use.

        REQUIRES: `store.take_over()` and `epochs.begin(..)` were called, so that this node may append to the log.
        """
        self._serving = True
        try:
            self._server = await self._listen(self.accept, host, port)
        except OSError as error:
            raise ListenFailed(f"cannot listen for slaves on {host or '*'}:{port}: {error}", port) from error
        sockets = getattr(self._server, "sockets", ())
        self.port = sockets[0].getsockname()[1] if sockets else port
        self._store.add_stored_listener(self._appended)
        self._confirm(self._store.log.stored)
        self._tasks = [asyncio.create_task(self._watch())]
        if self.options.transfer_budget:
            self._tasks.append(asyncio.create_task(self._refill()))
        log.info("slaves may connect to port %d", self.port)

    async def stop(self) -> None:
        """Drop all slaves and stop listening."""
        self._serving = False
        self._store.remove_stored_listener(self._appended)
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        self._confirm(NO_LIMIT)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._server is not None:
            self._server.close()
            self._server = None
        for sender in list(self._senders):
            sender.abort()
        for _ in range(100):
            if not self._senders:
                break
            await asyncio.sleep(0)

    def accept(self) -> asyncio.Protocol:
        """The protocol of a new connection."""
        return Sender(self, self._store.log, self._clock)

    # -- what slaves have -----------------------------------------------------------------------------------------

    @property
    def slaves(self) -> list[SlaveProgress]:
        """All slaves that follow this log."""
        end = self._store.log.stored
        return [
            SlaveProgress(
                address=sender.address,
                node=sender.node,
                acknowledged=sender.acknowledged,
                sent=sender.next,
                lag=end - sender.acknowledged,
                flushed=sender.flushed,
                learner=sender.learner,
                in_sync=self._in_sync(sender, end),
                ariane=sender.ariane,
            )
            for sender in self._senders
            if sender.following
        ]

    def acknowledged(self, count: int) -> int:
        """The offset up to which at least `count` slaves have the log; 0 when there are fewer slaves."""
        if not count:
            return self._store.log.stored
        ends: dict[str, int] = {}
        for sender in self._senders:
            if sender.following and not sender.learner:
                ends[sender.node] = max(ends.get(sender.node, 0), sender.acknowledged)
        if len(ends) < count:
            return 0
        highest = max(ends.values()) if count == 1 else sorted(ends.values(), reverse=True)[count - 1]
        return min(highest, self._store.log.stored)

    def kept_up(self, end: int) -> int:
        """The offset that enough slaves have, if they are in sync with a log that ends at `end`; else -1.

        The same as `in_sync` and `acknowledged` of `needed`, at the cost of a comparison; sends ask this first.
        """
        if self._reach < 0 or end - self._reach >= self.options.fall_behind_max:
            return -1
        return self._reach

    def _measure_reach(self) -> None:
        options = self.options
        if options.auto_in_sync_replicas:
            self._reach = -1  # what is needed depends on the number of slaves in sync
        else:
            reach = self.acknowledged(options.slaves_needed)
            self._reach = reach if reach > 0 else -1

    def needed(self) -> int:
        """How many slaves must have a message now before its send is acknowledged."""
        options = self.options
        if not options.auto_in_sync_replicas:
            return options.slaves_needed
        return max(min(options.slaves_needed, self.in_sync()), options.min_in_sync_replicas - 1)

    def _confirm(self, end: int) -> None:
        """Let readers see the log up to `end`, if reads are limited to replicated messages."""
        log_ = self._store.log
        if self.options.confirmed_reads and self.waits and isinstance(log_, CommitLog):
            log_.show(end)
            self._store.dispatch_now()

    def in_sync(self) -> int:
        """The number of slaves in sync: near enough to the end of the log that sends wait for them."""
        end = self._store.log.stored
        return len({sender.node for sender in self._senders if self._in_sync(sender, end)})

    def _in_sync(self, sender: Sender, end: int) -> bool:
        near = end - sender.acknowledged < self.options.fall_behind_max
        return sender.following and not sender.learner and near

    def counts(self) -> dict[str, int]:
        """How often connections were accepted, refused and dropped, by reason."""
        return dict(self._counts)

    # -- what connections say -------------------------------------------------------------------------------------

    def opened(self, sender: Sender) -> bool:
        """Whether a new connection may stay."""
        if not self._serving:
            return False  # accepted while this broker ceased to be a master
        self._counts["connections"] += 1
        options = self.options
        if options.allowed and not options.key and not options.allows(sender.host):
            self.refuse(sender, "address", "its address is not among haAllowedPeers")
            return False
        if len(self._senders) >= options.max_connections:
            silent = next((other for other in self._senders if not other.following), None)
            if silent is None:
                self.refuse(sender, "full", f"{options.max_connections} slaves are connected (haMaxConnections)")
                return False
            self.refuse(silent, "full", "it was silent and the table of connections is full")
        self._senders[sender] = None
        return True

    def greeted(self, sender: Sender) -> None:
        """A slave made its first report."""
        for other in list(self._senders):  # an Ariane slave that reconnects replaces its old connection
            if other is not sender and sender.ariane and other.node == sender.node:
                if other.following and other.host != sender.host:
                    self._log_seldom(
                        (sender.host, "same copy"),
                        f"slave {sender.address} takes the place of {other.address}: both have the same id. If one "
                        "disk was copied for two slaves, stop one of them and delete its config/epochs.json",
                    )
                other.forget()
                other.abort()
                self._measure_reach()
        self._counts["followed"] += 1
        kind = "an Ariane" if sender.ariane else "a plain"
        log.info("slave %s (%s peer) follows from offset %d", sender.address, kind, sender.next)
        for listener in self.on_slaves:
            listener()

    def reported(self, sender: Sender) -> None:
        """A slave's acknowledged offset has risen. Readers see messages before their sends are answered."""
        self._measure_reach()
        if self.options.confirmed_reads:
            self._confirm(self.acknowledged(self.needed()))
        for listener in self.on_acknowledged:
            listener()

    def closed(self, sender: Sender) -> None:
        """A connection was lost: its slave's acknowledged offset no longer counts."""
        if self._senders.pop(sender, 0) is None and sender.following:
            self._counts["left"] += 1
            log.info("slave %s left at offset %d", sender.address, sender.acknowledged)
            self._measure_reach()
            for listener in (*self.on_slaves, *self.on_acknowledged):  # fewer copies may be needed now
                listener()

    def refuse(self, sender: Sender, what: str, text: str) -> None:
        """Drop a connection, count it, and log it at a limited rate."""
        self._counts[f"refused_{what}"] += 1
        self._log_seldom((sender.host, what), f"slave {sender.address} is refused: {text}")
        sender.forget()
        self._measure_reach()
        if what in ("key", "name", "diverged", "range"):
            sender.close()  # after the refusal is sent
        else:
            sender.abort()

    def _log_seldom(self, key: tuple[str, str], text: str) -> None:
        now = self._clock.monotonic()
        if now - self._told.get(key, -_QUIET) >= _QUIET:
            if len(self._told) > 1000:
                self._told.clear()
            self._told[key] = now
            log.warning("%s", text)

    def epochs(self) -> tuple[EpochEntry, ...]:
        """The epochs of the log."""
        return () if self._epochs is None else self._epochs.entries

    def nonce(self) -> str:
        """A new random challenge."""
        return f"{self._random.getrandbits(128):032x}"

    def sends_wait(self) -> bool:
        """Whether sends wait for slaves."""
        return self.waits

    def tables(self, sender: Sender, slave_nonce: str) -> Tables:
        """The tables for a slave that has proved the shared key, if there is one."""
        self._counts["tables"] += 1
        sealed = b""
        if may_seal(self.options) and (secret := self.secret_tables()) is not None:
            sealed = seal(self.options, sender.nonce, slave_nonce, secret)
        return Tables(plain=self.plain_tables(), sealed=sealed)

    # -- sending --------------------------------------------------------------------------------------------------

    def _appended(self) -> None:
        """The log has grown: send the new bytes now if sends wait for them, else gathered with later ones."""
        if self.waits:
            self.pump()
        elif self._gathering is None and self._senders:
            self._gathering = asyncio.get_running_loop().call_later(_GATHER, self.pump)

    def pump(self) -> None:
        """Send the appended bytes to all slaves."""
        if self._gathering is not None:
            self._gathering.cancel()
            self._gathering = None
        for sender in self._senders:
            sender.pump()
        if self.options.confirmed_reads and self.waits and not self.needed():
            self._confirm(self._store.log.stored)

    def take_budget(self, size: int) -> int:
        """How many of `size` bytes may be sent now."""
        if not self.options.transfer_budget:
            return size
        allowed = min(size, int(self._budget))
        if allowed <= 0:
            self._starved = True
        self._budget -= allowed
        return allowed

    async def _refill(self) -> None:
        """Refill the budget for the time passed, up to a tenth of a second's worth."""
        rate = self.options.transfer_budget
        while True:
            await self._clock.sleep(_BUDGET_TICK)
            now = self._clock.monotonic()
            self._budget = min(self._budget + (now - self._budget_at) * rate, rate / 10 + self.options.transfer_batch)
            self._budget_at = now
            if self._starved:
                self._starved = False
                self.pump()

    async def _watch(self) -> None:
        """Send heartbeats, and drop peers that are silent."""
        while True:
            await self._clock.sleep(min(_TICK, self.options.heartbeat_interval / 2))
            self.tick()

    def tick(self) -> None:
        """Check every connection once."""
        now, options = self._clock.monotonic(), self.options
        for sender in list(self._senders):
            if now - sender.last_read > options.housekeeping_interval:
                self.refuse(sender, "silent", f"no report for {options.housekeeping_interval:g} s")
            elif sender.stuck(now, options.housekeeping_interval):
                self.refuse(sender, "slow", f"it has read nothing for {options.housekeeping_interval:g} s")
            elif sender.following and now - sender.last_write >= options.heartbeat_interval:
                sender.heartbeat()


async def _listen(factory: Callable[[], asyncio.Protocol], host: str, port: int) -> asyncio.AbstractServer:
    return await asyncio.get_running_loop().create_server(factory, host or None, port)
