"""`ariane doctor` finds planted faults, each by its name, and says what to do."""

import asyncio
import json
import os
import resource
import subprocess
import sys
import textwrap
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ariane.broker.server import Broker
from ariane.cli.doctor import cluster, local
from ariane.cli.doctor.command import examine
from ariane.cli.doctor.finding import Finding, Severity
from ariane.env import DiskUsage, Env, ManualClock, SystemClock
from ariane.namesrv import NameServer, NamesrvOptions
from ariane.protocol.bodies import ClusterInfo, KVTable, RegisterBrokerBody, TopicConfig, TopicConfigTable
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import RegisterBrokerRequest, UnregisterBrokerRequest
from ariane.remoting import Client, Server
from tests.broker.talk import Talk, small_broker
from tests.cli.programs import run
from tests.peers.jvm import free_port


def names(found: list[Finding], severity: Severity | None = None) -> set[str]:
    bad = [finding for finding in found if finding.severity is not Severity.OK]
    assert all(finding.advice for finding in bad), "a finding must say what to do"
    return {finding.check for finding in bad if severity in (None, finding.severity)}


def text_of(found: list[Finding], check: str) -> str:
    [text] = [finding.text for finding in found if finding.check == check and finding.severity is not Severity.OK]
    return text


async def of_configuration(text: str, namesrv: str | None = None) -> list[Finding]:
    return await examine(text, "broker.conf", namesrv)


@asynccontextmanager
async def name_server(tmp_path: Path, name: str = "namesrv") -> AsyncIterator[NameServer]:
    text = f"listenPort = 0\nbindAddress = 127.0.0.1\nkvConfigPath = {tmp_path}/{name}/kv.json"
    server = NameServer(NamesrvOptions.load(text), Env())
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def running(broker: Broker) -> AsyncIterator[Broker]:
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


@asynccontextmanager
async def pretender(server: NameServer, name: str, broker_id: int, info: dict[str, str]) -> AsyncIterator[str]:
    """A peer that registers as a broker with one topic and shows any state."""

    def answer(_: Any, request: Command) -> Command:
        return request.reply(body=KVTable(info).encode())

    peer = Server({RequestCode.GET_BROKER_RUNTIME_INFO: answer}, clock=SystemClock())
    client = Client(clock=SystemClock())
    await peer.start("127.0.0.1", 0)
    address = f"127.0.0.1:{peer.port}"
    try:
        await register(client, server, name, broker_id, address)
        yield address
    finally:
        await client.close()
        await peer.stop()


async def register(client: Client, server: NameServer, name: str, broker_id: int, address: str) -> None:
    header = RegisterBrokerRequest(
        broker_name=name, broker_addr=address, cluster_name="c", ha_server_addr=address, broker_id=broker_id
    )
    body = RegisterBrokerBody(TopicConfigTable(topic_config_table={f"of-{name}": TopicConfig(f"of-{name}")}))
    command = Command(RequestCode.REGISTER_BROKER, header.fields(), body.encode())
    assert (await client.request(server.address, command, 60)).code == 0


# The configuration and this machine.


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("brokerNmae = a", "broker.conf:1: brokerNmae: unknown option; did you mean brokerName?"),
        ("listenPort = many", "broker.conf:1: listenPort: expected a whole number"),
        ("filterServerNums = 2", "filterServerNums"),
    ],
)
async def test_wrong_options_are_found(line: str, named: str) -> None:
    found = await of_configuration(line)
    assert "configuration" in names(found, Severity.ERROR)
    assert named in text_of(found, "configuration")


async def test_options_without_effect_are_found(tmp_path: Path) -> None:
    found = await of_configuration(f"sendMessageThreadPoolNums = 8\nstorePathRootDir = {tmp_path}")
    assert "sendMessageThreadPoolNums" in text_of(found, "ignored-options")


@pytest.mark.parametrize(
    ("address", "severity"),
    [("127.0.0.1", Severity.WARNING), ("0.0.0.0", Severity.ERROR), ("172.17.0.2", Severity.WARNING)],
)
async def test_an_advertised_address_that_others_cannot_reach_is_found(
    tmp_path: Path, address: str, severity: Severity
) -> None:
    found = await of_configuration(f"brokerIP1 = {address}\nstorePathRootDir = {tmp_path}")
    assert "advertised-address" in names(found, severity)


async def test_a_broker_without_name_servers_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    assert "name-servers" in names(await of_configuration(f"storePathRootDir = {tmp_path}"))


async def test_a_store_folder_that_cannot_be_written_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    found = await of_configuration(f"storePathRootDir = {tmp_path}/file/store")
    assert "store-folder" in names(found, Severity.ERROR)
    (tmp_path / "closed").mkdir(mode=0o500)
    if os.geteuid() == 0:  # root may write everywhere
        monkeypatch.setattr(local.os, "access", lambda path, mode: "closed" not in str(path))
    found = await of_configuration(f"storePathRootDir = {tmp_path}/closed/store")
    assert "store-folder" in names(found, Severity.ERROR)
    assert "closed" in text_of(found, "store-folder")


async def test_a_store_that_another_broker_uses_is_found(tmp_path: Path) -> None:
    async with running(small_broker(tmp_path / "store")):
        found = await of_configuration(f"storePathRootDir = {tmp_path}/store")
        assert f"process {os.getpid()}" in text_of(found, "store-locked")
    assert "store-locked" not in names(await of_configuration(f"storePathRootDir = {tmp_path}/store"))


@pytest.mark.parametrize(("used", "severity"), [(0.80, Severity.WARNING), (0.95, Severity.ERROR)])
async def test_a_disk_near_its_marks_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, used: float, severity: Severity
) -> None:
    full = DiskUsage(total=1000, free=round(1000 * (1 - used)))
    monkeypatch.setattr("ariane.env.system.SystemFiles.usage", lambda *_: full)
    found = await of_configuration(f"storePathRootDir = {tmp_path}")
    assert "disk" in names(found, severity)
    assert f"{used:.0%}" in text_of(found, "disk")


async def test_a_low_limit_of_open_files_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 4096))
    found = await examine(None, "", None)
    assert "4096" in text_of(found, "open-files")
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, 65536))
    assert "open-files" not in names(await examine(None, "", None))


# A running cluster.


async def test_a_sound_cluster_has_no_errors(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server:
        broker = small_broker(tmp_path / "store", namesrvAddr=server.address)
        async with running(broker):
            found = await examine(None, "", server.address)
    assert names(found, Severity.ERROR) == set()
    assert {finding.check for finding in found} >= {"name-server", "broker"}


async def test_a_name_server_that_does_not_answer_is_found(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server:
        silent = f"127.0.0.1:{free_port()}"
        found = await examine(None, "", f"{server.address};{silent}")
    assert silent in text_of(found, "name-server")


async def test_a_registered_address_that_cannot_be_reached_is_found(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server:
        client = Client(clock=SystemClock())
        address = f"127.0.0.1:{free_port()}"
        await register(client, server, "lost", 0, address)
        found = await examine(None, "", server.address)
        await client.close()
    assert f"registered as {address}" in text_of(found, "broker-address")


async def test_a_clock_that_differs_is_found(tmp_path: Path) -> None:
    clock = ManualClock(SystemClock().now_ms() - 3_600_000)
    async with name_server(tmp_path) as server:
        broker = small_broker(tmp_path / "store", namesrvAddr=server.address, env=Env(clock=clock))
        async with running(broker):
            found = await examine(None, "", server.address)
    assert "s behind" in text_of(found, "clock-skew")


async def test_a_full_disk_of_a_broker_is_found(tmp_path: Path) -> None:
    async with name_server(tmp_path) as server, pretender(server, "full", 0, {"commitLogDiskRatio": "0.93"}):
        found = await examine(None, "", server.address)
    assert "broker-disk" in names(found, Severity.ERROR)


async def test_a_slave_that_is_behind_is_found(tmp_path: Path) -> None:
    master = {"commitLogMaxOffset": str(10 * cluster.MOST_BEHIND)}
    async with (
        name_server(tmp_path) as server,
        pretender(server, "pair", 0, master),
        pretender(server, "pair", 1, {"commitLogMaxOffset": "0"}) as slave,
    ):
        found = await examine(None, "", server.address)
    assert slave in text_of(found, "slave-behind")


async def test_topics_without_a_master_are_found(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as server,
        pretender(server, "orphan", 0, {}),
        pretender(server, "orphan", 1, {}),
    ):
        assert "no-master" not in names(await examine(None, "", server.address))
        await unregister(server, "orphan")
        found = await examine(None, "", server.address)
    assert "no-master" in names(found, Severity.ERROR)
    assert "of-orphan" in text_of(found, "topic-without-master")


async def unregister(server: NameServer, name: str) -> None:
    client = Client(clock=SystemClock())
    try:
        answer = await client.request(server.address, Command(RequestCode.GET_BROKER_CLUSTER_INFO), 60)
        address = ClusterInfo.decode(answer.body).broker_addr_table[name].broker_addrs[0]
        fields = UnregisterBrokerRequest(name, address, "c", 0).fields()
        assert (await client.request(server.address, Command(RequestCode.UNREGISTER_BROKER, fields), 60)).code == 0
    finally:
        await client.close()


async def test_groups_whose_members_disagree_are_found(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as server,
        Talk.to(small_broker(tmp_path / "store", namesrvAddr=server.address)) as one,
        Talk.beside(one.broker) as two,
    ):
        await one.heartbeat("workers", {"orders": "a"}, client_id="one")
        await two.heartbeat("workers", {"orders": "b"}, client_id="two")
        found = await examine(None, "", server.address)
    assert "workers" in text_of(found, "group-conflict")


async def test_name_servers_that_know_different_brokers_are_found(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path, "a") as first,
        name_server(tmp_path, "b") as second,
        running(small_broker(tmp_path / "store", namesrvAddr=first.address)),
    ):
        found = await examine(None, "", f"{first.address};{second.address}")
    assert second.address in text_of(found, "name-servers-differ")


async def test_a_configured_broker_that_is_not_registered_is_found(tmp_path: Path) -> None:
    async with (
        name_server(tmp_path) as server,
        running(small_broker(tmp_path / "store", namesrvAddr=server.address)),
    ):
        text = f"brokerName = other\nstorePathRootDir = {tmp_path}/other"
        found = await of_configuration(text, server.address)
    assert "broker other is not registered; registered are broker-a" in text_of(found, "not-registered")


def test_the_command_prints_findings_for_people_and_scripts_and_ends_with_their_severity(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(f"brokerName = a\nbrokerIP1 = 0.0.0.0\nstorePathRootDir = {tmp_path}/store\n")
    ended = run("ariane", "doctor", "-c", str(config))
    assert ended.returncode == 1, ended.stderr
    assert "error    advertised-address: brokerIP1 is '0.0.0.0'" in ended.stdout
    assert "-> set an address that clients can reach" in ended.stdout
    found = json.loads(run("ariane", "doctor", "-c", str(config), "--json").stdout)
    assert {"severity": "error", "check": "advertised-address"}.items() <= found[0].items()
    config.write_text(f"brokerName = a\nbrokerIP1 = 203.0.113.1\nstorePathRootDir = {tmp_path}/store\n")
    assert run("ariane", "doctor", "-c", str(config)).returncode == 0
    assert not (tmp_path / "store").exists(), "the doctor made a folder"


def test_the_output_in_the_docs_is_that_of_the_command(tmp_path: Path) -> None:
    config = tmp_path / "broker.conf"
    config.write_text(
        f"brokerName = broker-a\nbrokerIP1 = 127.0.0.1\nstorePathRootDir = {tmp_path}/store\nhighSpeedMode = true\n"
        "diskMaxUsedSpaceRatio = 95\nrocketmq.broker.diskSpaceCleanForciblyRatio = 1\n"
        "rocketmq.broker.diskSpaceWarningLevelRatio = 1\n"
    )
    code = "import resource; resource.getrlimit = lambda _: (1024, 4096); from ariane.cli import main; main()"
    shown = subprocess.run(
        [sys.executable, "-c", code, "doctor", "-c", str(config), "-n", "127.0.0.1:1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={key: text for key, text in os.environ.items() if key != "NAMESRV_ADDR"},
    ).stdout
    page = (Path(__file__).parents[2] / "docs" / "operate.md").read_text()
    documented = page.partition("<!-- doctor -->\n")[2].partition("<!-- end -->")[0]
    assert textwrap.dedent(documented) == shown


async def test_the_doctor_does_not_wait_long_for_peers_that_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "TIMEOUT", 0.1)
    server = await asyncio.start_server(lambda *_: asyncio.sleep(0), "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        found = await examine(None, "", f"127.0.0.1:{port}")
    finally:
        server.close()
    assert "name-server" in names(found, Severity.ERROR)
