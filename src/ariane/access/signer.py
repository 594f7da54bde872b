"""Signs the requests of clients, and of brokers that ask name servers or their master."""

from __future__ import annotations

import itertools
from random import Random, SystemRandom

from ariane.env import Clock
from ariane.protocol.command import Command
from ariane.protocol.signing import (
    ACCESS_KEY,
    SECURITY_TOKEN,
    SIGNATURE,
    SIGNED_AT,
    SigningKey,
    Stamp,
    layout_of,
    signed_values,
)


class Signer:
    """A hook that adds access key and signature to every request.

    With a clock it adds a stamp too: the time, a number, the code and the layout of the fields, so that a server can
    refuse replayed and modified requests.
    """

    def __init__(
        self,
        access_key: str,
        secret_key: str,
        security_token: str | None = None,
        *,
        clock: Clock | None = None,
        random: Random | None = None,
    ) -> None:
        self._access_key = access_key
        self._key = SigningKey(secret_key)
        self._security_token = security_token
        self._clock = clock
        self._name = f"{(random or SystemRandom()).getrandbits(64):016x}"
        self._numbers = itertools.count()

    def before_request(self, peer: str, command: Command) -> None:
        """Sign the request."""
        fields = command.fields
        fields[ACCESS_KEY] = self._access_key
        if self._security_token is not None:
            fields[SECURITY_TOKEN] = self._security_token
        if self._clock is not None:
            layout = layout_of(fields, command.body)
            stamp = Stamp(self._clock.now_ms(), self._name, next(self._numbers), command.code, layout)
            fields[SIGNED_AT] = stamp.encode()
        fields[SIGNATURE] = self._key.sign(signed_values(fields), command.body).decode()

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        """Do nothing: responses are not signed."""
