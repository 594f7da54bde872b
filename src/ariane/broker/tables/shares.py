"""Counts what each account has created, so that one account cannot use up the broker's limits."""

from collections import Counter
from typing import Final

from ariane.remoting.gates import Peer, account_of

NO_ACCOUNT: Final = ""


class Shares:
    """Counts the names that each account, or address without one, created in this run, up to `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._creator: dict[str, str] = {}
        self._count: Counter[str] = Counter()

    def is_used_up(self, by: Peer | None) -> str:
        """The account if it has reached its limit, else empty. The broker itself has no limit."""
        account = NO_ACCOUNT if by is None else account_of(by)
        return account if account and self._count[account] >= self._most else NO_ACCOUNT

    def add(self, name: str, by: Peer | None) -> None:
        """Charge a name to the account that created it."""
        if by is not None and name not in self._creator:
            account = self._creator[name] = account_of(by)
            self._count[account] += 1

    def remove(self, name: str) -> None:
        """Release the charge of a name that is deleted, or that an administrator took over."""
        account = self._creator.pop(name, NO_ACCOUNT)
        if account:
            self._count[account] -= 1
            if not self._count[account]:
                del self._count[account]
