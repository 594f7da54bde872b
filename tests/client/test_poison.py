"""Messages that cannot be decoded are delivered as they are stored, and stop no queue."""

import asyncio
import sys
import zlib
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest

from ariane import ConsumeFrom, ConsumeStatus, MessageQueue, ReceivedMessage, aio
from ariane.client.admin import Admin
from ariane.client.decoding import decode_messages
from ariane.env import SystemClock
from ariane.errors import ProtocolError, RouteMissing
from ariane.message import UNIQUE_KEY, dead_letter_topic
from ariane.protocol import compression
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.compression import LARGEST_BODY, decompress
from ariane.protocol.units import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_TYPE,
    COMPRESSION_ZLIB,
    COMPRESSION_ZSTD,
    Unit,
    encode_unit,
)
from ariane.remoting import Client
from ariane.testing.cluster import Cluster
from tests.client.conftest import Site
from tests.client.inbox import Inbox, eventually
from tests.peers import unique

UNKNOWN_CODEC = 0x400
POISON: dict[str, tuple[bytes, int, str]] = {  # body, sys flag, what the error says
    "plain body flagged as compressed": (b"plain", COMPRESSED, "not compressed as its sys flag says"),
    "unknown codec": (b"plain", COMPRESSED | UNKNOWN_CODEC, "unknown codec"),
    "torn zlib": (zlib.compress(b"x" * 1000)[:-3], COMPRESSED, "torn"),
    "zlib bomb": (zlib.compress(bytes(LARGEST_BODY + 1)), COMPRESSED, "over"),
    "plain body flagged as lz4": (b"plain", COMPRESSED | COMPRESSION_LZ4, "compress"),
    "plain body flagged as zstd": (b"plain", COMPRESSED | COMPRESSION_ZSTD, "compress"),
}


async def send_raw(ns: str, topic: str, body: bytes, sys_flag: int, properties: str = "") -> None:
    """Send as another client might: any flags, any properties."""
    async with aio.Admin(name_servers=ns) as admin:
        [broker] = (await admin.route(topic)).broker_datas
    fields = {
        "a": "raw", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": str(sys_flag), "g": "1", "h": "0",
        "i": properties or f"{UNIQUE_KEY}\x01{unique('id')}", "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    client = Client(clock=SystemClock())
    try:
        request = Command(RequestCode.SEND_MESSAGE_V2, fields, body)
        response = await client.request(broker.broker_addrs[0], request, 10.0)
        assert response.code == 0, response.remark
    finally:
        await client.close()


@pytest.mark.parametrize("kind", POISON)
@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
async def test_a_body_that_cannot_be_decoded_does_not_stop_its_queue(
    ns: str, admin: Admin, group: str, kind: str, orderly: bool
) -> None:
    topic = unique("topic")
    await admin.create_topic(topic, queues=1)
    body, flag, why = POISON[kind]
    await send_raw(ns, topic, body, flag)
    await send_raw(ns, topic, b"after", 0)
    inbox = Inbox()
    async with aio.PushConsumer(
        group, topic, inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST, orderly=orderly
    ) as consumer:
        poison, after = sorted(await inbox.arrived(2), key=lambda message: message.queue_offset)
        await consumer.commit()
    assert (poison.body, after.body) == (body, b"after")
    assert poison.decode_error is not None
    assert why in poison.decode_error
    assert after.decode_error is None


async def test_a_lite_consumer_polls_it_too(ns: str, admin: Admin, group: str) -> None:
    topic = unique("topic")
    await admin.create_topic(topic, queues=1)
    for body, flag, _ in POISON.values():
        await send_raw(ns, topic, body, flag)
    await send_raw(ns, topic, b"after", 0)
    found: list[bytes] = []
    async with aio.LitePullConsumer(group, topic, name_servers=ns, consume_from=ConsumeFrom.FIRST) as consumer:
        while b"after" not in found:
            found += [message.body for message in await consumer.poll()]
    assert found == [*(body for body, _, _ in POISON.values()), b"after"]


async def test_a_dead_letter_of_it_keeps_how_it_was_compressed(ours: Cluster, group: str) -> None:
    """An orderly consumer sends a copy: the copy must say again that the body is compressed."""
    topic, ns = unique("topic"), ours.name_servers
    ours.create_topic(topic, queues=1)
    body, flag, _ = POISON["unknown codec"]
    await send_raw(ns, topic, body, flag)
    inbox = Inbox(lambda message, delivery: ConsumeStatus.SUSPEND_CURRENT_QUEUE_A_MOMENT)
    options = {"name_servers": ns, "consume_from": ConsumeFrom.FIRST, "orderly": True, "max_reconsume_times": 0}
    letters: list[ReceivedMessage] = []
    async with aio.PushConsumer(group, topic, inbox, **options), aio.PullClient(name_servers=ns) as reader:

        async def found() -> bool:
            for queue in await reader.queues(dead_letter_topic(group)):
                letters.extend(await reader.pull_messages(queue, 0))
            return bool(letters)

        async def exists() -> bool:
            with suppress(RouteMissing):
                return bool(await reader.queues(dead_letter_topic(group)))
            return False

        await inbox.arrived(1)
        await eventually(exists, "the dead letter topic")
        await eventually(found, "the dead letter")
    assert letters[0].body == body
    assert letters[0].decode_error is not None
    assert "unknown codec" in letters[0].decode_error


PACKERS: dict[int, Callable[[bytes], bytes]] = {
    COMPRESSION_ZLIB: zlib.compress,
    COMPRESSION_LZ4: lambda body: import_module("lz4.frame").compress(body),
    COMPRESSION_ZSTD: lambda body: import_module("zstandard").ZstdCompressor(write_content_size=False).compress(body),
}


@pytest.mark.parametrize("kind", PACKERS, ids=hex)
def test_one_limit_holds_for_every_codec(kind: int, monkeypatch: pytest.MonkeyPatch) -> None:
    pack = PACKERS[kind]
    assert decompress(pack(b"x" * 100_000), kind) == b"x" * 100_000
    monkeypatch.setattr(compression, "LARGEST_BODY", 1 << 20)
    monkeypatch.setattr(compression.inflate, "__defaults__", (1 << 20,))
    assert len(decompress(pack(bytes(1 << 20)), kind)) == 1 << 20
    for size in ((1 << 20) + 1, 64 << 20):
        with pytest.raises(ProtocolError, match="over 1048576 bytes"):
            decompress(pack(bytes(size)), kind)


@pytest.mark.parametrize("kind", PACKERS, ids=hex)
def test_a_torn_body_is_an_error_for_every_codec(kind: int) -> None:
    packed = PACKERS[kind](bytes(range(256)) * 100)
    for cut in (1, len(packed) // 2, len(packed) - 1):
        with pytest.raises(ProtocolError, match="not compressed as its sys flag says"):
            decompress(packed[:cut], kind)


@pytest.mark.parametrize(("kind", "module"), [(COMPRESSION_LZ4, "lz4"), (COMPRESSION_ZSTD, "zstandard")])
def test_a_missing_package_is_named(kind: int, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = PACKERS[kind](b"x")
    for name in [name for name in sys.modules if name.partition(".")[0] == module]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    [message] = decode_messages(encode_unit(Unit(b"T", packed, sys_flag=COMPRESSED | kind)), "broker-a")
    assert message.body == packed
    assert message.decode_error is not None
    assert "ariane[compression]" in message.decode_error
    assert kind & COMPRESSION_TYPE


@pytest.mark.parametrize("sys_flag", [0, COMPRESSED])
def test_properties_that_are_not_utf8_are_shown_as_apaches_client_shows_them(sys_flag: int) -> None:
    body = zlib.compress(b"body") if sys_flag else b"body"
    properties = b"city\x01M\xfcnchen\x02KEYS\x01k1"
    [message] = decode_messages(encode_unit(Unit(b"T", body, properties, sys_flag=sys_flag)), "broker-a")
    assert message.body == b"body"
    assert message.properties == {"city": "M�nchen", "KEYS": "k1"}
    assert message.decode_error == "the properties are not UTF-8"


CONSUMER = """
import sys
from ariane import ConsumeFrom, ConsumeStatus, PushConsumer

def handle(messages):
    for message in messages:
        print(message.queue_offset, message.body[:20], bool(message.decode_error), flush=True)
    return ConsumeStatus.CONSUME_SUCCESS

options = {"name_servers": sys.argv[1], "consume_from": ConsumeFrom.FIRST, "threads": 1, "persist_interval": 600}
with PushConsumer(sys.argv[2], sys.argv[3], handle, **options):
    sys.stdin.read()
"""


async def test_a_consumer_process_that_restarts_meets_it_again_and_goes_on(
    site: Site, admin: Admin, group: str, tmp_path: Path
) -> None:
    topic = unique("topic")
    await admin.create_topic(topic, queues=1)
    for body, flag, _ in POISON.values():
        await send_raw(site.name_servers, topic, body, flag)
    await send_raw(site.name_servers, topic, b"after", 0)
    script = tmp_path / "consumer.py"
    script.write_text(CONSUMER)
    first = await consumed_by(script, site.name_servers, group, topic, len(POISON) + 1, kill=True)
    again = await consumed_by(script, site.name_servers, group, topic, len(POISON) + 1, kill=False)
    assert sorted(first) == sorted(again)  # killed before it could store its offset
    assert sum("True" in line for line in first) == len(POISON)
    assert any("b'after' False" in line for line in first)
    end = await admin.max_offset(MessageQueue(topic, (await admin.queues(topic))[0].broker_name, 0))
    assert await admin.committed(group, (await admin.queues(topic))[0]) == end == len(POISON) + 1


async def consumed_by(script: Path, ns: str, group: str, topic: str, count: int, *, kill: bool) -> list[str]:
    """The first lines of a consumer process, which is killed, or ends by itself."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(script), ns, group, topic, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdout is not None
    assert process.stdin is not None
    try:
        async with asyncio.timeout(120):
            lines = [(await process.stdout.readline()).decode() for _ in range(count)]
            if kill:
                process.kill()
            process.stdin.close()
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return lines
