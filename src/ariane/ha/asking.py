"""Asks a master on its port for slaves, by the handshake alone; the log is not sent."""

import asyncio
from random import Random, SystemRandom
from typing import NamedTuple

from ariane.errors import ArianeError, ProtocolError
from ariane.ha.options import HaOptions
from ariane.protocol.ha import (
    GREETING,
    MAX_TABLES,
    REPORT,
    VERSION,
    MasterHello,
    SlaveHello,
    StreamDecoder,
    handshake_frame,
    handshake_message,
)


class NoHandshake(ArianeError):
    """A broker does not take part in the handshake."""


class Answer(NamedTuple):
    """The master's answer to a hello, and the nonces of both sides."""

    body: bytes
    master_nonce: str
    slave_nonce: str


async def ask(address: str, options: HaOptions, wants: str, random: Random | None = None) -> Answer:
    """Send a hello and return the answer, of which the caller checks the proof."""
    host, _, port = address.rpartition(":")
    nonce = f"{(random or SystemRandom()).getrandbits(128):032x}"
    try:
        async with asyncio.timeout(options.connect_timeout + options.handshake_timeout):
            reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
            try:
                writer.write(REPORT.pack(GREETING))
                decoder = StreamDecoder(MAX_TABLES)
                hello, _ = handshake_message(await _frame(reader, decoder), MasterHello, b"", "")
                own = SlaveHello(VERSION, options.cluster, options.broker, nonce, nonce, True, False, wants)
                writer.write(handshake_frame(own, options.key.encode(), hello.nonce))
                return Answer(await _frame(reader, decoder), hello.nonce, nonce)
            finally:
                writer.transport.abort()
    except (OSError, TimeoutError, ProtocolError, ValueError) as error:
        raise NoHandshake(f"no handshake with {address}: {error or 'no answer'}") from None


async def _frame(reader: asyncio.StreamReader, decoder: StreamDecoder) -> bytes:
    """The body of the next frame of the handshake."""
    while data := await reader.read(1 << 16):
        for offset, piece in decoder.feed(data):
            if offset != GREETING:
                raise ProtocolError("the log is sent before the handshake")
            return bytes(piece)
    raise ProtocolError("the connection was closed")
