"""Routes as name servers of all ages write them, and lists of name servers that come over HTTP."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from ariane import Message, SendStatus, aio
from ariane.client.connect.routes import Route
from ariane.errors import ProtocolError
from ariane.protocol.bodies import TopicRouteData
from ariane.protocol.compression import decompress
from ariane.testing.cluster import Cluster
from tests.peers import free_port, unique

STRICT = (
    '{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"a","cluster":"c"}],'
    '"filterServerTable":{},"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":1}]}'
)
FASTJSON = STRICT.replace('"0":', "0:").replace('"1":', "1:")
VERSION_5 = (
    '{"brokerDatas":[{"brokerAddrs":{"0":"10.0.0.1:10911","1":"10.0.0.2:10911"},"brokerName":"a","cluster":"c",'
    '"enableActingMaster":false,"zoneName":"z1"}],"filterServerTable":{},"orderTopicConf":null,'
    '"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":2,"topicSysFlag":0,"writeQueueNums":1}],'
    '"topicQueueMappingByBroker":{"a":{"bname":"a","currIdMap":{"0":0},"topic":"orders"}}}'
)


@pytest.mark.parametrize("text", [STRICT, FASTJSON, VERSION_5], ids=["strict", "fastjson", "5.x"])
def test_routes_of_all_ages_are_understood(text: str) -> None:
    route = Route.of("orders", TopicRouteData.decode(text.encode()))
    assert [(q.broker_name, q.queue_id) for q in route.write_queues] == [("a", 0)]
    assert [(q.broker_name, q.queue_id) for q in route.read_queues] == [("a", 0), ("a", 1)]
    assert route.data.broker_datas[0].broker_addrs == {0: "10.0.0.1:10911", 1: "10.0.0.2:10911"}


@contextmanager
def web_page(text: str) -> Iterator[str]:
    """A server that answers with this text."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, format: str, *args: object) -> None:
            """Tests are quiet."""

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/rocketmq/nsaddr"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def test_name_servers_may_come_from_an_address_list(ours: Cluster) -> None:
    topic = unique("topic")
    with web_page(f"127.0.0.1:{free_port()};{ours.name_servers}\n") as page:
        async with aio.Producer(unique("p"), name_servers=page) as producer:
            assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK


async def test_a_name_is_resolved_when_connecting(ours: Cluster) -> None:
    port = ours.name_servers.rpartition(":")[2]
    async with aio.Producer(unique("p"), name_servers=f"localhost:{port}") as producer:
        assert (await producer.send(Message(unique("topic"), b"x"))).status is SendStatus.SEND_OK


@pytest.mark.parametrize(("kind", "flag"), [("zlib", 0x1), ("zlib", 0x301), ("lz4", 0x101), ("zstandard", 0x201)])
def test_bodies_packed_by_other_clients_are_unpacked(kind: str, flag: int) -> None:
    body = b"abc" * 5000
    if kind == "zlib":
        packed = pytest.importorskip("zlib").compress(body)
    elif kind == "lz4":
        packed = pytest.importorskip("lz4.frame").compress(body)
    else:
        packed = pytest.importorskip("zstandard").ZstdCompressor(write_content_size=False).compress(body)
    assert decompress(packed, flag) == body
    with pytest.raises(ProtocolError):
        decompress(b"not packed at all", flag)


def test_an_unknown_codec_is_an_error() -> None:
    with pytest.raises(ProtocolError, match="unknown codec"):
        decompress(b"x", 0x701)
