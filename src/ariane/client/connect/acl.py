"""Request signatures of RocketMQ's access control, added by a hook."""

import hmac
from base64 import b64encode

from ariane.protocol.command import Command

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"


def sign(secret_key: str, fields: dict[str, str], body: bytes) -> str:
    """Base64 of HMAC-SHA1 over the fields' values in the order of their names, then the body.

    >>> sign("12345678", {"topic": "orders"}, b"paid")
    'TfVd36h56cK4PvO6pBlUsXVwwfA='
    """
    values = "".join([fields[name] for name in sorted(fields) if name != SIGNATURE])
    return b64encode(hmac.digest(secret_key.encode(), values.encode() + body, "sha1")).decode()


class Signer:
    """Adds access key and signature to every request."""

    def __init__(self, access_key: str, secret_key: str, security_token: str | None = None) -> None:
        self._access_key = access_key
        self._secret_key = secret_key
        self._security_token = security_token

    def before_request(self, peer: str, command: Command) -> None:
        command.fields[ACCESS_KEY] = self._access_key
        if self._security_token is not None:
            command.fields[SECURITY_TOKEN] = self._security_token
        command.fields[SIGNATURE] = sign(self._secret_key, command.fields, command.body)

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        """Do nothing: responses are not signed."""
