"""Copies tables from a master to its slaves that RocketMQ has no request for: filters, and sealed, access rules.

The port for slaves has no TLS. Secrets are encrypted with a key that both sides derive from the shared key and the
nonces of both: it serves for one answer, to the peer that has just proved that it has the shared key.
"""

import os
from random import Random
from typing import Final, NamedTuple

from ariane.errors import ArianeError, ProtocolError
from ariane.extras import extra
from ariane.ha.asking import NoHandshake, ask
from ariane.ha.options import HaOptions
from ariane.protocol.ha import TABLES, Tables, Welcome, handshake_message

with extra("broker", "the copy of access rules"):
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

SHORTEST_KEY: Final = 16
"""Characters that haKey must have before secrets are encrypted with it."""
_NONCE: Final = 12  # bytes


class TablesNotCopied(ArianeError):
    """A master does not give its tables, or not in a form that can be trusted."""


class CopiedTables(NamedTuple):
    """The tables of a master. `secret` is None when the master gives none: no shared key, or nothing to keep secret."""

    plain: bytes
    secret: bytes | None


def may_seal(options: HaOptions) -> bool:
    """Whether there is a shared key that secrets may be encrypted with."""
    return len(options.key) >= SHORTEST_KEY


def seal(options: HaOptions, master_nonce: str, slave_nonce: str, secret: bytes) -> bytes:
    """Encrypt a table for one slave. REQUIRES: the slave has proved the shared key for `master_nonce`."""
    nonce = os.urandom(_NONCE)
    return nonce + _cipher(options, master_nonce, slave_nonce).encrypt(nonce, secret, None)


def unseal(options: HaOptions, master_nonce: str, slave_nonce: str, sealed: bytes) -> bytes:
    """Decrypt a table; TablesNotCopied unless a holder of the shared key sealed it for these nonces."""
    try:
        cipher = _cipher(options, master_nonce, slave_nonce)
        return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], None)
    except (InvalidTag, ValueError):
        raise TablesNotCopied("the sealed tables were not made with the shared key (haKey), or were changed") from None


def _cipher(options: HaOptions, master_nonce: str, slave_nonce: str) -> ChaCha20Poly1305:
    names = "\n".join(("ariane tables 1", options.cluster, options.broker)).encode()
    salt = f"{master_nonce}\n{slave_nonce}".encode()
    return ChaCha20Poly1305(HKDF(SHA256(), 32, salt, names).derive(options.key.encode()))


async def copied_tables(address: str, options: HaOptions, random: Random | None = None) -> CopiedTables:
    """Ask the Ariane master at an HA address for its tables; TablesNotCopied when that fails."""
    try:
        answer = await ask(address, options, TABLES, random)
        refusal, _ = handshake_message(answer.body, Welcome, b"", "")
        if refusal.refused:
            raise TablesNotCopied(f"{address} refuses: {refusal.text}")
        tables, proved = handshake_message(answer.body, Tables, options.key.encode(), answer.slave_nonce)
    except (NoHandshake, ProtocolError) as error:
        raise TablesNotCopied(str(error)) from None
    if options.key and not proved:
        raise TablesNotCopied(f"{address} does not prove the shared key (haKey)")
    if not tables.sealed or not may_seal(options):
        return CopiedTables(tables.plain, None)
    return CopiedTables(tables.plain, unseal(options, answer.master_nonce, answer.slave_nonce, tables.sealed))
