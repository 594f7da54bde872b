"""Gates refuse requests before their handlers; observers see every request and every response."""

import asyncio

import pytest

from ariane.errors import ResponseError
from ariane.protocol.command import BINARY, JSON, ONEWAY, RESPONSE, Command
from ariane.protocol.frame import encode, encode_head
from ariane.remoting import Peer

from .conftest import ECHO, at, until


class Watch:
    """An observer that takes notes."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, int]] = []
        self.responses: list[tuple[int, int, str | None, dict[str, str], int]] = []

    def requested(self, peer: Peer, request: Command) -> None:
        self.requests.append((peer.peer, request.code))

    def answered(self, peer: Peer, request: Command, response: Command, body_size: int) -> None:
        assert response.opaque == request.opaque
        self.responses.append((request.code, response.code, response.remark, response.fields, body_size))


class Door:
    """A gate that lets in who has the key."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def check(self, peer: Peer, request: Command) -> None:
        self.asked.append(request.code)
        peer.attributes["asked"] = peer.attributes.get("asked", 0) + 1
        if request.wire_fields().get("key") != "mine":
            raise ResponseError(16, "not you")


class Hook:
    """A hook of a client, which changes requests."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []

    def before_request(self, peer: str, command: Command) -> None:
        assert peer.startswith("127.0.0.1:")
        self.seen.append(("before", command.code))
        command.fields["hook"] = "was here"

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        self.seen.append(("after", request.code))


async def test_a_hook_of_a_client_sees_and_changes_requests(serve, dial):
    server, hook = await serve(), Hook()
    answer = await dial(hooks=[hook]).request(at(server), Command(ECHO), 30)
    assert answer.fields == {"hook": "was here"}
    assert hook.seen == [("before", ECHO), ("after", ECHO)]


@pytest.mark.parametrize("serialization", [JSON, BINARY])
@pytest.mark.parametrize("code", [1, 310, 11, 999], ids=["ordinary", "send", "pull", "unknown"])
async def test_a_gate_refuses_any_code_before_its_handler(serve, dial, code, serialization):
    handled, door, watch = [], Door(), Watch()

    def handle(_, request):
        handled.append(request.code)
        return request.reply(0)

    handlers = {1: handle, 310: handle, 11: handle}
    server = await serve(handlers, gates=[door], observers=[watch])
    client = dial()
    answer = await client.request(at(server), Command(code, {"key": "none"}, serialization=serialization), 30)
    assert (answer.code, answer.remark, handled) == (16, "not you", [])
    known = Command(code, {"key": "mine"}, serialization=serialization)
    assert (await client.request(at(server), known, 30)).code == (3 if code == 999 else 0)
    assert door.asked == [code, code]
    assert [request[1] for request in watch.requests] == [code, code]
    assert watch.responses[0][:3] == (code, 16, "not you")
    [connection] = server.connections
    assert connection.attributes["asked"] == 2


async def test_a_refused_one_way_request_vanishes(serve, dial):
    handled, door, watch = [], Door(), Watch()
    server = await serve({1: lambda _, r: handled.append(r)}, gates=[door], observers=[watch])
    client = dial()
    await client.oneway(at(server), Command(1))
    await client.oneway(at(server), Command(1, {"key": "mine"}))
    await until(lambda: handled)
    assert len(handled) == 1
    assert watch.responses == []
    assert len(watch.requests) == 2


async def test_a_gate_that_fails_refuses(serve, dial, caplog):
    class Broken:
        def check(self, peer: Peer, request: Command) -> None:
            raise KeyError("oops")

    handled = []
    server = await serve({1: lambda _, r: handled.append(r)}, gates=[Broken()])
    assert (await dial().request(at(server), Command(1), 30)).code == 1
    assert handled == []
    assert "KeyError" in caplog.text


async def test_an_observer_that_fails_changes_nothing(serve, dial, caplog):
    class Broken:
        def requested(self, peer: Peer, request: Command) -> None:
            raise KeyError("oops")

        def answered(self, peer: Peer, request: Command, response: Command, body_size: int) -> None:
            raise KeyError("oops")

    watch = Watch()
    server = await serve(observers=[Broken(), watch])
    assert (await dial().request(at(server), Command(ECHO, body=b"x"), 30)).body == b"x"
    assert (len(watch.requests), len(watch.responses)) == (1, 1)
    assert sum("an observer of" in record.getMessage() for record in caplog.records) == 2


async def test_observers_see_responses_however_they_are_made(serve, dial):
    parts = [memoryview(b"12"), memoryview(b"345")]

    async def later(_, request):
        await asyncio.sleep(0)
        return request.reply(0, body=b"1234")

    def encoded(connection, request):
        response = Command(0, {"how": "encoded"}, b"abc", opaque=request.opaque, flag=RESPONSE)
        connection.answer_encoded(request, encode(response))

    def from_parts(connection, request):
        connection.answer_parts(request, request.reply(0, {"how": "parts"}), parts, 5)

    def encoded_parts(connection, request):
        response = Command(0, {"how": "both"}, opaque=request.opaque, flag=RESPONSE)
        connection.answer_encoded_parts(request, encode_head(response, 5), parts, 5)

    def fails(connection, request):
        raise ResponseError(17, "nowhere")

    watch = Watch()
    server = await serve({1: later, 2: encoded, 3: from_parts, 4: encoded_parts, 5: fails}, observers=[watch])
    client = dial()
    bodies = [(await client.request(at(server), Command(code), 30)).body for code in (1, 2, 3, 4, 5, 6)]
    assert bodies == [b"1234", b"abc", b"12345", b"12345", b"", b""]
    assert watch.responses == [
        (1, 0, None, {}, 4),
        (2, 0, None, {"how": "encoded"}, 3),
        (3, 0, None, {"how": "parts"}, 5),
        (4, 0, None, {"how": "both"}, 5),
        (5, 17, "nowhere", {}, 0),
        (6, 3, " request type 6 not supported", {}, 0),
    ]


async def test_a_response_to_a_one_way_request_is_not_sent_however_it_is_made(serve, dial):
    def encoded(connection, request):
        connection.answer_encoded(request, encode(request.reply(0)))
        connection.answer_parts(request, request.reply(0), [memoryview(b"1")], 1)
        connection.answer_encoded_parts(request, encode_head(request.reply(0), 1), [memoryview(b"1")], 1)

    watch = Watch()
    server = await serve({2: encoded}, observers=[watch])
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    writer.write(encode(Command(2, flag=ONEWAY)))
    writer.write_eof()
    assert await asyncio.wait_for(reader.read(), 30) == b""
    assert (len(watch.requests), watch.responses) == (1, [])
    writer.close()
