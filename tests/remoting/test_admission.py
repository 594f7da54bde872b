"""Too many connections: in all, from one address, and more than the process has descriptors."""

import asyncio
import errno
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from ariane.protocol.command import Command
from ariane.remoting import Limits, Server
from ariane.remoting.admission import Admission, network_of
from ariane.remoting.limited_log import LINES
from ariane.remoting.limits import Reason

from .conftest import ECHO, at, until


async def dialled(server: Server, count: int, source: str = "127.0.0.1") -> list[socket.socket]:
    """Open connections; whether the server keeps them is seen later."""
    loop = asyncio.get_running_loop()
    found = []
    for _ in range(count):
        sock = socket.socket()
        sock.setblocking(False)
        sock.bind((source, 0))
        await loop.sock_connect(sock, ("127.0.0.1", server.port))
        found.append(sock)
    return found


def counts(server: Server) -> dict[str, int]:
    return server.refusals.counts()


async def test_connections_of_one_address_are_limited_and_others_get_in(serve, dial, caplog):
    server = await serve(limits=Limits(connections=100, connections_per_address=10))
    flood = await dialled(server, 40, "127.0.0.2")
    await until(lambda: counts(server)["connections_per_address"] == 30)
    assert len(server.connections) == 10
    assert (await dial().request(at(server), Command(ECHO), 60)).code == 0
    assert sum("too many connections" in record.message for record in caplog.records) <= LINES
    for sock in flood:
        sock.close()
    await until(lambda: len(server.connections) == 1)
    flood = await dialled(server, 10, "127.0.0.2")
    await until(lambda: len(server.connections) == 11)
    assert counts(server)["connections_per_address"] == 30
    for sock in flood:
        sock.close()


async def test_connections_in_all_are_limited(serve):
    server = await serve(limits=Limits(connections=10, connections_per_address=8))
    flood = [sock for n in range(4) for sock in await dialled(server, 3, f"127.0.0.{n + 2}")]
    await until(lambda: counts(server)["connections"] == 2)
    assert len(server.connections) == 10
    for sock in flood:
        sock.close()
    await until(lambda: not server.connections)


async def test_two_ports_share_one_count(serve):
    admission = Admission(4, 100)
    first, second = await serve(admission=admission), await serve(admission=admission)
    flood = [*await dialled(first, 3), *await dialled(second, 3)]
    await until(lambda: admission.count == 3)  # nine tenths of four
    await until(lambda: counts(second)["connections_per_address"] + counts(first)["connections_per_address"] == 3)
    for sock in flood:
        sock.close()
    await until(lambda: admission.count == 0)


async def test_a_refused_connection_is_not_announced(serve):
    opened, closed = [], []
    server = await serve(limits=Limits(connections=1), on_open=opened.append, on_close=closed.append)
    flood = await dialled(server, 5)
    await until(lambda: counts(server)["connections_per_address"] == 4)
    assert len(opened) == 1
    for sock in flood:
        sock.close()
    await until(lambda: len(closed) == 1)


@pytest.mark.parametrize(
    ("open_files", "most", "per_address"),
    [(None, 65536, 32768), (20000, 17952, 16156), (1024, 768, 691), (4, 3, 2), (1, 1, 1)],
)
def test_descriptors_are_left_to_the_store(open_files, most, per_address):
    admission = Admission(65536, 32768, open_files)
    assert (admission.most, admission.most_per_address) == (most, per_address)


def test_one_ipv6_network_is_one_address():
    admission = Admission(100, 2)
    assert [admission.enter(f"2001:db8::{n}") for n in range(3)] == [None, None, Reason.CONNECTIONS_PER_ADDRESS]
    assert admission.enter("2001:db8:0:1::1") is None
    admission.leave("2001:db8::1")
    assert admission.enter("2001:db8::77") is None
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("not an address:") == "not an address:"


@contextmanager
def open_files_limited(to: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (to, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_a_server_without_descriptors_serves_on_and_accepts_again(serve, dial):
    """Should connections use up all descriptors in spite of the limit, accepting pauses; it neither ends nor spins."""
    server = await serve(admission=Admission(1 << 20, 1 << 20))
    client = dial()
    assert (await client.request(at(server), Command(ECHO), 60)).code == 0
    first = await dialled(server, 30)
    await until(lambda: len(server.connections) == 31)
    waiting = [socket.socket() for _ in range(20)]
    for sock in waiting:
        sock.setblocking(False)
    used = socket.socket()
    lowest_free = used.fileno()
    used.close()
    turns = 0
    with open_files_limited(lowest_free):
        for sock in waiting:
            with pytest.raises(BlockingIOError) as refused:
                sock.connect(("127.0.0.1", server.port))
            assert refused.value.errno == errno.EINPROGRESS
        for _ in range(200):
            turns += 1
            assert (await client.request(at(server), Command(ECHO), 60)).code == 0
    assert turns == 200
    for sock in (*first, *waiting):
        sock.close()
    await until(lambda: len(server.connections) == 1)
    again = dial()
    assert (await again.request(at(server), Command(ECHO), 60)).code == 0
