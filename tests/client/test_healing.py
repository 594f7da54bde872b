"""Servers come and go, the network fails: clients get over it by themselves."""

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from ariane import ConsumeFrom, Message, SendStatus, TransactionListener, aio
from ariane.env import Env, SystemClock
from ariane.errors import ClientError, NameServersUnreachable, RemotingError, SendError
from ariane.testing.cluster import Cluster
from tests.client.inbox import Inbox, eventually
from tests.peers import free_port, unique

FIRST = ConsumeFrom.FIRST
QUICK = {"rebalance_interval": 0.5, "route_interval": 0.3, "heartbeat_interval": 0.5, "error_pause": 0.3}


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Cluster]:
    """A cluster of two brokers."""
    with Cluster(tmp_path, brokers=2) as cluster:
        cluster.create_topic("orders", queues=2)
        yield cluster


@pytest.fixture
def one(ariane_cluster: Cluster) -> Cluster:
    """A cluster of one broker."""
    ariane_cluster.create_topic("orders", queues=2)
    return ariane_cluster


async def in_thread(work: object, *arguments: object) -> None:
    await asyncio.to_thread(work, *arguments)


async def test_consuming_goes_on_after_the_broker_restarts(one: Cluster) -> None:
    inbox = Inbox()
    ns = one.name_servers
    async with (
        aio.Producer("p", name_servers=ns, **QUICK_ROUTES) as producer,
        aio.PushConsumer("g", "orders", inbox, name_servers=ns, consume_from=FIRST, **QUICK),
    ):
        await producer.send(Message("orders", b"before"))
        await inbox.arrived(1)
        await in_thread(one.stop_broker)
        with pytest.raises((ClientError, RemotingError)):
            await producer.send(Message("orders", b"meanwhile"), timeout=1)
        await in_thread(one.start_broker)

        async def accepted() -> bool:
            try:
                return (await producer.send(Message("orders", b"after"), timeout=1)).status is SendStatus.SEND_OK
            except (ClientError, RemotingError):
                return False

        await eventually(accepted, "the broker to be back")
        await eventually(lambda: b"after" in inbox.bodies, "the message after the restart")


QUICK_ROUTES = {"route_interval": 0.3}


async def test_all_name_servers_dead_changes_nothing_for_running_clients(one: Cluster) -> None:
    inbox = Inbox()
    ns = one.name_servers
    async with (
        aio.Producer("p", name_servers=ns, **QUICK_ROUTES) as producer,
        aio.PushConsumer("g", "orders", inbox, name_servers=ns, consume_from=FIRST, **QUICK),
    ):
        await producer.send(Message("orders", b"1"))
        await inbox.arrived(1)
        await in_thread(one.network.down, "namesrv")
        with pytest.raises(NameServersUnreachable, match="no name server answered"):
            await producer.queues(unique("new"))
        for i in range(2, 6):
            await producer.send(Message("orders", b"%d" % i))
        await inbox.arrived(5)
        await in_thread(one.network.restore, "namesrv")

        async def asked() -> bool:
            try:
                return bool(await producer.queues(unique("new")))
            except NameServersUnreachable:
                return False

        await eventually(asked, "the name server to be asked again")


async def test_a_dead_name_server_is_passed_over(one: Cluster) -> None:
    dead = f"127.0.0.1:{free_port()}"
    for _ in range(4):  # the start is random
        async with aio.Producer(unique("p"), name_servers=[dead, one.name_servers]) as producer:
            assert (await producer.send(Message("orders", b"x"))).status is SendStatus.SEND_OK


async def test_another_broker_takes_over_when_one_is_gone(two: Cluster) -> None:
    async with aio.Producer("p", name_servers=two.name_servers) as producer:
        await producer.send(Message("orders", b"x"))
        await in_thread(two.network.down, "broker-a")
        results = [await producer.send(Message("orders", b"x")) for _ in range(8)]
    assert {result.queue.broker_name for result in results} == {"broker-b"}


async def test_the_time_out_is_over_all_tries(two: Cluster) -> None:
    async with aio.Producer("p", name_servers=two.name_servers) as producer:
        await producer.send(Message("orders", b"x"))
        await in_thread(two.network.drop)
        started = time.monotonic()
        with pytest.raises(SendError, match=r"2 s over all tries"):
            await producer.send(Message("orders", b"x"), timeout=2)
        assert time.monotonic() - started < 6.0  # three tries of 2 s each would take longer
        await in_thread(two.network.restore)


async def test_a_send_in_order_is_tried_once(two: Cluster) -> None:
    async with aio.Producer("p", name_servers=two.name_servers) as producer:
        sent = await producer.send(Message("orders", b"x"), hash_key="k")
        await in_thread(two.network.down, sent.queue.broker_name)
        with pytest.raises(RemotingError):
            await producer.send(Message("orders", b"x"), hash_key="k")


async def test_a_submitted_message_is_tried_again_on_the_same_broker(two: Cluster) -> None:
    async with aio.Producer("p", name_servers=two.name_servers) as producer:
        await producer.send(Message("orders", b"x"))
        await in_thread(two.network.cut)  # every connection breaks once: the second try makes a new one
        results = await asyncio.gather(*(producer.submit(Message("orders", b"x")) for _ in range(4)))
        assert {result.status for result in results} == {SendStatus.SEND_OK}
        await in_thread(two.network.down)
        failed = producer.submit(Message("orders", b"x"))
        with pytest.raises(SendError, match="3 tries") as gave_up:
            await failed
    assert len(gave_up.value.causes) == 3


async def test_a_slow_network_is_only_slow(one: Cluster) -> None:
    inbox = Inbox()
    ns = one.name_servers
    async with aio.PushConsumer("g", "orders", inbox, name_servers=ns, consume_from=FIRST):
        await in_thread(one.network.delay, 0.05)
        async with aio.Producer("p", name_servers=ns) as producer:
            started = time.monotonic()
            await producer.send(Message("orders", b"x"))
            assert time.monotonic() - started >= 0.1
            await inbox.arrived(1)


async def test_a_cut_connection_loses_nothing(one: Cluster) -> None:
    inbox = Inbox()
    ns = one.name_servers
    async with (
        aio.Producer("p", name_servers=ns) as producer,
        aio.PushConsumer("g", "orders", inbox, name_servers=ns, consume_from=FIRST, **QUICK),
    ):
        for i in range(40):
            if i % 10 == 5:
                await in_thread(one.network.cut)
            await producer.send(Message("orders", b"%d" % i))
        await eventually(lambda: len(set(inbox.bodies)) == 40, "all messages")


async def test_the_clock_of_a_test_cluster_moves(one: Cluster) -> None:
    inbox = Inbox()
    ns = one.name_servers
    async with (
        aio.Producer("p", name_servers=ns) as producer,
        aio.PushConsumer("g", "orders", inbox, name_servers=ns, consume_from=FIRST, **QUICK),
    ):
        await producer.send(Message("orders", b"in two hours", delay_level=18))
        await producer.send(Message("orders", b"now"))
        assert [message.body for message in await inbox.arrived(1)] == [b"now"]
        one.advance(7201)
        await inbox.arrived(2)


class Impatient(SystemClock):
    """A clock on which nobody sleeps long; `pauses` are the seconds that were asked for."""

    def __init__(self) -> None:
        self.pauses: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        await asyncio.sleep(min(seconds, 0.005))

    async def doubled(self, *pauses: float) -> None:
        """Wait until these pauses were asked for, each once and in this order."""
        await eventually(lambda: pauses[-1] in self.pauses, f"a pause of {pauses[-1]:g} s")
        assert [pause for pause in self.pauses if pause in pauses] == list(pauses)


async def test_a_missing_topic_is_looked_for_less_and_less_often(one: Cluster) -> None:
    clock = Impatient()
    options = {"name_servers": one.name_servers, "rebalance_interval": 3600, "heartbeat_interval": 3600}
    async with aio.PushConsumer("g", "no_such_topic", Inbox(), env=Env(clock=clock), **options):
        await clock.doubled(2, 4, 8)


async def test_brokers_that_do_not_answer_hear_of_a_producer_less_and_less_often(one: Cluster) -> None:
    clock = Impatient()
    options = {"name_servers": one.name_servers, "route_interval": 33, "heartbeat_interval": 3600}
    await in_thread(one.network.down, "broker-a")
    listener = cast(TransactionListener, SimpleNamespace(execute=lambda *_: None, check=lambda _: None))
    async with aio.TransactionProducer("tx", listener, env=Env(clock=clock), **options):
        await clock.doubled(2, 4, 8, 16)
