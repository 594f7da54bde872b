"""Outgoing messages. None is sent before the term and the vote it relies on are durable."""

from ariane.raft.hard_state import HardState
from ariane.raft.messages import Message


class Outbox:
    """Holds messages back while the hard state is not stored. Answers that rely on entries are created later."""

    def __init__(self, hard_state: HardState) -> None:
        # The driver may hold an abstention in memory only: it must survive a crash.
        stored = None if hard_state.abstaining else hard_state
        self._stored: HardState | None = stored
        self._given: HardState | None = stored
        self._current = hard_state
        self._held: list[Message] = []

    def require(self, hard_state: HardState) -> None:
        """Send no message until `hard_state` is stored. Messages of an earlier term are dropped."""
        if hard_state.term > self._current.term:
            self._held.clear()
        self._current = hard_state

    def send(self, message: Message) -> None:
        """Send as soon as the hard state is durable."""
        self._held.append(message)

    def stored(self, hard_state: HardState) -> bool:
        """Record a durable write; true when it is the current state."""
        self._stored = hard_state
        return self.durable

    @property
    def durable(self) -> bool:
        """Whether the current hard state is stored."""
        return self._stored == self._current

    def take_hard_state(self) -> HardState | None:
        """Return the hard state if the driver does not have it yet."""
        if self._given == self._current:
            return None
        self._given = self._current
        return self._current

    def take_messages(self) -> tuple[Message, ...]:
        """Return the messages that may be sent now."""
        if not self.durable:
            return ()
        messages = tuple(self._held)
        self._held.clear()
        return messages
