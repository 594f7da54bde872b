"""Whether the store accepts messages, and if not, why."""

import logging

log = logging.getLogger("ariane.store")


class Health:
    """Reasons not to write, each under a name. `accepts` is read on every append.

    A slave's store is writable, for the bytes of its master's log, and accepts no messages.
    """

    def __init__(self) -> None:
        self.writable = True
        self.accepts = True
        """Whether messages may be appended: the store is writable, and the broker is a master."""
        self._leads = True
        self.reasons: dict[str, str] = {}

    def fail(self, name: str, reason: str) -> None:
        """Refuse writes until `clear` is called with the same name."""
        if self.reasons.get(name) != reason:
            log.error("the store takes no messages: %s", reason)
        self.reasons[name] = reason
        self.writable = self.accepts = False

    def clear(self, name: str) -> None:
        if self.reasons.pop(name, None) is not None and not self.reasons:
            log.warning("the store takes messages again")
        self.writable = not self.reasons
        self.accepts = self.writable and self._leads

    def accepts_messages(self, leads: bool) -> None:
        """Accept messages of clients, or only bytes of another broker's log."""
        self._leads = leads
        self.accepts = self.writable and leads

    @property
    def text(self) -> str:
        """All reasons in one line; empty when there are none."""
        return "; ".join(self.reasons.values())
