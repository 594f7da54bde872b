"""Filters that users bring: modules uploaded by consumers, and filter servers that consumers pull through."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from ariane import ConsumeFrom, Expression, LitePullConsumer, Message, PullStatus, PythonFilter, WasmFilter, aio
from ariane.env import Env
from ariane.errors import BrokerRefused, ClientError, RouteMissing
from ariane.filterserver import FilterServer, FilterServerOptions
from ariane.message import MessageQueue
from ariane.protocol.units import decode_units
from ariane.testing.cluster import Cluster
from tests.broker.filter.modules import BODY_STARTS_WITH_1, FIRST_BODY_BYTE, HOSTILE, module
from tests.client.inbox import Inbox, eventually
from tests.peers import unique
from tests.peers.fixtures import QUICK

FIRST = ConsumeFrom.FIRST
ONES_FOR_SERVERS = module(f"(i32.eq (i32.const 49) {FIRST_BODY_BYTE})")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose broker takes filters."""
    config = {**QUICK, "filterUploadEnable": True, "filterMessageMaxMillis": 10_000, "filterFuelPerMessage": 1_000_000}
    with Cluster(tmp_path_factory.mktemp("filters"), config=config) as cluster:
        yield cluster


@pytest.fixture
def servers(cluster: Cluster) -> str:
    return cluster.name_servers


@pytest.fixture
async def orders(cluster: Cluster) -> str:
    """A topic with ten orders in two queues, whose bodies are JSON numbers 0, 1, 0, 1, ..."""
    topic = unique("orders")
    cluster.create_topic(topic, queues=2)
    async with aio.Producer(unique("producers"), name_servers=cluster.name_servers) as producer:
        for n in range(10):
            await producer.send(Message(topic, b"%d" % (n % 2), properties={"n": str(n)}))
    return topic


@pytest.fixture
async def filter_server(cluster: Cluster) -> AsyncIterator[FilterServer]:
    """A filter server beside the cluster's broker, that name servers know."""
    server = new_filter_server(cluster)
    await server.start()
    yield server
    await server.stop()


def new_filter_server(cluster: Cluster) -> FilterServer:
    (broker,) = cluster.brokers.values()
    text = f"connectWhichBroker = {broker.address}\nfilterServerIP = 127.0.0.1\nbindAddress = 127.0.0.1"
    return FilterServer(FilterServerOptions.load(text), Env())


async def known(servers: str, topic: str, count: int) -> list[str]:
    """Wait until name servers tell of so many filter servers."""

    async def told() -> list[str] | None:
        async with aio.Admin(name_servers=servers) as admin:
            route = await admin.route(topic)
        found = [one for many in route.filter_server_table.values() for one in many]
        return [*found, "end"] if len(found) == count else None

    return (await eventually(told, f"{count} filter servers in the route"))[:-1]


def module_file(folder: Path, module: bytes = BODY_STARTS_WITH_1) -> Path:
    path = folder / "ones.wasm"
    path.write_bytes(module)
    return path


async def test_a_consumer_brings_its_own_filter(servers: str, orders: str, tmp_path: Path) -> None:
    group, inbox = unique("group"), Inbox()
    consumer = aio.PushConsumer(
        group, {orders: WasmFilter(module_file(tmp_path))}, inbox, name_servers=servers, consume_from=FIRST
    )
    async with consumer:
        assert {message.body for message in await inbox.arrived(5)} == {b"1"}
        async with aio.Admin(name_servers=servers) as admin, aio.Producer("p", name_servers=servers) as producer:
            address = next(one for row in await admin.brokers() for one in [row.address])
            (record,) = [one for one in await admin.filters(address) if one.consumer_group == group]
            assert (record.name, record.bytes) == ("ones.wasm", len(BODY_STARTS_WITH_1))
            assert await admin.filter_module(address, group, orders) == BODY_STARTS_WITH_1
            await producer.send(Message(orders, b"0 is skipped"))
            await producer.send(Message(orders, b"1 arrives"))
            assert (await inbox.arrived(6))[-1].body == b"1 arrives"


async def test_other_consumers_take_modules_too(servers: str, orders: str) -> None:
    ones = WasmFilter("ones", module=BODY_STARTS_WITH_1)
    async with aio.PullClient(unique("group"), name_servers=servers) as client:
        found = [
            message.body
            for queue in await client.queues(orders)
            for message in await client.pull_messages(queue, 0, 32, ones)
        ]
    assert found == [b"1"] * 5

    def poll() -> list[bytes]:
        bodies: list[bytes] = []
        with LitePullConsumer(unique("group"), {orders: ones}, name_servers=servers, consume_from=FIRST) as consumer:
            while len(bodies) < 5:
                bodies += [message.body for message in consumer.poll()]
        return bodies

    assert await asyncio.to_thread(poll) == [b"1"] * 5


async def test_a_failing_filter_is_told_to_its_consumer_and_to_nobody_else(
    servers: str, orders: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "ariane.client")
    endless = WasmFilter("endless", module=HOSTILE["endless loop"][0])
    mine, others = Inbox(), Inbox()
    options = {"name_servers": servers, "consume_from": FIRST}
    async with (
        aio.PushConsumer(unique("hostile"), {orders: endless}, mine, **options),
        aio.PushConsumer(unique("honest"), orders, others, **options),
    ):
        await others.arrived(10)
        await eventually(lambda: "it used up its fuel for one message" in caplog.text, "the failure in the log")
    assert mine.messages == []
    queue = MessageQueue(orders, "broker-a", 0)
    async with aio.PullClient(unique("group"), name_servers=servers) as client:
        with pytest.raises(BrokerRefused, match=r"failed at offset 0 of queue 0: it used up its fuel"):
            await client.pull(queue, 0, 32, endless)


async def test_a_module_that_is_no_filter_is_an_error_at_the_start(servers: str, orders: str, tmp_path: Path) -> None:
    empty = WasmFilter("empty", module=b"\0asm\x01\0\0\0")
    with pytest.raises(BrokerRefused, match="no memory named `memory`"):
        await aio.PushConsumer(unique("group"), {orders: empty}, Inbox(), name_servers=servers).start()
    with pytest.raises(ValueError, match="no WebAssembly module"):
        WasmFilter(module_file(tmp_path, b"(module)"))


async def test_consumers_pull_through_a_filter_server(
    cluster: Cluster, servers: str, orders: str, filter_server: FilterServer
) -> None:
    assert await known(servers, orders, 1) == [filter_server.address]
    filters = {
        "module": WasmFilter("ones", True, ONES_FOR_SERVERS),
        "expression": Expression("n > 7", filter_server=True),
        "python": PythonFilter('properties["n"] == "3"', filter_server=True),
    }
    inboxes = {name: Inbox() for name in filters}
    options = {"name_servers": servers, "consume_from": FIRST}
    consumers = [aio.PushConsumer(unique(n), {orders: f}, inboxes[n], **options) for n, f in filters.items()]
    async with consumers[0], consumers[1], consumers[2]:
        assert {message.body for message in await inboxes["module"].arrived(5)} == {b"1"}
        assert {message.properties["n"] for message in await inboxes["expression"].arrived(2)} == {"8", "9"}
        assert [message.properties["n"] for message in await inboxes["python"].arrived(1)] == ["3"]
        async with aio.Producer("p", name_servers=servers) as producer:
            await producer.send(Message(orders, b"0", properties={"n": "11"}))
            await inboxes["expression"].arrived(3)
    assert (filter_server.forwarding.pulled, filter_server.forwarding.delivered) == (33, 9)
    (broker,) = cluster.brokers.values()
    sandbox = broker.modules.runtime._made  # the broker has not even compiled it
    assert sandbox is None or not sandbox.holds(filters["module"].expression)


async def test_raw_pulls_go_through_a_filter_server(servers: str, orders: str, filter_server: FilterServer) -> None:
    await known(servers, orders, 1)
    async with aio.PullClient(unique("group"), name_servers=servers) as client:
        queue = MessageQueue(orders, "broker-a", 0)
        if decode_units((await client.pull(queue, 0)).body)[0].body == b"0":  # a producer begins with any queue
            queue = MessageQueue(orders, "broker-a", 1)
        nothing = await client.pull(queue, 0, 32, Expression("n > 100", filter_server=True))
        assert (nothing.status, nothing.next_offset) == (PullStatus.NO_MATCH, 5)
        end = await client.pull(queue, 5, 32, Expression("n > 100", filter_server=True))
        assert end.status is PullStatus.NO_NEW
        with pytest.raises(BrokerRefused, match="SUBSCRIPTION_PARSE_FAILED"):
            await client.pull(queue, 0, 32, Expression("n > > 1", filter_server=True))
        hostile = WasmFilter("hostile", True, HOSTILE["unreachable"][0])
        failed = f"failed at offset 0 of queue {queue.queue_id}: it reached an `unreachable`"
        await eventually(lambda: refusal(client, queue, hostile, failed), "the failure")
        removed = WasmFilter("removed", True, BODY_STARTS_WITH_1)
        await eventually(lambda: pulled(client, queue, removed), "a compiled filter")
        async with aio.Admin(name_servers=servers) as admin:
            address = (await admin.brokers())[0].address
            await admin.remove_filter(address, client._group, orders)
            await filter_server._register()
        with pytest.raises(BrokerRefused, match="FILTER_DATA_NOT_EXIST"):
            await client.pull(queue, 0, 32, removed)


async def refusal(client: aio.PullClient, queue: MessageQueue, selector: WasmFilter, text: str) -> bool:
    """Whether a pull is refused with this text; until its module is compiled there is another one."""
    with pytest.raises(BrokerRefused) as refused:
        await client.pull(queue, 0, 32, selector)
    return text in str(refused.value)


async def pulled(client: aio.PullClient, queue: MessageQueue, selector: WasmFilter) -> bool:
    try:
        return (await client.pull(queue, 0, 32, selector)).status is PullStatus.FOUND
    except BrokerRefused:
        return False


async def test_a_filter_server_that_stops_is_forgotten_and_another_takes_over(
    cluster: Cluster, servers: str, orders: str
) -> None:
    first, second = new_filter_server(cluster), new_filter_server(cluster)
    inbox = Inbox()
    wanted = Expression("n >= 0", filter_server=True)
    async with aio.PushConsumer(
        unique("group"), {orders: wanted}, inbox, name_servers=servers, consume_from=FIRST, error_pause=0.2
    ):
        assert inbox.messages == []  # it waits: nothing is delivered unfiltered
        await first.start()
        await inbox.arrived(10)
        await first.stop()
        assert await known(servers, orders, 0) == []
        await second.start()
        try:
            async with aio.Producer("p", name_servers=servers) as producer:
                await producer.send(Message(orders, b"1", properties={"n": "7"}))
            await inbox.arrived(11)
        finally:
            await second.stop()


async def test_without_a_filter_server_a_pull_says_what_to_start(servers: str, orders: str) -> None:
    await known(servers, orders, 0)
    async with aio.PullClient(unique("group"), name_servers=servers) as client:
        with pytest.raises(RouteMissing, match="ariane filterserver"):
            await client.pull(MessageQueue(orders, "broker-a", 0), 0, 32, Expression("n > 1", filter_server=True))


async def test_a_filter_server_forwards_only_pulls_of_its_kind(
    servers: str, orders: str, filter_server: FilterServer
) -> None:
    await known(servers, orders, 1)
    async with aio.PullClient(unique("group"), name_servers=servers) as client:
        calls = client._running().calls
        calls.routes._brokers["broker-a"] = {0: filter_server.address}
        with pytest.raises(BrokerRefused, match="this is a filter server"):
            await client.pull(MessageQueue(orders, "broker-a", 0), 0)


@pytest.mark.parametrize("site", ["apache"], indirect=True)
async def test_apaches_broker_takes_no_module(ns: str, topic: str, group: str) -> None:
    ones = WasmFilter("ones", module=BODY_STARTS_WITH_1)
    with pytest.raises(ClientError, match="only Ariane's brokers"):
        await aio.PushConsumer(group, {topic: ones}, Inbox(), name_servers=ns).start()
