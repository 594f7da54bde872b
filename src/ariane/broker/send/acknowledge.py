"""Acknowledges a put: at once, or when its promises (flush to disk, copies on slaves) are fulfilled."""

from collections.abc import Callable
from typing import Protocol

from ariane.store import STORED, MessageStore, PutResult, PutStatus

Done = Callable[[PutStatus], None]
Wait = Callable[[PutResult, Done], None]


class Copies(Protocol):
    """The copies of a synchronous master (`ariane.ha.Replicated`)."""

    @property
    def enough(self) -> bool:
        """Whether enough copies are in sync to accept a send."""
        ...

    def wait(self, result: PutResult, done: Done) -> None:
        """Call `done` when the promised copies of a message exist, or have failed."""
        ...


class Acknowledge:
    """Waits for every promise of a put; without any (asynchronous flush, no slaves) it is acknowledged at once."""

    def __init__(self, store: MessageStore, *, sync_flush: bool, sync_slave: bool = False) -> None:
        self._store = store
        self._sync_flush = sync_flush
        self.waits: list[Wait] = []
        """The promises. Others hold this list, so it is changed in place."""
        self.copies: Copies | None = None
        self.always = False
        """Whether a send waits even if its client does not ask for it, as in a DLedger group."""
        self.waiting = 0
        """Sends that are stored and wait for their promises."""
        if sync_flush:
            self.waits.append(self._flushed)
        if sync_slave:
            self.waits.append(_no_slave)

    def promise_copies(self, copies: Copies | None) -> None:
        """From now on sends wait for copies too (SYNC_MASTER); with None they do not (ASYNC_MASTER, SLAVE)."""
        self.copies = copies
        self.waits.clear()
        if self._sync_flush:
            self.waits.append(self._flushed)
        if copies is not None:
            self.waits.append(copies.wait)

    def when_kept(self, result: PutResult, done: Done) -> None:
        """Call `done` with the status to answer, now or later, on the event loop."""
        if not self.waits:
            done(result.status)
        elif len(self.waits) == 1:
            self.waits[0](result, done)
        else:
            _Countdown(len(self.waits), done).begin(self.waits, result)

    def when_kept_and(self, also: Wait, result: PutResult, done: Done) -> None:
        """Like `when_kept`, and `also` must hold. Both begin now.

        If `when_kept` began after a change of the role, the promises could be missing, or the offset another message's.
        """
        waits = [also, *self.waits]
        _Countdown(len(waits), done).begin(waits, result)

    def _flushed(self, result: PutResult, done: Done) -> None:
        def flushed(ok: bool) -> None:
            done(PutStatus.OK if ok else PutStatus.FLUSH_DISK_TIMEOUT)

        self._store.when_flushed(result.end_offset, flushed)


def _no_slave(_: PutResult, done: Done) -> None:
    """A synchronous master promises a slave's copy. Answers SLAVE_NOT_AVAILABLE while no slave is connected."""
    done(PutStatus.SLAVE_NOT_AVAILABLE)


class _Countdown:
    """Calls `done` when every promise is fulfilled or failed; the last failure sets the status, as in RocketMQ.

    A status that says the message may be gone goes before those of a message that is stored.
    """

    def __init__(self, count: int, done: Done) -> None:
        self._left = count
        self._statuses = [PutStatus.OK] * count
        self._done = done

    def begin(self, waits: list[Wait], result: PutResult) -> None:
        for index, wait in enumerate(waits):
            wait(result, self._one(index))

    def _one(self, index: int) -> Done:
        def one(status: PutStatus) -> None:
            self._statuses[index] = status
            self._left -= 1
            if not self._left:
                failed = [s for s in self._statuses if s is not PutStatus.OK]
                lost = [s for s in failed if s not in STORED]
                self._done((lost or failed)[-1] if failed else PutStatus.OK)

        return one
