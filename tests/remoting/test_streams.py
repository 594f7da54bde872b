"""What comes in pieces, in masses or malformed, and peers that do not read."""

import asyncio
import contextlib
import os
import random
import socket
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane.env import ManualClock, SystemClock
from ariane.errors import ProtocolError, RequestTimeout, SendFailed
from ariane.protocol.command import ONEWAY, Command
from ariane.protocol.frame import FrameDecoder, encode
from ariane.protocol.frame_head import MAX_FRAME
from ariane.remoting import Connection, Server
from ariane.remoting.incoming import MAX_RUNNING, SOON

from .conftest import ECHO, at, echo, until


async def answers(reader: asyncio.StreamReader, count: int) -> list[Command]:
    decoder = FrameDecoder()
    found: list[Command] = []
    while len(found) < count:
        data = await asyncio.wait_for(reader.read(1 << 20), 60)
        assert data, f"closed after {len(found)} answers"
        decoder.feed(data)
        found += decoder.commands()
    return found


async def open_socket(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", server.port)


async def test_a_request_may_come_byte_by_byte(serve):
    server = await serve()
    reader, writer = await open_socket(server)
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    for byte in encode(Command(ECHO, {"k": "v"}, b"body", opaque=5)):
        writer.write(bytes((byte,)))
        await writer.drain()
    [answer] = await answers(reader, 1)
    assert (answer.opaque, answer.body) == (5, b"body")
    writer.close()


async def test_requests_sent_at_once_are_answered_in_order(serve):
    server = await serve()
    reader, writer = await open_socket(server)
    writer.write(b"".join(encode(Command(ECHO, opaque=n)) for n in range(5000)))
    assert [answer.opaque for answer in await answers(reader, 5000)] == list(range(5000))
    writer.close()


async def test_a_read_cycle_begins_before_the_requests_of_a_read_and_ends_before_their_answers(serve):
    events: list[str] = []
    connections: list[Connection] = []

    def handle(connection, request):
        connections.append(connection)
        events.append("handled")
        return request.reply(0)

    class Cycle:
        def begin(self, now):
            events.append("begin")

        def end(self):
            events.append("end")
            assert connections[0]._outgoing.size  # nothing was written yet

    server = await serve({1: handle}, cycle=Cycle())
    reader, writer = await open_socket(server)
    frame = encode(Command(1))
    writer.write(frame[:10])
    await until(lambda: any(c._decoder.pending for c in server.connections))
    assert events == []
    writer.write(frame[10:] + frame * 2)
    await answers(reader, 3)
    assert events == ["begin", "handled", "handled", "handled", "end"]
    writer.close()


async def test_a_body_is_sent_from_where_it_lies(serve, dial):
    log = memoryview(bytes(range(256)) * 4000)
    parts = [log[:500_000], log[500_000:500_001], log[700_000:]]

    def pull(connection, request):
        connection.send(request.reply(0, body=b"first"))
        connection.answer_parts(request, request.reply(0), parts, sum(map(len, parts)))
        connection.send(request.reply(0, body=b"last"))

    server = await serve({1: pull})
    reader, writer = await open_socket(server)
    writer.write(encode(Command(1)))
    first, pulled, last = await answers(reader, 3)
    assert (first.body, last.body) == (b"first", b"last")
    assert pulled.body == b"".join(parts)
    writer.close()


async def test_large_bodies_travel_both_ways(serve, dial):
    server = await serve()
    body = os.urandom(8 << 20)
    assert (await dial().request(at(server), Command(ECHO, body=body), 20)).body == body


# Malformed input.

BAD_FRAMES = {
    "negative length": struct.pack(">ii", -1, 0),
    "overlong": struct.pack(">iI", MAX_FRAME + 1, 10),
    "header longer than its frame": struct.pack(">iI", 10, 100) + b"x" * 10,
    "header not JSON": struct.pack(">iI", 7, 3) + b"abc",
    "unknown serialisation": struct.pack(">iI", 7, 9 << 24 | 3) + b"abc",
    "torn binary header": struct.pack(">iI", 7, 1 << 24 | 3) + b"abc",
    "plain text": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "TLS where it is disabled": b"\x16\x03\x01\x00\x05hello",
}


@pytest.mark.parametrize("data", BAD_FRAMES.values(), ids=BAD_FRAMES)
async def test_malformed_input_closes_its_connection_with_one_reason_and_no_other(serve, dial, caplog, data):
    server = await serve()
    good = dial()
    await good.request(at(server), Command(ECHO), 30)
    reader, writer = await open_socket(server)
    writer.write(data)
    assert await asyncio.wait_for(reader.read(), 30) == b""
    assert sum("closing 127.0.0.1" in record.message for record in caplog.records) == 1
    await until(lambda: len(server.connections) == 1)
    assert (await good.request(at(server), Command(ECHO), 30)).code == 0
    writer.close()


async def test_requests_before_a_malformed_frame_are_answered(serve):
    server = await serve()
    reader, writer = await open_socket(server)
    writer.write(encode(Command(ECHO, opaque=1)) * 2 + struct.pack(">ii", -1, 0))
    data = await asyncio.wait_for(reader.read(), 30)
    decoder = FrameDecoder()
    decoder.feed(data)
    assert len(list(decoder.commands())) == 2
    writer.close()


async def test_an_overlong_frame_is_refused_at_its_length(serve):
    server = await serve(max_frame=1000)
    reader, writer = await open_socket(server)
    writer.write(struct.pack(">i", 1001) + b"\0\0\0\2")
    assert await asyncio.wait_for(reader.read(), 30) == b""
    writer.close()


async def test_a_thousand_garbage_connections_disturb_nobody(serve, dial):
    server = await serve()
    good = dial()
    chance = random.Random(7)
    connection = await good.connection(at(server))

    async def garbage() -> None:
        reader, writer = await open_socket(server)
        writer.write(chance.randbytes(chance.randrange(1, 200)))
        writer.write_eof()
        await asyncio.wait_for(reader.read(), 60)
        writer.close()

    for n in range(20):
        junk = asyncio.gather(*(garbage() for _ in range(50)))
        answer = await good.request(at(server), Command(ECHO, body=b"%d" % n), 20)
        assert answer.body == b"%d" % n
        await junk
    assert connection.is_open
    await until(lambda: len(server.connections) == 1)


class FakeTransport(asyncio.Transport):
    """Takes what a connection writes and remembers whether it was closed."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1), "sockname": ("127.0.0.1", 2)})
        self.written = b""
        self.writes = 0
        self.closed = False

    def write(self, data):
        self.written += bytes(data)
        self.writes += 1

    def writelines(self, list_of_data):
        self.written += b"".join(list_of_data)

    def close(self):
        self.closed = True

    abort = close

    def set_write_buffer_limits(self, high=None, low=None): ...


async def test_answers_to_much_leave_while_the_rest_of_the_read_is_handled():
    """Who sends batches goes on with the first answers; answers to little leave in one write."""
    server = Server({ECHO: lambda _, request: request.reply()}, clock=SystemClock())
    for size, writes in ((SOON // 2, 3), (10, 1)):
        connection, transport = server._accept(), FakeTransport()
        connection.connection_made(transport)
        connection.data_received(b"".join(encode(Command(ECHO, body=bytes(size), opaque=n)) for n in range(5)))
        decoder = FrameDecoder()
        decoder.feed(transport.written)
        assert [command.opaque for command in decoder.commands()] == list(range(5))
        assert transport.writes == writes
        connection.eof_received()
        connection.connection_lost(None)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.binary(min_size=1, max_size=120), max_size=6), st.integers(0, 3))
def test_any_bytes_are_answered_or_close_the_connection_and_never_raise(chunks, good):
    async def feed() -> None:
        server = Server({ECHO: echo}, clock=SystemClock())
        connection = server._accept()
        transport = FakeTransport()
        connection.connection_made(transport)
        for n in range(good):
            connection.data_received(encode(Command(ECHO, opaque=n)))
        for chunk in chunks:
            if not transport.closed:
                connection.data_received(chunk)
        connection.eof_received()
        connection.connection_lost(None)
        decoder = FrameDecoder()
        decoder.feed(transport.written)
        assert [c.opaque for c in decoder.commands()][:good] == list(range(good))

    asyncio.run(feed())


def mutated(frame: bytes, positions: list[tuple[int, int]]) -> bytes:
    data = bytearray(frame)
    for position, value in positions:
        data[position % len(data)] = value
    return bytes(data)


@settings(max_examples=500, deadline=None)
@given(
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 500), st.integers(0, 255)), min_size=1, max_size=4),
)
def test_a_damaged_frame_is_a_command_or_a_protocol_error(binary, positions):
    frame = encode(Command(310, {"a": "group", "b": "topic", "i": "KEYS\x01k\x02"}, b"body", serialization=int(binary)))
    decoder = FrameDecoder()
    decoder.feed(mutated(frame, positions))
    with contextlib.suppress(ProtocolError):
        assert all(isinstance(command, Command) for command in decoder.commands())


# Peers that do not read.


async def test_a_peer_that_does_not_read_is_not_served_on_and_loses_nothing(serve, dial):
    handled = 0
    body = b"x" * 100_000

    def big(_, request):
        nonlocal handled
        handled += 1
        return request.reply(0, body=body)

    server = await serve({1: big, ECHO: echo})
    sock = socket.create_connection(("127.0.0.1", server.port))
    sock.setblocking(False)
    total = 3000
    await asyncio.get_running_loop().sock_sendall(sock, b"".join(encode(Command(1, opaque=n)) for n in range(total)))
    await until(lambda: handled > 0)
    previous = -1
    while previous != handled:  # the kernel's buffers fill, then it stops
        previous = handled
        for _ in range(20):
            assert (await dial().request(at(server), Command(ECHO), 30)).code == 0
    assert handled < total / 2
    [slow] = [c for c in server.connections if c._outgoing.congested]
    assert slow._transport.get_write_buffer_size() < 4 << 20
    reader, writer = await asyncio.open_connection(sock=sock)
    got = await answers(reader, total)
    assert [answer.opaque for answer in got] == list(range(total))
    assert handled == total
    writer.close()


async def test_one_way_requests_beyond_what_runs_at_once_wait_in_the_socket(serve):
    gate = asyncio.Event()
    running = 0
    done = 0

    async def slow(_, request):
        nonlocal running, done
        running += 1
        await gate.wait()
        done += 1

    server = await serve({1: slow})
    _, writer = await open_socket(server)
    total = MAX_RUNNING + 2000
    writer.write(encode(Command(1, flag=ONEWAY)) * total)
    await until(lambda: running >= MAX_RUNNING)
    assert running == MAX_RUNNING
    gate.set()
    await until(lambda: done == total)
    writer.close()


async def test_one_way_requests_of_a_peer_that_left_are_still_handled(serve):
    seen = 0

    def count(_, request):
        nonlocal seen
        seen += 1
        return request.reply(0)

    server = await serve({1: count})
    _, writer = await open_socket(server)
    writer.write(encode(Command(1, flag=ONEWAY, body=b"x" * 1000)) * 2000)
    await writer.drain()
    writer.close()
    await until(lambda: seen == 2000)


async def test_a_sender_waits_for_a_server_that_does_not_keep_up(serve, dial):
    """A client's one-way messages slow down with the server; its memory stays bounded and nothing is lost."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    client = dial()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    sent = 0

    async def produce() -> None:
        nonlocal sent
        for _ in range(300):
            await client.oneway(address, Command(1, body=b"x" * 100_000))
            sent += 1

    producing = asyncio.ensure_future(produce())
    sock, _ = await asyncio.get_running_loop().sock_accept(listener)
    connection = await client.connection(address)
    await until(lambda: connection._outgoing.congested)
    assert sent < 300
    assert connection._transport.get_write_buffer_size() < 4 << 20
    reader, writer = await asyncio.open_connection(sock=sock)
    got = asyncio.ensure_future(answers(reader, 300))
    await producing
    assert len(await got) == 300
    writer.close()
    listener.close()


async def test_a_sender_that_waits_hears_when_the_server_is_gone(serve, dial):
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setblocking(False)
    client = dial()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    connection_ready = asyncio.ensure_future(client.connection(address))
    sock, _ = await asyncio.get_running_loop().sock_accept(listener)
    connection = await connection_ready
    while not connection._outgoing.congested:
        connection.oneway(Command(1, body=b"x" * 1_000_000))
    with pytest.raises(RequestTimeout, match="did not read"):
        await connection.request(Command(1), 0.05)
    waiting = asyncio.ensure_future(connection.drain())
    sock.close()
    with pytest.raises(SendFailed):
        await waiting
    listener.close()


# Idle connections.


async def test_idle_connections_close_after_120_seconds_and_busy_ones_stay(serve, dial):
    clock = ManualClock()
    server = await serve(clock=clock)
    idle, busy = dial(), dial()
    silent = await idle.connection(at(server))
    await busy.request(at(server), Command(ECHO), 30)
    await until(lambda: clock.sleepers and len(server.connections) == 2)
    clock.advance(119)
    await until(lambda: clock.sleepers)
    await busy.request(at(server), Command(ECHO), 30)
    assert silent.is_open
    clock.advance(1)
    await until(lambda: not silent.is_open)
    assert (await busy.connection(at(server))).is_open
    assert len(server.connections) == 1


async def test_a_client_closes_connections_it_does_not_use(serve, dial):
    clock = ManualClock()
    server = await serve()
    client = dial(clock=clock, idle_timeout=60)
    connection = await client.connection(at(server))
    await until(lambda: clock.sleepers)
    clock.advance(60)
    await until(lambda: not connection.is_open)
    await until(lambda: not server.connections)


# Coming and going.


async def test_listeners_hear_of_connections_that_come_and_go(serve, dial):
    events: list[tuple[str, str]] = []
    server = await serve(
        on_open=lambda c: events.append(("open", c.peer)), on_close=lambda c: events.append(("close", c.peer))
    )
    client = dial()
    connection = await client.connection(at(server))
    peer = connection.local
    await client.close()
    await until(lambda: len(events) == 2)
    assert events == [("open", peer), ("close", peer)]


async def test_stopping_a_server_lets_running_requests_finish(serve, dial):
    gate, started = asyncio.Event(), asyncio.Event()

    async def slow(_, request):
        started.set()
        await gate.wait()
        return request.reply(0, body=b"done")

    server = await serve({1: slow})
    waiting = asyncio.ensure_future(dial().request(at(server), Command(1), 30))
    await started.wait()
    stopping = asyncio.ensure_future(server.stop())
    gate.set()
    assert (await waiting).body == b"done"
    await stopping
