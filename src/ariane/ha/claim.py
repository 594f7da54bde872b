"""Checks the claim of another broker to be the master of this log, by the handshake on its port for slaves."""

from collections.abc import Sequence
from random import Random

from ariane.errors import ArianeError, ProtocolError
from ariane.ha.asking import NoHandshake, ask
from ariane.ha.options import HaOptions
from ariane.protocol.ha import LOG, EpochEntry, Welcome, handshake_message


class ClaimNotProved(ArianeError):
    """A broker does not prove that it is a master of the expected name, with the shared key if there is one."""


async def claimed_epochs(address: str, options: HaOptions, random: Random | None = None) -> tuple[EpochEntry, ...]:
    """The epochs of the master at an HA address. ClaimNotProved unless it takes part in the handshake.

    The two sides prove the shared key to each other, and the names of cluster and broker must be the same.
    """
    key = options.key.encode()
    try:
        answer = await ask(address, options, LOG, random)
        welcome, proved = handshake_message(answer.body, Welcome, key, answer.slave_nonce)
    except (NoHandshake, ProtocolError) as error:
        raise ClaimNotProved(str(error)) from None
    if key and not proved:
        raise ClaimNotProved(f"{address} does not prove the shared key (haKey)")
    if welcome.refused:
        raise ClaimNotProved(f"{address} refuses the handshake: {welcome.text}")
    return welcome.epochs


def goes_before(theirs: Sequence[EpochEntry], ours: Sequence[EpochEntry]) -> bool:
    """Whether a master with these epochs replaces one with `ours`: it continues the same log in a newer epoch.

    Of two masters promoted to one epoch the same one goes before on both sides, by the names of their runs. A log
    without a common entry is another log.

    >>> first, one, two = EpochEntry(1, 0, "a"), EpochEntry(2, 40, "b"), EpochEntry(2, 40, "c")
    >>> goes_before([first, two], [first, one]), goes_before([first, one], [first, two])
    (True, False)
    >>> goes_before([EpochEntry(9, 0, "stranger")], [first])
    False
    """
    if not theirs:
        return False
    if not ours:
        return True
    shared = {(entry.epoch, entry.run) for entry in theirs} & {(entry.epoch, entry.run) for entry in ours}
    return bool(shared) and (theirs[-1].epoch, theirs[-1].run) > (ours[-1].epoch, ours[-1].run)
