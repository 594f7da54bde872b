"""Requests and answers between a server and a client."""

import asyncio

import pytest

from ariane.env import ManualClock
from ariane.errors import ConnectFailed, ListenFailed, RequestTimeout, ResponseError, SendFailed
from ariane.protocol.command import BINARY, JSON, Command
from ariane.remoting import Server

from .conftest import ECHO, at, until


@pytest.mark.parametrize("serialization", [JSON, BINARY])
async def test_an_answer_carries_fields_and_body_in_the_serialisation_of_its_request(serve, dial, serialization):
    server = await serve()
    request = Command(ECHO, {"a": "ä"}, b"body", serialization=serialization)
    answer = await dial().request(at(server), request, 30)
    assert (answer.code, answer.fields, answer.body) == (0, {"a": "ä"}, b"body")
    assert answer.serialization == serialization


async def test_many_requests_share_one_connection(serve, dial):
    server = await serve()
    client = dial()
    bodies = [b"%d" % n for n in range(1000)]
    answers = await asyncio.gather(*(client.request(at(server), Command(ECHO, body=body), 30) for body in bodies))
    assert [answer.body for answer in answers] == bodies
    assert len(server.connections) == 1


async def test_answers_in_another_order_reach_their_requests(serve, dial):
    parked: list[tuple[object, Command]] = []

    def park(connection, request):
        parked.append((connection, request))
        if len(parked) == 10:
            for waiting, early in reversed(parked):
                waiting.send(early.reply(0, body=early.body))

    server = await serve({1: park})
    client = dial()
    answers = await asyncio.gather(*(client.request(at(server), Command(1, body=b"%d" % n), 30) for n in range(10)))
    assert [answer.body for answer in answers] == [b"%d" % n for n in range(10)]


async def test_a_handler_may_take_time(serve, dial):
    gate = asyncio.Event()

    async def slow(_, request):
        await gate.wait()
        return request.reply(0, body=b"late")

    server = await serve({1: slow, ECHO: lambda _, r: r.reply(0)})
    client = dial()
    waiting = asyncio.ensure_future(client.request(at(server), Command(1), 30))
    assert (await client.request(at(server), Command(ECHO), 30)).code == 0
    gate.set()
    assert (await waiting).body == b"late"


async def test_a_one_way_request_is_handled_and_never_answered(serve, dial):
    seen = []

    def failing(_, request):
        seen.append(request.body)
        raise ResponseError(16, "no")

    server = await serve({1: failing, 2: lambda _, r: seen.append(r.body) or r.reply(0), ECHO: lambda _, r: r.reply(0)})
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    from ariane.protocol.frame import FrameDecoder, encode

    for code in (1, 2, 77):
        writer.write(encode(Command(code, body=b"x", flag=2, opaque=code)))
    writer.write(encode(Command(ECHO, opaque=99)))
    decoder = FrameDecoder()
    while not (answers := decoder.take()):
        decoder.feed(await reader.read(4096))
    assert [answer.opaque for answer in answers] == [99]
    assert seen == [b"x", b"x"]
    writer.close()


async def test_an_unknown_code_is_answered_not_supported(serve, dial):
    server = await serve()
    answer = await dial().request(at(server), Command(4711), 30)
    assert (answer.code, answer.remark) == (3, " request type 4711 not supported")


async def test_errors_of_handlers_become_answers(serve, dial, caplog):
    def refuse(_, request):
        raise ResponseError(17, "no such topic")

    async def broken(_, request):
        raise RuntimeError("secret detail")

    server = await serve({1: refuse, 2: broken})
    client = dial()
    refused = await client.request(at(server), Command(1), 30)
    failed = await client.request(at(server), Command(2), 30)
    assert (refused.code, refused.remark) == (17, "no such topic")
    assert (failed.code, failed.remark) == (1, "RuntimeError")
    assert "secret detail" in caplog.text


async def test_a_request_times_out_on_the_injected_clock(serve, dial):
    clock = ManualClock()
    server = await serve({1: lambda connection, request: None})
    client = dial(clock=clock)
    waiting = asyncio.ensure_future(client.request(at(server), Command(1), 3))
    await until(lambda: clock.sleepers >= 2)  # the sweeper and the deadline
    clock.advance(3)
    with pytest.raises(RequestTimeout, match=rf"127.0.0.1:{server.port} did not answer within 3 s"):
        await waiting


async def test_a_time_out_in_a_busy_process_says_that_the_process_was_late(serve, dial):
    clock = ManualClock()
    server = await serve({1: lambda connection, request: None})
    client = dial(clock=clock)
    waiting = asyncio.ensure_future(client.request(at(server), Command(1), 3))
    await until(lambda: clock.sleepers >= 2)
    clock.advance(5)
    with pytest.raises(RequestTimeout, match="the event loop of this process was"):
        await waiting


async def test_a_short_deadline_behind_a_long_one_is_kept(serve, dial):
    clock = ManualClock()
    server = await serve({1: lambda connection, request: None})
    client = dial(clock=clock)
    connection = await client.connection(at(server))
    long = connection.submit(Command(1), 30)
    short = connection.submit(Command(1), 3)
    await until(lambda: clock.sleepers >= 2)
    clock.advance(3)
    with pytest.raises(RequestTimeout):
        await short
    assert not long.done()
    await until(lambda: clock.sleepers >= 2)
    clock.advance(27)
    with pytest.raises(RequestTimeout):
        await long


async def test_a_server_asks_its_client(serve, dial):
    opened = []
    server = await serve(on_open=opened.append)
    client = dial(handlers={40: lambda _, request: request.reply(0, body=request.body * 2)})
    await client.connection(at(server))
    await until(lambda: opened)
    answer = await opened[0].request(Command(40, body=b"ab"), 30)
    assert answer.body == b"abab"


async def test_a_lost_connection_fails_what_was_in_flight_at_once_and_the_next_request_reconnects(serve, dial):
    hold = []
    server = await serve({1: lambda connection, request: hold.append(connection), 2: lambda _, r: r.reply(0)})
    client = dial()
    waiting = asyncio.ensure_future(client.request(at(server), Command(1), 60))
    await until(lambda: hold)
    hold[0].abort()
    with pytest.raises(SendFailed, match=at(server)):
        await waiting
    assert (await client.request(at(server), Command(2), 30)).code == 0


async def test_a_refused_connection_names_the_address(serve, dial):
    server = await serve()
    address = at(server)
    await server.stop()
    with pytest.raises(ConnectFailed, match=address):
        await dial().request(address, Command(1), 30)


@pytest.mark.parametrize("address", ["", "nohost", "host:", ":1", "host:port", "host:70000"])
async def test_what_is_no_address_is_not_dialled(dial, address):
    with pytest.raises(ConnectFailed, match="not an address"):
        await dial().request(address, Command(1), 30)


async def test_a_taken_port_is_named(serve):
    server = await serve()
    second = Server({}, clock=ManualClock())
    with pytest.raises(ListenFailed, match=at(server)):
        await second.start("127.0.0.1", server.port)


async def test_ipv6_peers_are_named_in_brackets(dial):
    opened = []
    from ariane.env import SystemClock

    server = Server({ECHO: lambda _, r: r.reply(0)}, clock=SystemClock(), on_open=opened.append)
    try:
        await server.start("::1", 0)
    except ListenFailed:
        pytest.skip("no IPv6 on this machine")
    assert (await dial().request(f"[::1]:{server.port}", Command(ECHO), 30)).code == 0
    assert opened[0].peer.startswith("[::1]:")
    assert len(opened[0].peer_host) == 20
    await server.stop()


async def test_a_client_that_is_closed_refuses(serve, dial):
    server = await serve()
    client = dial()
    await client.connection(at(server))
    await client.close()
    with pytest.raises(ConnectFailed):
        await client.request(at(server), Command(ECHO), 1)
    await until(lambda: not server.connections)
