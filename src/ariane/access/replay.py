"""Refuses requests that are replayed, expired, or changed in parts that RocketMQ's signature does not cover."""

from __future__ import annotations

from typing import Final

from ariane.env import Clock
from ariane.protocol.command import Command
from ariane.protocol.signing import SIGNED_AT, Stamp, layout_of

BEHIND: Final = 1 << 14
"""How far a request's number may be behind the newest of its signer: several connections may reorder them."""
MOST_SIGNERS: Final = 10_000
"""Limit for one account, so that it cannot lock out others."""


class _Signer:
    """The numbers that one signer has used."""

    __slots__ = ("expires", "newest", "seen")

    def __init__(self) -> None:
        self.newest = -1
        self.seen: set[int] = set()
        self.expires = 0.0

    def use(self, number: int) -> bool:
        """Record a number; False when it was used, or is too old to be checked."""
        if number <= self.newest - BEHIND or number in self.seen:
            return False
        self.seen.add(number)
        self.newest = max(self.newest, number)
        if len(self.seen) > 2 * BEHIND:
            self.seen = {one for one in self.seen if one > self.newest - BEHIND}
        return True


class ReplayGuard:
    """Checks the stamps of signed requests. Its memory grows with the signers of the last minutes, not with requests.

    A request is accepted once, within `window` seconds before or after this machine's clock, and not when it was
    signed before this guard started: earlier requests are not recorded.
    """

    def __init__(self, clock: Clock, window: float) -> None:
        self._clock = clock
        self._window = window
        self._began_ms = clock.now_ms()
        self._signers: dict[str, dict[str, _Signer]] = {}  # by access key and name
        self._sweep_at = 0.0

    def refusal(self, access_key: str, request: Command, fields: dict[str, str]) -> str | None:
        """Why a validly signed request is refused; None when it is new."""
        stamp = Stamp.parse(fields.get(SIGNED_AT, ""))
        if stamp is None:
            return f"the field {SIGNED_AT} is missing: sign with the time (stamp_requests of Ariane's clients)"
        if stamp.code != request.code or stamp.layout != layout_of(fields, request.body):
            return "code or fields are not those that were signed"
        now_ms = self._clock.now_ms()
        if abs(now_ms - stamp.time_ms) > self._window * 1000:
            late = (now_ms - stamp.time_ms) / 1000
            return f"signed {late:.1f} s ago by the clock here, {self._window:g} s are allowed: set the clocks"
        if stamp.time_ms < self._began_ms:
            return "signed before this server started: sign it again"
        now = self._clock.monotonic()
        self._sweep(now)
        signers = self._signers.setdefault(access_key, {})
        signer = signers.get(stamp.signer)
        if signer is None:
            if len(signers) >= MOST_SIGNERS:
                return f"the account has more than {MOST_SIGNERS} clients: use one for many requests"
            signer = signers[stamp.signer] = _Signer()
        signer.expires = now + 2 * self._window
        return None if signer.use(stamp.number) else "it was used before"

    def _sweep(self, now: float) -> None:
        """Drop signers whose requests are all too old to be accepted."""
        if now < self._sweep_at:
            return
        self._sweep_at = now + self._window
        for access_key, signers in list(self._signers.items()):
            left = {name: signer for name, signer in signers.items() if signer.expires >= now}
            if left:
                self._signers[access_key] = left
            else:
                del self._signers[access_key]
