"""Whether the store accepts messages, and if not, why."""

import logging

log = logging.getLogger("ariane.store")


class Health:
    """Reasons not to write, each under a name. `writable` is read on every append."""

    def __init__(self) -> None:
        self.writable = True
        self.reasons: dict[str, str] = {}

    def fail(self, name: str, reason: str) -> None:
        """Refuse writes until `clear` is called with the same name."""
        if self.reasons.get(name) != reason:
            log.error("the store takes no messages: %s", reason)
        self.reasons[name] = reason
        self.writable = False

    def clear(self, name: str) -> None:
        if self.reasons.pop(name, None) is not None and not self.reasons:
            log.warning("the store takes messages again")
        self.writable = not self.reasons

    @property
    def text(self) -> str:
        """All reasons in one line; empty when there are none."""
        return "; ".join(self.reasons.values())
