"""A name server serves anybody who reaches its port: what one of them can cost the others is bounded."""

import asyncio
import json
import threading
import zlib
from pathlib import Path

import pytest

from ariane.env import Env, ManualClock, SystemClock, SystemFiles
from ariane.errors import ResponseError
from ariane.namesrv import NameServer
from ariane.namesrv.kv import LONGEST_VALUE, KvConfig
from ariane.namesrv.turns import Turns
from ariane.protocol.bodies import ClusterInfo, KVTable, TopicList
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    DeleteKVConfigRequest,
    GetKVConfigRequest,
    GetKVListByNamespaceRequest,
    GetRouteInfoRequest,
    PutKVConfigRequest,
    QueryDataVersionRequest,
    UnregisterBrokerRequest,
)
from tests.namesrv.conftest import Asker, namesrv_options, registration
from tests.remoting.conftest import until

# The clock.


class JumpingClock(ManualClock):
    """A clock whose wall time an operator sets."""

    def jump(self, seconds: float) -> None:
        self._start_ms += int(seconds * 1000)


@pytest.mark.parametrize("hours", [1, -1])
async def test_a_wall_clock_that_jumps_evicts_nobody(connect, tmp_path, hours):
    clock = JumpingClock()
    options = namesrv_options(tmp_path, {"listenPort": 0, "serverChannelMaxIdleTimeSeconds": 100_000})
    server = NameServer(options, Env(clock=clock))
    await server.start()
    try:
        asker = connect(server)
        await asker.register("a", {"T": 4})
        clock.jump(hours * 3600)
        for _ in range(3):  # scans
            await until(lambda: clock.sleepers >= 2)
            clock.advance(10)
            await asyncio.sleep(0)
        await until(lambda: clock.sleepers >= 2)
        assert (await asker.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest("T"))).code == 0
        clock.advance(130)  # silence is still noticed
        async with asyncio.timeout(60):
            other = connect(server)
            while (await other.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest("T"))).code == 0:
                pass
    finally:
        await server.stop()


# Registrations.


async def test_a_registration_that_inflates_to_much_is_refused_while_others_are_served(start, connect):
    server = await start()
    attacker, other = connect(server), connect(server)
    bomb = registration("a", {}, crc=0, compressed=True)
    bomb.body = zlib.compress(bytes(256 * 1024 * 1024), 9)
    refused = asyncio.ensure_future(attacker.client.request(attacker.address, bomb, 60))
    assert (await other.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).code == 0
    answer = await refused
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "at most 16777216 (registrationMaxBytes)" in (answer.remark or "")
    assert server.refusals.counts()["registration_bytes"] == 1


async def test_the_size_of_a_registration_is_an_option(start, connect):
    asker = connect(await start(registrationMaxBytes=1000))
    many = {f"topic-{n}": 4 for n in range(100)}
    for compressed in (False, True):
        assert (await asker.register("a", many, compressed=compressed)).code == ResponseCode.SYSTEM_ERROR
    assert (await asker.register("a", {"T": 4})).code == 0


class SlowDecode:
    """Holds back the decoding of large registrations."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        from ariane.namesrv.handlers import Handlers

        self.entered, self.go_on = threading.Event(), threading.Event()
        decode = Handlers._decode

        def wait(handlers, request, header):
            if len(request.body) > 1 << 18:
                self.entered.set()
                assert self.go_on.wait(60)
            return decode(handlers, request, header)

        monkeypatch.setattr(Handlers, "_decode", wait)


def large(name: str = "a") -> Command:
    return registration(name, {f"some-long-topic-name-{n}": 4 for n in range(5000)}, version=1)


async def test_a_large_registration_is_decoded_while_others_are_served(start, connect, monkeypatch):
    slow = SlowDecode(monkeypatch)
    server = await start()
    broker, other = connect(server), connect(server)
    registering = asyncio.ensure_future(broker.client.request(broker.address, large(), 60))
    await until(slow.entered.is_set)
    assert (await other.ask(RequestCode.GET_BROKER_CLUSTER_INFO)).code == 0
    slow.go_on.set()
    assert (await registering).code == 0
    found = await other.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, GetRouteInfoRequest("some-long-topic-name-7"))
    assert found.code == 0


@pytest.mark.parametrize("later", ["unregister", "register", "close"])
async def test_what_a_broker_does_after_a_large_registration_holds(start, connect, monkeypatch, later):
    """The decoding of the first takes longer: it must not come after what the broker said or did since."""
    slow = SlowDecode(monkeypatch)
    server = await start()
    broker, other = connect(server), connect(server)
    registering = asyncio.ensure_future(broker.client.request(broker.address, large(), 60))
    await until(slow.entered.is_set)
    if later == "unregister":
        goodbye = UnregisterBrokerRequest("a", "127.0.0.1:10911", "DefaultCluster", 0)
        assert (await broker.ask(RequestCode.UNREGISTER_BROKER, goodbye)).code == 0
    elif later == "register":
        assert (await broker.register("a", {"new": 4}, version=2)).code == 0
    else:
        await broker.client.close()
        await until(lambda: len(server._server.connections) == 0)
    slow.go_on.set()
    await asyncio.gather(registering, return_exceptions=True)
    topics = TopicList.decode((await other.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body).topic_list
    assert topics == (["new"] if later == "register" else [])


async def test_a_connection_has_one_large_registration_at_a_time(start, connect, monkeypatch):
    slow = SlowDecode(monkeypatch)
    server = await start()
    attacker, broker = connect(server), connect(server)

    def send(who, name: str) -> asyncio.Task[Command]:
        request = large(name)
        request.fields["brokerAddr"] = f"{name}:10911"
        return asyncio.ensure_future(who.client.request(who.address, request, 60))

    first = send(attacker, "a")
    await until(slow.entered.is_set)
    floods = [send(attacker, f"flood-{n}") for n in range(20)]
    refused = await asyncio.gather(*floods)
    assert {answer.code for answer in refused} == {ResponseCode.SYSTEM_BUSY}
    assert server.refusals.counts()["registrations_per_connection"] == 20
    other = send(broker, "b")
    slow.go_on.set()
    assert [(await first).code, (await other).code] == [0, 0]
    assert (await send(attacker, "c")).code == 0


async def test_registrations_that_wait_hold_a_bounded_amount_of_memory(start, connect, monkeypatch):
    slow = SlowDecode(monkeypatch)
    size = len(large().body)
    server = await start(registrationMaxBytes=2 * size)  # four of them have room

    def send(who, name: str) -> asyncio.Task[Command]:
        request = large(name)
        request.fields["brokerAddr"] = f"{name}:10911"
        return asyncio.ensure_future(who.client.request(who.address, request, 60))

    peers = [connect(server) for _ in range(6)]
    sent = [send(peer, f"b{n}") for n, peer in enumerate(peers)]
    await until(lambda: server.refusals.counts()["registrations_waiting"] == 2)
    slow.go_on.set()
    codes = [(await answer).code for answer in sent]
    assert sorted(codes) == [0, 0, 0, 0, ResponseCode.SYSTEM_BUSY, ResponseCode.SYSTEM_BUSY]
    refused = codes.index(ResponseCode.SYSTEM_BUSY)
    assert (await send(peers[refused], "later")).code == 0


async def test_turns_go_round_by_address():
    turns, order, hold = Turns(), [], asyncio.Event()

    async def work(key: str, number: int) -> None:
        async with turns.turn(key):
            await hold.wait()
            order.append((key, number))

    flood = [asyncio.ensure_future(work("attacker", n)) for n in range(5)]
    await asyncio.sleep(0)
    honest = [asyncio.ensure_future(work("broker", n)) for n in range(2)]
    await asyncio.sleep(0)
    flood[1].cancel()
    hold.set()
    await asyncio.gather(*flood, *honest, return_exceptions=True)
    a, b = "attacker", "broker"
    assert order == [(a, 0), (b, 0), (a, 2), (b, 1), (a, 3), (a, 4)] or order == [
        (a, 0), (a, 2), (b, 0), (a, 3), (b, 1), (a, 4)
    ]  # fmt: skip
    async with turns.turn("later"):
        pass


async def test_brokers_clusters_and_topics_are_bounded(start, connect):
    server = await start(registeredBrokersMax=3, registeredTopicsMax=10)
    asker = connect(server)
    for n in range(3):
        assert (await asker.register(f"b{n}", {f"T{n}": 4}, address=f"127.0.0.1:{n}")).code == 0
    full = await asker.register("b9", {}, address="127.0.0.1:9")
    assert (full.code, full.remark) == (1, "3 brokers are registered, the limit (registeredBrokersMax)")
    for name, address, cluster in (("b0", "127.0.0.1:8", "c"), ("b9", "127.0.0.1:0", "c")):
        assert (await asker.register(name, {}, address=address, cluster=cluster)).code == 1
    assert (await asker.register("b0", {"T0": 8}, address="127.0.0.1:0", version=2)).code == 0
    many = await asker.register("b0", {f"X{n}": 4 for n in range(8)}, address="127.0.0.1:0", version=3)
    assert (many.code, many.remark) == (1, "more than 10 topics, the limit (registeredTopicsMax)")
    topics = TopicList.decode((await asker.ask(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)).body).topic_list
    assert sorted(topics) == ["T0", "T1", "T2"]
    refused = server.refusals.counts()
    assert (refused["registered_brokers"], refused["registered_topics"]) == (3, 1)


async def test_clusters_of_one_broker_are_bounded(start, connect):
    asker = connect(await start(registeredBrokersMax=5))
    answers = [(await asker.register("a", {}, cluster=f"c{n}")).code for n in range(20)]
    assert answers == [0] * 5 + [1] * 15


async def test_all_that_was_registered_goes_with_its_connection(start, connect):
    server = await start()
    attacker, other = connect(server), connect(server)
    for n in range(200):
        address = f"127.0.0.1:{n % 50}"
        await attacker.register(f"b{n}", {f"T{n}": 4, "shared": 4}, address=address, cluster=f"c{n}", version=n)
    await attacker.client.close()
    await until(lambda: not server._routes._live)
    info = await other.ask(RequestCode.GET_BROKER_CLUSTER_INFO)
    assert ClusterInfo.decode(info.body) == ClusterInfo()
    routes = server._routes
    assert (routes._topics, routes._topics_of, routes._owned, routes._entries) == ({}, {}, {}, 0)


async def test_too_many_filter_servers_are_refused(start, connect):
    asker = connect(await start())
    assert (await asker.register("a", {}, filters=["127.0.0.1:1"] * 65)).code == 1
    assert (await asker.register("a", {}, filters=["x" * 256])).code == 1


# Nested JSON.


async def test_deeply_nested_json_is_refused_in_one_line(start, connect, caplog):
    asker = connect(await start())
    header = QueryDataVersionRequest("a", "127.0.0.1:10911", "DefaultCluster", 0)
    await asker.register("a", {"T": 4})
    for depth in (65, 200, 900, 100_000):
        caplog.clear()
        body = b'{"counter":' + b'{"a":' * depth + b"null" + b"}" * depth + b"}"
        answer = await asker.ask(RequestCode.QUERY_DATA_VERSION, header, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert sum(len(record.getMessage()) for record in caplog.records) < 2000
        assert all(record.exc_info is None for record in caplog.records)
        assert len(caplog.records) <= 1


# The KV configuration.


async def put(asker: Asker, namespace: str, key: str, value: str) -> Command:
    return await asker.ask(RequestCode.PUT_KV_CONFIG, PutKVConfigRequest(namespace, key, value))


async def test_kv_values_and_the_whole_configuration_are_bounded(start, connect):
    server = await start(kvConfigMaxBytes=100_000)
    asker = connect(server)
    for namespace, key, value in (("n", "k", "x" * (LONGEST_VALUE + 1)), ("n" * 256, "k", "v"), ("n", "k" * 256, "v")):
        assert (await put(asker, namespace, key, value)).code == ResponseCode.SYSTEM_ERROR
    assert (await put(asker, "n", "a", "x" * 60_000)).code == 0
    full = await put(asker, "n", "b", "x" * 60_000)
    assert (full.code, full.remark) == (1, "the KV configuration would exceed 100000 bytes (kvConfigMaxBytes)")
    assert (await put(asker, "n", "a", "x" * 1000)).code == 0
    assert (await put(asker, "n", "b", "x" * 60_000)).code == 0
    assert server.refusals.counts()["kv_config"] == 4


async def test_namespaces_left_empty_do_not_fill_the_configuration(start, connect):
    asker = connect(await start(kvConfigMaxBytes=1000))
    for n in range(300):
        code = (await put(asker, f"namespace-{n:08}", "k", "v")).code
        if code:  # full of empty namespaces, which this has dropped
            code = (await put(asker, f"namespace-{n:08}", "k", "v")).code
        assert code == 0
        await asker.ask(RequestCode.DELETE_KV_CONFIG, DeleteKVConfigRequest(f"namespace-{n:08}", "k"))


class CountingFiles(SystemFiles):
    """Counts writes, and can hold one back or fail it."""

    def __init__(self) -> None:
        self.writes = 0
        self.entered, self.go_on = threading.Event(), threading.Event()
        self.go_on.set()
        self.broken = False

    def replace(self, path: Path, data: bytes, *, secret: bool = False) -> None:
        self.writes += 1
        self.entered.set()
        assert self.go_on.wait(60)
        if self.broken:
            raise OSError("no room")
        super().replace(path, data, secret=secret)


async def test_kv_changes_are_written_together_and_seen_when_durable(tmp_path):
    files = CountingFiles()
    kv = KvConfig(files, tmp_path / "kv.json", 1 << 20)
    files.go_on.clear()
    changes = [asyncio.ensure_future(kv.put("n", "0", "v"))]
    await until(files.entered.is_set)
    changes += [asyncio.ensure_future(kv.put("n", str(n), "v")) for n in range(1, 500)]
    await asyncio.sleep(0)
    assert kv.namespace("n") is None
    assert not any(change.done() for change in changes)
    files.go_on.set()
    await asyncio.gather(*changes)
    assert files.writes == 2
    saved = json.loads((tmp_path / "kv.json").read_text())["configTable"]["n"]
    assert saved == kv.namespace("n") == {str(n): "v" for n in range(500)}


async def test_a_failed_kv_write_fails_its_changes_and_no_later_ones(tmp_path):
    files = CountingFiles()
    kv = KvConfig(files, tmp_path / "kv.json", 1 << 20)
    await kv.put("n", "a", "1")
    files.broken = True
    failed = await asyncio.gather(kv.put("n", "b", "2"), kv.delete("n", "a"), return_exceptions=True)
    assert all("no room" in str(error) for error in failed)
    assert kv.namespace("n") == {"a": "1"}
    files.broken = False
    await asyncio.gather(kv.put("n", "c", "3"), kv.delete("n", "a"), kv.delete("n", "nothing"))
    assert kv.namespace("n") == {"c": "3"}
    again = KvConfig(files, tmp_path / "kv.json", 1 << 20)
    again.load()
    assert again.namespace("n") == {"c": "3"}


async def test_a_change_that_does_not_fit_fails_alone(tmp_path):
    kv = KvConfig(SystemFiles(), tmp_path / "kv.json", 100)
    done = await asyncio.gather(*(kv.put("n", key, "x" * 60) for key in "ab"), return_exceptions=True)
    assert done[0] is None
    assert isinstance(done[1], ResponseError)
    assert kv.namespace("n") == {"a": "x" * 60}


async def test_questions_are_answered_while_a_kv_change_is_written(tmp_path, connect):
    files = CountingFiles()
    options = namesrv_options(tmp_path, {"listenPort": 0, "kvConfigPath": tmp_path / "kv.json"})
    server = NameServer(options, Env(files=files, clock=SystemClock()))
    await server.start()
    try:
        files.go_on.clear()
        asker = connect(server)
        writing = asyncio.ensure_future(put(asker, "n", "k", "v"))
        await until(files.entered.is_set)
        assert (await asker.ask(RequestCode.GET_KV_CONFIG, GetKVConfigRequest("n", "k"))).code == 22
        files.go_on.set()
        assert (await writing).code == 0
        listed = await asker.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, GetKVListByNamespaceRequest("n"))
        assert KVTable.decode(listed.body).table == {"k": "v"}
    finally:
        files.go_on.set()
        await server.stop()


# The configuration.


@pytest.mark.parametrize(
    "body",
    [
        rb"orderMessageEnable=\ud800",
        rb"order\ud800=true",
        rb"orderMessageEnable=true\ude00\ud83d",
        b"x" * 100_000 + b"=1",
        b"orderMessageEnable=" + b"9" * 100_000,
    ],
)
async def test_a_hostile_configuration_is_refused_and_the_connection_lives(start, connect, caplog, body):
    asker = connect(await start())
    answer = await asker.ask(RequestCode.UPDATE_NAMESRV_CONFIG, body=body)
    assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.NO_PERMISSION)
    connection = await asker.client.connection(asker.address)
    assert (await asker.ask(RequestCode.GET_NAMESRV_CONFIG)).code == 0
    assert connection.is_open
    assert all(record.exc_info is None and len(record.getMessage()) < 2000 for record in caplog.records)
