"""Peers that mean harm: frames that never end, peers that never read, floods of log lines."""

import asyncio
import contextlib
import logging
import socket
import struct

import pytest

from ariane.env import ManualClock
from ariane.errors import ProtocolError
from ariane.protocol.command import Command
from ariane.protocol.frame import encode
from ariane.protocol.frame_head import MAX_FRAME
from ariane.remoting import Limits, Server, TlsClient, TlsServer
from ariane.remoting.limited_log import LINES, LONGEST, LONGEST_TRACEBACK, WINDOW

from .conftest import ECHO, at, echo, until

UNFINISHED = struct.pack(">iI", MAX_FRAME, 20)  # the beginning of a frame of 16 MiB
MIB = 1 << 20


def raw(server: Server) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setblocking(False)
    return sock


async def flood(sock: socket.socket, data: bytes) -> None:
    """Write as much as the server takes."""
    with contextlib.suppress(ConnectionError):
        await asyncio.get_running_loop().sock_sendall(sock, data)


async def advance(clock: ManualClock, seconds: float) -> None:
    """Let time pass second by second, so that the guard looks as often as it would."""
    for _ in range(round(seconds)):
        await until(lambda: clock.sleepers)
        clock.advance(1)
        for _ in range(5):
            await asyncio.sleep(0)


async def test_sixty_unfinished_frames_of_16_mib_do_not_take_a_gigabyte(serve, dial, caplog):
    limit = 64 * MIB
    server = await serve(limits=Limits(buffered_bytes=limit))
    most = 0

    def look() -> bool:
        nonlocal most
        most = max(most, server.buffered)
        return all(task.done() for task in attackers)

    sockets = [raw(server) for _ in range(60)]
    data = UNFINISHED + bytes(MAX_FRAME - 1000)
    attackers = [asyncio.ensure_future(flood(sock, data)) for sock in sockets]
    await until(look, 120)
    assert 0 < most <= limit
    assert server.refusals.counts()["buffered_bytes"] > 0
    assert (await dial().request(at(server), Command(ECHO, body=bytes(4 * MIB)), 60)).code == 0
    assert sum("that are buffered for all peers" in record.message for record in caplog.records) <= LINES
    for sock in sockets:
        sock.close()
    await until(lambda: server.buffered == 0)


async def test_a_whole_frame_of_the_largest_size_passes_under_the_limit(serve, dial):
    server = await serve(limits=Limits(buffered_bytes=1))
    body = bytes(MAX_FRAME - 1000)
    assert (await dial().request(at(server), Command(ECHO, body=body), 60)).body == body
    await until(lambda: server.buffered == 0)


@pytest.mark.parametrize("start", [b"\0", UNFINISHED, UNFINISHED + bytes(100_000)], ids=["a byte", "a head", "a part"])
async def test_one_byte_a_second_does_not_keep_a_connection(serve, caplog, start):
    clock = ManualClock()
    server = await serve(clock=clock)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(start)
    await until(lambda: any(c._decoder.pending == len(start) for c in server.connections))
    for n in range(30):
        await advance(clock, 1)
        assert server.connections, f"closed after {n} s"
        writer.write(b"\0")
        await until(lambda n=n: any(c._decoder.pending > len(start) + n for c in server.connections))
        if n == 5:
            break  # a frame of 8 bytes would be whole, and refused
    await advance(clock, 27)
    assert not await asyncio.wait_for(reader.read(), 30)
    await until(lambda: not server.connections)
    assert server.refusals.counts()["frame_timeout"] == 1
    assert sum("did not arrive whole" in record.message for record in caplog.records) == 1
    writer.close()


async def test_a_peer_that_finishes_its_frames_may_take_its_time_between_them(serve):
    clock = ManualClock()
    server = await serve(clock=clock)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    frame = encode(Command(ECHO))
    for _ in range(3):
        writer.write(frame[:10])
        await until(lambda: any(c._decoder.pending for c in server.connections))
        await advance(clock, 25)
        writer.write(frame[10:])
        assert await asyncio.wait_for(reader.read(1000), 30)
    assert server.connections
    assert not any(server.refusals.counts().values())
    writer.close()


@pytest.mark.parametrize("part", [1, 100], ids=["a byte of a hello", "a part of a hello"])
async def test_a_tls_handshake_has_to_end(serve, part):
    clock = ManualClock()
    server = await serve(clock=clock, tls=TlsServer())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(TlsClient(insecure=True).layer("localhost").start()[:part])
    await until(lambda: any(c.secure for c in server.connections))
    await advance(clock, 33)
    assert not await asyncio.wait_for(reader.read(), 30)
    assert server.refusals.counts()["frame_timeout"] == 1
    writer.close()


async def test_a_drip_under_tls_does_not_keep_a_connection(serve):
    clock = ManualClock()
    server = await serve(clock=clock, tls=TlsServer())
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    layer = TlsClient(insecure=True).layer("localhost")
    layer.encrypt(UNFINISHED)
    writer.write(layer.start())
    while not any(c._decoder.pending for c in server.connections):
        layer.decrypt(await asyncio.wait_for(reader.read(1 << 16), 30))
        writer.write(layer.outgoing())
        await asyncio.sleep(0.001)
    for _ in range(33):
        writer.write(layer.encrypt(b"x"))
        await advance(clock, 1)
    await until(lambda: not server.connections)
    assert server.refusals.counts()["frame_timeout"] == 1
    writer.close()


async def test_answers_that_nobody_reads_are_bounded_on_all_connections_together(serve, dial):
    """Answers that come later, like those to waiting pulls, are not held back by a peer's silence."""
    parked = []
    limit = 32 * MIB
    server = await serve({1: lambda c, r: parked.append((c, r)), ECHO: echo}, limits=Limits(buffered_bytes=limit))
    sockets = [raw(server) for _ in range(10)]
    for sock in sockets:
        await flood(sock, b"".join(encode(Command(1, opaque=n)) for n in range(20)))
    await until(lambda: len(parked) == 200)
    body = bytes(MIB)
    for connection, request in parked:  # 200 MiB
        connection.answer(request, request.reply(0, body=body))
        await asyncio.sleep(0)
        assert server.buffered <= limit
    assert server.refusals.counts()["buffered_bytes"] > 0
    assert (await dial().request(at(server), Command(ECHO), 60)).code == 0
    for sock in sockets:
        sock.close()
    await until(lambda: server.buffered == 0)


async def test_a_peer_that_never_reads_is_closed_in_time(serve):
    clock = ManualClock()
    server = await serve({1: lambda _, r: r.reply(0, body=bytes(MIB))}, clock=clock)
    sock = raw(server)
    await flood(sock, b"".join(encode(Command(1, opaque=n)) for n in range(50)))
    await until(lambda: any(c._outgoing.congested for c in server.connections))
    await advance(clock, 29)
    assert server.connections
    await advance(clock, 200)
    await until(lambda: not server.connections)
    assert server.refusals.counts()["unread"] == 1
    sock.close()


async def test_a_slow_reader_that_goes_on_is_not_idle(serve):
    """Its requests wait while its answers do, so nothing but its reading shows that it lives."""
    clock = ManualClock()
    server = await serve({1: lambda _, r: r.reply(0, body=bytes(32 * MIB))}, clock=clock, idle_timeout=60)
    sock = raw(server)
    await flood(sock, encode(Command(1)))
    await until(lambda: any(c._outgoing.congested for c in server.connections))
    [connection] = server.connections
    loop = asyncio.get_running_loop()
    for _ in range(3):
        before = connection._transport.get_write_buffer_size()
        while connection._transport.get_write_buffer_size() == before:
            await loop.sock_recv(sock, 1 << 16)
        await advance(clock, 59)
        assert server.connections
    await advance(clock, 122)  # of nearly ten minutes that it has for 32 MiB
    await until(lambda: not server.connections)
    assert server.refusals.counts()["idle"] == 1
    sock.close()


async def test_a_closed_connection_whose_last_answer_is_not_read_goes_away(serve):
    clock = ManualClock()
    server = await serve({1: lambda _, r: r.reply(0, body=bytes(MIB // 2))}, clock=clock)
    sock = raw(server)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    await flood(sock, b"".join(encode(Command(1, opaque=n)) for n in range(20)))
    await until(lambda: any(c._transport.get_write_buffer_size() for c in server.connections))
    [connection] = server.connections
    connection._outgoing.congested = False  # as when less than the high-water mark is unread
    connection.close("told to")
    await advance(clock, 33)
    await until(lambda: not server.connections)
    sock.close()


async def test_requests_that_run_count_and_stop_the_reading(serve):
    gate, started = asyncio.Event(), 0

    async def slow(_, request):
        nonlocal started
        started += 1
        await gate.wait()

    server = await serve({1: slow})
    sock = raw(server)
    sending = asyncio.ensure_future(flood(sock, encode(Command(1, body=bytes(4 * MIB))) * 20))
    await until(lambda: started >= 8)
    for _ in range(200):
        await asyncio.sleep(0)
    assert started == 8
    assert server.buffered >= 32 * MIB
    gate.set()
    await sending
    await until(lambda: started == 20 and server.buffered == 0)
    sock.close()


# Log lines.


def lines(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "ariane.remoting"]


async def test_a_flood_of_bad_connections_writes_few_lines_and_then_their_number(serve, caplog):
    clock = ManualClock()
    server = await serve(clock=clock)
    for _ in range(LINES + 30):
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(struct.pack(">ii", -1, 0))
        assert not await asyncio.wait_for(reader.read(), 30)
        writer.close()
    assert len(lines(caplog)) == LINES
    await advance(clock, WINDOW + 1)
    await until(lambda: len(lines(caplog)) > LINES)
    assert lines(caplog)[-1].startswith("30 more lines")
    assert server.refusals.counts()["frame"] == LINES + 30


async def test_lines_and_remarks_are_short_whatever_a_peer_sends(serve, dial, caplog):
    def quote(_, request):
        raise ProtocolError(f"this is not it: {request.body!r}")

    def fault(_, request):
        def deeper():
            deeper()

        deeper()

    server = await serve({1: quote, 2: fault})
    client = dial()
    answer = await client.request(at(server), Command(1, body=b"x" * MIB), 30)
    assert len(answer.remark) < LONGEST + 100
    assert (await client.request(at(server), Command(2), 30)).remark == "RecursionError"
    assert all(len(line) < LONGEST + LONGEST_TRACEBACK + 200 for line in lines(caplog))
    assert len(lines(caplog)) == 2
    assert all(record.exc_info is None for record in caplog.records if record.levelno >= logging.WARNING)


async def test_a_slow_link_that_goes_on_may_finish_a_large_frame(serve):
    clock = ManualClock()
    server = await serve(clock=clock)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    data, step = encode(Command(ECHO, body=bytes(10 * MIB))), MIB // 4
    for at_byte in range(0, len(data), step):
        writer.write(data[at_byte : at_byte + step])
        await writer.drain()
        [connection] = server.connections
        arrived = min(at_byte + step, len(data))
        await until(lambda c=connection, n=arrived: c._decoder.pending in (0, n))
        await advance(clock, 1)
    assert await asyncio.wait_for(reader.readexactly(4), 60)
    assert not server.refusals.counts()["frame_timeout"]
    writer.close()


async def test_a_large_frame_that_stands_still_is_cut_in_time(serve):
    clock = ManualClock()
    server = await serve(clock=clock)
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(encode(Command(ECHO, body=bytes(10 * MIB)))[: 5 * MIB])
    await until(lambda: any(c._decoder.pending == 5 * MIB for c in server.connections))
    await advance(clock, 33)
    assert not await asyncio.wait_for(reader.read(), 30)
    assert server.refusals.counts()["frame_timeout"] == 1
    writer.close()
