"""Connections without an event loop, against a real server and against a peer that sends byte by byte."""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ariane.env import SystemClock
from ariane.errors import ArianeError, ConnectFailed, RequestTimeout, SendFailed
from ariane.protocol.command import Command
from ariane.protocol.frame import encode
from ariane.protocol.frame_head import MAX_FRAME
from ariane.remoting import TlsClient, TlsServer
from ariane.remoting.blocking import CHUNK, BlockingConnection, ExclusiveConnection

from .conftest import ECHO, at

CLOCK = SystemClock()
INSECURE = TlsClient(insecure=True)


@contextmanager
def peer(serve: Callable[[socket.socket], None]) -> Iterator[str]:
    """A peer whose one connection a function serves in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))

    def run() -> None:
        accepted, _ = listener.accept()
        with accepted:
            serve(accepted)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        thread.join(60)
        listener.close()
        assert not thread.is_alive()


@pytest.mark.parametrize("tls", [None, INSECURE], ids=["plain", "tls"])
@pytest.mark.parametrize(
    "sizes", [[0], [10, CHUNK - 100, CHUNK + 1, 3 << 20, 5], [1] * 300], ids=["none", "mix", "many"]
)
async def test_requests_go_ahead_of_responses_of_any_size(serve, tls, sizes):
    server = await serve(tls=TlsServer())
    bodies = [bytes([n % 251]) * size for n, size in enumerate(sizes)]

    def talk() -> list[bytes]:
        connection = BlockingConnection(at(server), CLOCK, 30, tls=tls)
        for n, body in enumerate(bodies):
            connection.send(encode(Command(ECHO, {"n": str(n)}, body, opaque=n)), 30)
        received = [connection.receive(30) for _ in bodies]
        assert [command.opaque for command, _ in received] == list(range(len(bodies)))
        connection.close()
        return [bytes(body) for _, body in received]

    assert await asyncio.to_thread(talk) == bodies


def test_commands_may_come_byte_by_byte():
    frames = encode(Command(1, {"a": "b"}, b"first", opaque=1)) + encode(Command(2, opaque=2))

    def drip(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in frames:
            sock.sendall(bytes((byte,)))

    with peer(drip) as address:
        connection = BlockingConnection(address, CLOCK, 30)
        first, second = connection.receive(30), connection.receive(30)
        assert (first.command.fields, bytes(first.body), second.command.code) == ({"a": "b"}, b"first", 2)
        with pytest.raises(SendFailed, match="closed by the peer"):
            connection.receive(30)


def test_after_a_time_out_the_rest_of_a_command_is_still_read():
    frame = encode(Command(1, body=bytes(range(256)) * 1000, opaque=1))
    go_on = threading.Event()

    def halting(sock: socket.socket) -> None:
        sock.sendall(frame[:100_000])
        assert go_on.wait(60)
        sock.sendall(frame[100_000:])

    with peer(halting) as address:
        connection = BlockingConnection(address, CLOCK, 30)
        with pytest.raises(RequestTimeout, match=r"did not answer within 0\.1 s"):
            connection.receive(0.1)
        go_on.set()
        assert bytes(connection.receive(30).body) == bytes(range(256)) * 1000
        connection.close()


class LateClock(SystemClock):
    """The clock of a thread that gets no processor until long after its deadline: its response has come meanwhile."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        self._asked = 0
        self._meanwhile = meanwhile

    def monotonic(self) -> float:
        self._asked += 1
        if self._asked == 2:
            self._meanwhile()
        return 0.0 if self._asked == 1 else 1000.0


def test_a_response_that_came_in_time_is_read_by_a_late_thread():
    late, sent = threading.Event(), threading.Event()

    def serve(sock: socket.socket) -> None:
        late.wait(60)
        sock.sendall(encode(Command(1, opaque=7)))
        sent.set()

    def meanwhile() -> None:
        late.set()
        sent.wait(60)

    with peer(serve) as address:
        connection = BlockingConnection(address, LateClock(meanwhile), 30)
        assert connection.receive(30).command.opaque == 7
        connection.close()


def test_a_peer_that_sends_a_byte_now_and_then_does_not_hold_a_thread():
    released = threading.Event()

    def drip(sock: socket.socket) -> None:
        frame = encode(Command(1, {}, bytes(1000)))
        for byte in frame[:300]:
            if released.wait(0.02):
                return
            sock.sendall(bytes([byte]))

    with peer(drip) as address:
        connection = BlockingConnection(address, CLOCK, 10)
        try:
            with pytest.raises(RequestTimeout):
                connection.receive(0.2)
        finally:
            released.set()
            connection.close()


@pytest.mark.parametrize("garbage", [b"\xff" * 100, b"\x00\x00\x00\x07\x00\x00\x00\x03abc"])
def test_what_is_no_command_closes_the_connection(garbage):
    with peer(lambda sock: sock.sendall(garbage)) as address:
        connection = BlockingConnection(address, CLOCK, 30)
        with pytest.raises(SendFailed, match=r"bad frame|JSON"):
            connection.receive(30)
        with pytest.raises(SendFailed):
            connection.send(b"x", 1)


async def test_a_certificate_is_verified_here_too(serve):
    server = await serve(tls=TlsServer())

    def talk() -> None:
        connection = BlockingConnection(at(server), CLOCK, 30, tls=TlsClient())
        connection.send(encode(Command(ECHO)), 30)
        connection.receive(30)

    with pytest.raises(SendFailed, match="certificate of the peer is refused"):
        await asyncio.to_thread(talk)


def test_a_long_request_has_more_time_than_a_tick():
    """The peer reads nothing for a while; what does not fit into the buffers of the system has to wait."""
    frame = encode(Command(1, body=bytes(MAX_FRAME - 1000)))
    read = 0

    def late(sock: socket.socket) -> None:
        nonlocal read
        started.wait(60)
        while read < len(frame) and (data := sock.recv(1 << 20)):
            read += len(data)

    started = threading.Event()
    with peer(late) as address:
        connection = BlockingConnection(address, CLOCK, 30)
        threading.Timer(0.3, started.set).start()
        connection.send(frame, 60)
        connection.close()
    assert read == len(frame)


def test_an_address_where_nobody_listens_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    with pytest.raises(ConnectFailed, match=address):
        BlockingConnection(address, CLOCK, 30)
    exclusive = ExclusiveConnection(address, CLOCK, 30)
    assert not exclusive.take()


async def test_one_thread_has_an_exclusive_connection_at_a_time(serve):
    server = await serve()

    def talk() -> None:
        exclusive = ExclusiveConnection(at(server), CLOCK, 30)
        assert exclusive.take()
        assert not exclusive.take()
        assert exclusive.ask(encode(Command(ECHO, body=b"x", opaque=9)), 9, 30).body == b"x"
        assert exclusive.take()
        exclusive.give_back()
        exclusive.close()
        assert not exclusive.take()

    await asyncio.to_thread(talk)


def test_closing_ends_the_request_of_another_thread():
    ended = threading.Event()
    with peer(lambda sock: ended.wait(60) and None) as address:
        exclusive = ExclusiveConnection(address, CLOCK, 30)
        assert exclusive.take()
        failures: list[ArianeError] = []

        def ask() -> None:
            try:
                exclusive.ask(encode(Command(1, opaque=1)), 1, 60)
            except ArianeError as error:
                failures.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        exclusive.close()
        asking.join(60)
        ended.set()
        assert isinstance(failures[0], SendFailed)
