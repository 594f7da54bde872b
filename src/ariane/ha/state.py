"""The state of a slave, for status pages, logs and metrics."""

from dataclasses import dataclass
from enum import Enum


class SlavePhase(Enum):
    """The phases of a slave. Those from DIVERGED on are final: the slave stops until it is started again."""

    STOPPED = "stopped"
    CONNECTING = "connecting"
    HANDSHAKE = "handshake"
    FOLLOWING = "following"
    REFUSED = "refused"
    DIVERGED = "diverged"
    AHEAD = "ahead"
    BEHIND = "behind"
    WRONG_NAME = "wrong name"
    DAMAGED = "damaged"


FINAL = frozenset({SlavePhase.DIVERGED, SlavePhase.AHEAD, SlavePhase.BEHIND, SlavePhase.WRONG_NAME, SlavePhase.DAMAGED})


@dataclass(slots=True)
class SlaveState:
    """The state of a slave: `reason` is a text that says why it does not follow its master."""

    phase: SlavePhase = SlavePhase.STOPPED
    master: str = ""
    offset: int = 0
    """The end of this slave's log."""
    reported: int = -1
    master_end: int = -1
    """The end of the master's log as far as this slave knows."""
    catch_up_to: int = -1
    """The end of the master's log when this slave followed it last: before it has that, a promotion loses messages."""
    ariane: bool = False
    """Whether the master took part in the handshake."""
    reason: str = ""

    @property
    def connected(self) -> bool:
        """Whether the slave receives its master's log."""
        return self.phase is SlavePhase.FOLLOWING

    @property
    def stopped(self) -> bool:
        """Whether the slave has given up until it is started again."""
        return self.phase in FINAL
