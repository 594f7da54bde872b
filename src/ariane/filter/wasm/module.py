"""The interface of a filter module, and the form in which it gets a message.

A module exports

    memory                          its linear memory
    alloc(size: i32) -> i32         the address of a buffer of `size` bytes, for the host to write messages into
    filter(at: i32, size: i32) -> i32    1 to deliver the message, 0 to skip it

and imports nothing. The host calls `alloc` before the first message and again when a message is larger than the buffer.
A message begins with HEAD; the properties follow as RocketMQ stores them (name, 0x01, value, 0x02, ...; UTF-8), then
the body, decompressed. Numbers are little-endian, as WebAssembly's memory is.
"""

from __future__ import annotations

from hashlib import sha256
from struct import Struct
from typing import Final

HEAD: Final = Struct("<III")  # version of this layout, length of the properties, length of the body
VERSION: Final = 1
MAGIC: Final = b"\0asm\x01\0\0\0"
DELIVER: Final = 1
SKIP: Final = 0


class InvalidModule(ValueError):
    """A module that cannot be a filter; the text says why."""


def digest_of(module: bytes) -> str:
    """The identity of a module: the SHA-256 of its bytes, in hexadecimal digits.

    >>> digest_of(b"")[:12]
    'e3b0c44298fc'
    """
    return sha256(module).hexdigest()


def check_bytes(module: bytes, most: int) -> None:
    """InvalidModule unless these bytes look like a binary module of at most so many bytes."""
    if len(module) > most:
        raise InvalidModule(f"the module has {len(module)} bytes, {most} are allowed (filterModuleMaxBytes)")
    if not module.startswith(MAGIC):
        raise InvalidModule("these bytes are no WebAssembly module in binary form, version 1")


def message_bytes(properties: bytes, body: bytes) -> bytes:
    """A message as a module gets it.

    >>> message_bytes(b"a\\x01b\\x02", b"{}").hex(" ", 4)
    '02010000 00040000 00020000 00610162 027b7d'
    """
    return HEAD.pack(VERSION, len(properties), len(body)) + properties + body
