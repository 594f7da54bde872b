"""How a broker tells name servers what it has."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane.env import Env, ManualClock, SystemClock
from ariane.namesrv import NameServer, NamesrvOptions
from ariane.protocol.bodies import KVTable, RegisterBrokerBody, TopicRouteData
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import CreateTopicRequest, QueryDataVersionResponse
from ariane.remoting import Client, Connection, Server
from tests.broker.talk import PATIENCE, Talk, settled, small_broker


@pytest.fixture
async def name_server(tmp_path: Path) -> AsyncIterator[NameServer]:
    text = f"listenPort = 0\nbindAddress = 127.0.0.1\nkvConfigPath = {tmp_path}/kv.json"
    server = NameServer(NamesrvOptions.load(text), Env())
    await server.start()
    yield server
    await server.stop()


async def route(address: str, topic: str) -> TopicRouteData | None:
    client = Client(clock=SystemClock())
    try:
        answer = await client.request(address, Command(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic}), PATIENCE)
    finally:
        await client.close()
    return TopicRouteData.decode(answer.body) if answer.code == 0 else None


class Recorder:
    """A name server that keeps what it is told and answers as the test says."""

    def __init__(self) -> None:
        self.told: list[Command] = []
        self.changed = False
        self.ordered: dict[str, str] = {}
        self.table = {
            RequestCode.REGISTER_BROKER: self._register,
            RequestCode.UNREGISTER_BROKER: self._keep,
            RequestCode.QUERY_DATA_VERSION: self._version,
        }
        self.server = Server(self.table, clock=SystemClock())

    def _keep(self, _: Connection, request: Command) -> Command:
        self.told.append(request)
        return request.reply()

    def _register(self, _: Connection, request: Command) -> Command:
        self.told.append(request)
        return request.reply(body=KVTable(self.ordered).encode())

    def _version(self, _: Connection, request: Command) -> Command:
        self.told.append(request)
        return request.reply(fields=QueryDataVersionResponse(self.changed).fields())

    def count(self, code: int) -> int:
        return sum(1 for request in self.told if request.code == code)


@pytest.fixture
async def recorder() -> AsyncIterator[Recorder]:
    recorder = Recorder()
    await recorder.server.start("127.0.0.1", 0)
    yield recorder
    await recorder.server.stop()


REGISTER = RequestCode.REGISTER_BROKER


async def test_a_topic_created_on_send_is_in_the_route_soon(name_server: NameServer, tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path / "s", namesrvAddr=name_server.address)) as talk:
        await talk.send_ok("orders")
        async with asyncio.timeout(PATIENCE):
            while (found := await route(name_server.address, "orders")) is None:
                pass
        assert found.queue_datas[0].write_queue_nums == 4
        assert found.broker_datas[0].broker_addrs == {0: talk.broker.address}
    assert await route(name_server.address, "orders") is None


async def test_a_drained_broker_registers_its_permission_for_all_topics(
    name_server: NameServer, tmp_path: Path
) -> None:
    async with Talk.to(small_broker(tmp_path / "s", namesrvAddr=name_server.address)) as talk:
        await talk.send_ok("orders")
        talk.broker.change_options(talk.broker.options.updated("brokerPermission", "4"))
        async with asyncio.timeout(PATIENCE):
            while (found := await route(name_server.address, "orders")) is None or found.queue_datas[0].perm != 4:
                pass


async def test_registration_repeats_each_thirty_seconds(recorder: Recorder, tmp_path: Path) -> None:
    clock = ManualClock()
    broker = small_broker(tmp_path, env=Env(clock=clock), namesrvAddr=f"127.0.0.1:{recorder.server.port}")
    async with Talk.to(broker) as talk:
        assert recorder.count(REGISTER) == 1
        await talk.pass_time(clock, 11)
        await settled(lambda: recorder.count(REGISTER) == 2)
        await talk.pass_time(clock, 28)
        assert recorder.count(REGISTER) == 2
        await talk.pass_time(clock, 4)
        await settled(lambda: recorder.count(REGISTER) == 3)
    assert recorder.count(RequestCode.UNREGISTER_BROKER) == 1


async def serve_again(recorder: Recorder, port: int) -> None:
    recorder.server = Server(recorder.table, clock=SystemClock())
    await recorder.server.start("127.0.0.1", port)


async def test_a_name_server_that_starts_after_the_broker_is_told_within_seconds(
    recorder: Recorder, tmp_path: Path
) -> None:
    clock, port = ManualClock(), recorder.server.port
    await recorder.server.stop()
    async with Talk.to(small_broker(tmp_path, env=Env(clock=clock), namesrvAddr=f"127.0.0.1:{port}")) as talk:
        await talk.pass_time(clock, 2)
        await serve_again(recorder, port)
        await talk.pass_time(clock, 6)
        await settled(lambda: recorder.count(REGISTER) == 1)
        await talk.pass_time(clock, 1)
        assert recorder.count(REGISTER) == 1


async def test_a_name_server_that_restarts_is_told_within_seconds(recorder: Recorder, tmp_path: Path) -> None:
    clock, port = ManualClock(), recorder.server.port
    async with Talk.to(small_broker(tmp_path, env=Env(clock=clock), namesrvAddr=f"127.0.0.1:{port}")) as talk:
        await recorder.server.stop()
        await serve_again(recorder, port)
        await talk.pass_time(clock, 2)
        await settled(lambda: recorder.count(REGISTER) == 2)


async def test_an_operators_new_topic_is_told_once(recorder: Recorder, tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path, namesrvAddr=f"127.0.0.1:{recorder.server.port}")) as talk:
        fields = CreateTopicRequest("orders", "TBW102", 4, 4, 6, "SINGLE_TAG").fields()
        assert (await talk.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)).code == 0
        assert b"orders" in recorder.told[-1].body
        assert recorder.count(REGISTER) == 2


async def test_without_force_a_broker_registers_again_only_when_something_changed(
    recorder: Recorder, tmp_path: Path
) -> None:
    clock = ManualClock()
    address = f"127.0.0.1:{recorder.server.port}"
    broker = small_broker(tmp_path, env=Env(clock=clock), namesrvAddr=address, forceRegister=False)
    async with Talk.to(broker) as talk:
        await talk.pass_time(clock, 12)
        await settled(lambda: recorder.count(RequestCode.QUERY_DATA_VERSION) == 1)
        assert recorder.count(REGISTER) == 1
        recorder.changed = True
        await talk.pass_time(clock, 32)
        await settled(lambda: (recorder.count(RequestCode.QUERY_DATA_VERSION), recorder.count(REGISTER)) == (2, 2))


@pytest.mark.parametrize("compressed", [False, True])
async def test_a_registration_says_everything(recorder: Recorder, tmp_path: Path, compressed: bool) -> None:
    address = f"127.0.0.1:{recorder.server.port}"
    async with Talk.to(small_broker(tmp_path, namesrvAddr=address, compressedRegister=compressed)) as talk:
        [request] = recorder.told
        fields = request.fields
        assert fields["brokerAddr"] == talk.broker.address
        assert fields["haServerAddr"] == talk.broker.ha_address
        assert fields["brokerEpoch"] == "1"
        assert (fields["brokerName"], fields["clusterName"], fields["brokerId"]) == ("broker-a", "DefaultCluster", "0")
        body = RegisterBrokerBody.decompress(request.body) if compressed else RegisterBrokerBody.decode(request.body)
        table = body.topic_config_serialize_wrapper
        assert table.data_version == talk.broker.topics.version
        assert set(table.topic_config_table) == talk.broker.topics.names()


async def test_topics_that_the_name_server_calls_ordered_become_so(recorder: Recorder, tmp_path: Path) -> None:
    address = f"127.0.0.1:{recorder.server.port}"
    async with Talk.to(small_broker(tmp_path, namesrvAddr=address)) as talk:
        await talk.send_ok("orders")
        recorder.ordered = {"orders": "broker-a:4"}
        await talk.broker.registration.register()
        config = talk.broker.topics.get("orders")
        assert config is not None
        assert config.order


async def test_a_name_server_that_is_down_does_not_keep_the_broker_from_starting(
    recorder: Recorder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"127.0.0.1:1;127.0.0.1:{recorder.server.port}"
    async with Talk.to(small_broker(tmp_path, namesrvAddr=address)) as talk:
        await talk.send_ok("orders")
        await talk.broker.registration.register()
        assert recorder.count(REGISTER) >= 2
    assert len([r for r in caplog.records if "cannot register with the name server 127.0.0.1:1" in r.message]) == 1


async def test_many_changes_at_once_make_few_registrations(recorder: Recorder, tmp_path: Path) -> None:
    async with Talk.to(small_broker(tmp_path, namesrvAddr=f"127.0.0.1:{recorder.server.port}")) as talk:
        await asyncio.gather(*(talk.send_ok(f"topic-{n}") for n in range(40)))
        await settled(lambda: b"topic-39" in recorder.told[-1].body and b"topic-0" in recorder.told[-1].body)
        assert recorder.count(REGISTER) < 20


async def test_a_refused_registration_is_logged_not_fatal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    server = Server({}, clock=SystemClock())
    await server.start("127.0.0.1", 0)
    async with Talk.to(small_broker(tmp_path, namesrvAddr=f"127.0.0.1:{server.port}")) as talk:
        await talk.send_ok("orders")
    await server.stop()
    assert f"response code {int(ResponseCode.REQUEST_CODE_NOT_SUPPORTED)}" in caplog.text


async def test_tls_that_verifies_nothing_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    verifying = {"tls.test.mode.enable": False, "tls.client.authServer": True, "tls.server.mode": "disabled"}
    small_broker(tmp_path / "a", useTLS=True, **verifying)
    assert "accepts any certificate" not in caplog.text
    small_broker(tmp_path / "b", useTLS=True)
    assert "accepts any certificate" in caplog.text
