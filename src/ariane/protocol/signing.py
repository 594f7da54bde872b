"""Signatures of requests: Base64 of HMAC-SHA1 over the values of the fields, in the order of their names, and the body.

They are those of RocketMQ 4.9: the code, the names and the boundaries of the values are not covered, and there is no
time of signing. A client may add `SIGNED_AT`, whose value covers all of that; see `Stamp`.
"""

from base64 import b64encode
from binascii import b2a_base64
from hashlib import sha1, sha256
from typing import Final, NamedTuple

from ariane.message import UNIQUE_KEY_QUERY

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNED_AT: Final = "SignedAt"
"""A field of Ariane's own: a `Stamp`. Other servers take it for one more signed value."""
CREDENTIALS: Final = frozenset({ACCESS_KEY, SIGNATURE, SECURITY_TOKEN, SIGNED_AT})
"""Fields for this server only: it must not forward them with a request that it relays."""
UNSIGNED: Final = frozenset({SIGNATURE, UNIQUE_KEY_QUERY})
"""Fields that no signature covers: itself, and one that Apache's client adds after signing."""

_BLOCK: Final = 64  # bytes of a block of SHA-1
_INNER: Final = bytes(byte ^ 0x36 for byte in range(256))
_OUTER: Final = bytes(byte ^ 0x5C for byte in range(256))


class SigningKey:
    """A secret key, prepared: both states of HMAC with the key in them are computed once.

    >>> SigningKey("12345678").sign(b"orders", b"paid")
    b'TfVd36h56cK4PvO6pBlUsXVwwfA='
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, secret_key: str) -> None:
        secret = secret_key.encode()
        block = (sha1(secret).digest() if len(secret) > _BLOCK else secret).ljust(_BLOCK, b"\0")
        self._inner = sha1(block.translate(_INNER))
        self._outer = sha1(block.translate(_OUTER))

    def sign(self, text: bytes, body: bytes = b"") -> bytes:
        """The signature of the values, joined, and the body."""
        inner = self._inner.copy()
        inner.update(text)
        if body:
            inner.update(body)
        outer = self._outer.copy()
        outer.update(inner.digest())
        return b2a_base64(outer.digest(), newline=False)


def signed_values(fields: dict[str, str]) -> bytes:
    """The values that a signature covers, joined in the order of their names."""
    return "".join([fields[name] for name in sorted(fields) if name not in UNSIGNED]).encode()


def sign(secret_key: str, fields: dict[str, str], body: bytes) -> str:
    """The signature of a request.

    >>> sign("12345678", {"topic": "orders"}, b"paid")
    'TfVd36h56cK4PvO6pBlUsXVwwfA='
    """
    return SigningKey(secret_key).sign(signed_values(fields), body).decode()


class Stamp(NamedTuple):
    """The content of `SIGNED_AT`: time, signer, sequence number, request code, and a digest of field names and lengths.

    A server that requires it refuses replayed and expired requests, and requests whose code or fields were changed in
    transit: the signature covers the stamp, and the stamp covers them.
    """

    time_ms: int
    signer: str
    number: int
    code: int
    layout: str

    def encode(self) -> str:
        """The value of the field."""
        return f"{self.time_ms}.{self.signer}.{self.number}.{self.code}.{self.layout}"

    @classmethod
    def parse(cls, text: str) -> "Stamp | None":
        """Read the value of the field; None when it is not a stamp."""
        parts = text.split(".")
        if len(parts) != 5 or len(text) > 200:
            return None
        time_ms, signer, number, code, layout = parts
        if not all(part.isascii() and part.isdecimal() for part in (time_ms, number, code)) or not signer:
            return None
        return cls(int(time_ms), signer, int(number), int(code), layout)


def layout_of(fields: dict[str, str], body: bytes) -> str:
    """A digest of the names of the signed fields, the lengths of their values, and the length of the body."""
    names = sorted(name for name in fields if name not in UNSIGNED and name != SIGNED_AT)
    text = "\n".join([f"{len(name)}:{name}={len(fields[name].encode())}" for name in names])
    return b64encode(sha256(f"{text}\n{len(body)}".encode()).digest()[:15]).decode()
