"""Tables that Ariane's brokers copy over the port for slaves: only to peers with the shared key, and never readable."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ariane.ha import HaMaster, HaOptions, TablesNotCopied, copied_tables
from ariane.ha.tables import seal, unseal
from tests.ha.nodes import OPTIONS, new_store, running_master

KEY = "a key of some length"
KEYED = replace(OPTIONS, key=KEY, handshake_timeout=60.0)
SECRET = b"secretKey: canary-12345678"


@asynccontextmanager
async def giving(options: HaOptions) -> AsyncIterator[tuple[HaMaster, str]]:
    async with running_master(new_store(), options) as master:
        master.plain_tables = lambda: b"plain"
        master.secret_tables = lambda: SECRET
        yield master, f"127.0.0.1:{master.port}"


async def test_slave_with_the_key_gets_both_tables() -> None:
    async with giving(KEYED) as (master, address):
        assert await copied_tables(address, KEYED) == (b"plain", SECRET)
        assert master.slaves == []  # it is no copy of the log
        assert master.in_sync() == 0


async def test_without_a_key_secrets_stay_where_they_are() -> None:
    async with giving(OPTIONS) as (_, address):
        assert await copied_tables(address, OPTIONS) == (b"plain", None)


async def test_a_short_key_is_not_enough_for_secrets() -> None:
    short = replace(OPTIONS, key="short")
    async with giving(short) as (_, address):
        assert await copied_tables(address, short) == (b"plain", None)


@pytest.mark.parametrize("key", ["", "another key of some length"])
async def test_peer_without_the_key_gets_nothing(key: str) -> None:
    async with giving(KEYED) as (master, address):
        with pytest.raises(TablesNotCopied, match="shared key"):
            await copied_tables(address, replace(KEYED, key=key, allowed=("127.0.0.1",)))
        assert master.counts()["refused_key"] == 1
        assert "tables" not in master.counts()


async def test_broker_of_another_name_gets_nothing() -> None:
    async with giving(KEYED) as (_, address):
        with pytest.raises(TablesNotCopied, match="slave is other"):
            await copied_tables(address, replace(KEYED, broker="other"))


async def test_master_without_the_key_is_not_believed() -> None:
    async with giving(OPTIONS) as (_, address):
        with pytest.raises(TablesNotCopied, match="does not prove the shared key"):
            await copied_tables(address, KEYED)


async def test_nobody_on_the_way_reads_or_changes_the_secrets() -> None:
    async with giving(KEYED) as (master, _):
        seen = bytearray()
        changed = False

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            """Pass bytes on; in an answer with tables, change one."""
            there, back = await asyncio.open_connection("127.0.0.1", master.port)

            async def forward() -> None:
                while data := await reader.read(1 << 16):
                    back.write(data)

            forwarding = asyncio.create_task(forward())
            while data := await there.read(1 << 16):
                seen.extend(data)
                if changed and (at := data.find(b'"sealed":"')) >= 0:
                    other = b"B" if data[at + 30 : at + 31] == b"A" else b"A"  # still base64
                    data = data[: at + 30] + other + data[at + 31 :]
                writer.write(data)
            forwarding.cancel()
            back.close()
            writer.close()

        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        try:
            assert (await copied_tables(address, KEYED)).secret == SECRET
            assert b"canary" not in seen
            assert b"sealed" in seen
            changed = True
            with pytest.raises(TablesNotCopied, match="does not prove the shared key"):
                await copied_tables(address, KEYED)
        finally:
            server.close()
            await server.wait_closed()


def test_sealed_tables_open_with_the_same_key_nonces_and_names_alone() -> None:
    sealed = seal(KEYED, "m", "s", SECRET)
    assert unseal(KEYED, "m", "s", sealed) == SECRET
    for options, master, slave, data in (
        (KEYED, "s", "m", sealed),
        (KEYED, "m", "t", sealed),
        (replace(KEYED, broker="other"), "m", "s", sealed),
        (replace(KEYED, key=KEY + "."), "m", "s", sealed),
        (KEYED, "m", "s", sealed[:-1]),
        (KEYED, "m", "s", b""),
        (KEYED, "m", "s", sealed[:20] + bytes([sealed[20] ^ 1]) + sealed[21:]),
    ):
        with pytest.raises(TablesNotCopied):
            unseal(options, master, slave, data)
