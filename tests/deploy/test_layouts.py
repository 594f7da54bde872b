"""The layouts of `deploy/`: their options are real, the servers start with them, and the files fit together."""

import configparser
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import yaml

from ariane import Message, Producer, SendStatus
from ariane.broker.config.options import BrokerOptions
from ariane.errors import ArianeError
from ariane.namesrv import NamesrvOptions
from tests.deploy.tools import tool
from tests.peers import free_port
from tests.peers.jvm import listening, until

DEPLOY = Path(__file__).parents[2] / "deploy"
LAYOUTS = ["2m-noslave", "2m-2s-async", "2m-2s-sync", "dledger"]
BROKERS = sorted((DEPLOY / "conf").glob("*/*.properties"))
COMPOSITIONS = sorted((DEPLOY / "compose").glob("*.yml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
PATIENCE = 120.0
SMALL = "mappedFileSizeCommitLog=1048576\nmaxIndexNum=1000\nmaxHashSlotNum=4000\ndiskMaxUsedSpaceRatio=95\n"


@pytest.mark.parametrize("path", BROKERS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_every_option_of_a_broker_file_is_known_and_has_an_effect(path: Path) -> None:
    options = BrokerOptions.load(path.read_text(), file=path.name)
    assert options.ignored == ()


def test_the_name_servers_file_is_read() -> None:
    assert NamesrvOptions.load((DEPLOY / "conf" / "namesrv.conf").read_text()).listen_port == 9876


@contextmanager
def layout(name: str, folder: Path) -> Iterator[str]:
    """The processes of a layout with the files of `deploy/conf`, moved to this machine's ports and a folder."""
    files = sorted((DEPLOY / "conf" / name).iterdir())
    names, ledger = free_port(), {path.stem: free_port() for path in files}
    with ExitStack() as running:
        start(running, folder / "namesrv", "namesrv", "--listen-port", str(names))
        for path in files:
            home = folder / path.stem
            home.mkdir()
            text = path.read_text().replace("namesrv-1:9876;namesrv-2:9876", f"127.0.0.1:{names}")
            text = text.replace("/var/lib/ariane", str(home)).replace("10911", str(free_port(-2, 1)))
            text = text.replace("metricsExporterType=PROM\nmetricsPromExporterHost=0.0.0.0\n", "")
            for other, port in ledger.items():
                text = text.replace(f"{other}:40911", f"127.0.0.1:{port}")
            (home / "broker.conf").write_text(f"{text}brokerIP1=127.0.0.1\nbrokerIP2=127.0.0.1\n{SMALL}")
            start(running, home, "broker", "-c", str(home / "broker.conf"))
        yield f"127.0.0.1:{names}"


def start(running: ExitStack, folder: Path, *command: str) -> None:
    folder.mkdir(exist_ok=True)
    log = running.enter_context((folder / "log").open("wb"))
    program = [sys.executable, "-c", "from ariane.cli import main; main()", *command]
    process = subprocess.Popen(program, cwd=folder, stdout=log, stderr=log)
    running.callback(process.wait, PATIENCE)
    running.callback(process.send_signal, signal.SIGTERM)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_starts_and_acknowledges_a_send_as_it_promises(name: str, tmp_path: Path) -> None:
    masters = {"broker-a"} if name == "dledger" else {"broker-a", "broker-b"}
    with layout(name, tmp_path) as names, Producer("shop", name_servers=names) as producer:
        attempt = count()

        def stored() -> bool:
            """Send to a new topic, which all brokers that are up create: each must give SEND_OK, slaves included."""
            topic = f"orders-{next(attempt)}"
            try:
                results = [producer.send(Message(topic, b"paid")) for _ in range(8)]
            except ArianeError:
                return False
            brokers, statuses = {r.queue.broker_name for r in results}, {r.status for r in results}
            return brokers == masters and statuses == {SendStatus.SEND_OK}

        until(stored, PATIENCE, f"the layout {name}")


@pytest.mark.parametrize("path", COMPOSITIONS, ids=lambda path: path.stem)
def test_a_composition_mounts_files_that_exist_and_names_its_volumes(path: Path) -> None:
    content: dict[str, Any] = yaml.safe_load(path.read_text())
    for service in content.get("services", {}).values():
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert (path.parent / source).exists() if source.startswith(".") else source in content["volumes"], volume
        assert set(service.get("depends_on", ())) <= set(content["services"])


def test_the_compositions_fit_the_schema_of_compose() -> None:
    program = tool("check-jsonschema", "pip install check-jsonschema")
    paths = [os.fspath(path) for path in COMPOSITIONS if "services" in yaml.safe_load(path.read_text())]
    assert len(paths) >= 5
    done = subprocess.run(
        [program, "--builtin-schema", "vendor.compose-spec", *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("path", [path for path in COMPOSITIONS if path.stem in LAYOUTS], ids=lambda path: path.stem)
def test_a_composition_has_every_host_that_its_brokers_name(path: Path) -> None:
    services = set(yaml.safe_load(path.read_text())["services"])
    for conf in (DEPLOY / "conf" / path.stem).iterdir():
        hosts = re.findall(r"([a-z]+-\w+):\d+", conf.read_text())
        assert hosts
        assert set(hosts) <= services
        assert conf.stem in services


@pytest.mark.parametrize("path", [path for path in COMPOSITIONS if path.stem in LAYOUTS], ids=lambda path: path.stem)
def test_prometheus_is_told_of_every_server_of_a_composition_and_of_no_other(path: Path) -> None:
    composition = yaml.safe_load(path.read_text())
    port = {"broker": 5557, "namesrv": 5558}
    wanted = {f"{name}:{port[service['command'][0]]}" for name, service in composition["services"].items()}
    groups = yaml.safe_load(composition["configs"]["targets"]["content"])
    assert sorted(target for group in groups for target in group["targets"]) == sorted(wanted)
    assert [group["labels"] for group in groups] == [{"job": "ariane-brokers"}, {"job": "ariane-name-servers"}]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_starts_an_installed_command_and_is_hardened(path: Path) -> None:
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(path)
    service = unit["Service"]
    program = Path(service["ExecStart"].split()[0]).name
    assert shutil.which(program, path=os.fspath(Path(sys.executable).parent))
    assert (service["User"], service["NoNewPrivileges"], service["ProtectSystem"]) == ("ariane", "true", "strict")
    assert int(service["LimitNOFILE"]) > 65536
    assert "AF_NETLINK" in service["RestrictAddressFamilies"]  # how a server learns this machine's addresses


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_finds_a_unit_little_exposed(path: Path) -> None:
    program = tool("systemd-analyze", "apt-get install systemd")
    command = [program, "security", "--offline=true", "--threshold=15", "--no-pager", os.fspath(path)]  # of 100
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_systemd_itself_accepts_the_units(tmp_path: Path) -> None:
    program = tool("systemd-analyze", "apt-get install systemd")
    for path in UNITS:  # the programs of this environment take the place of those in /opt
        text = path.read_text().replace("/opt/ariane/bin", os.fspath(Path(sys.executable).parent))
        (tmp_path / path.name).write_text(text.replace("User=ariane\nGroup=ariane\n", ""))
    units = [os.fspath(tmp_path / path.name) for path in UNITS]
    done = subprocess.run(
        [program, "verify", "--man=no", *units], capture_output=True, text=True, timeout=120, check=False
    )
    said = [line for line in done.stderr.splitlines() if "ariane-" in line]
    assert done.returncode == 0 or "Failed to initialize" in done.stderr, done.stderr
    assert said == []


def test_the_containers_probe_tells_a_live_server_from_none(tmp_path: Path) -> None:
    port = free_port()
    probe = [sys.executable, str(DEPLOY / "docker" / "health.py"), str(port)]
    assert subprocess.run(probe, check=False).returncode == 1
    with ExitStack() as running:
        conf = tmp_path / "namesrv.conf"
        conf.write_text(f"metricsExporterType=PROM\nmetricsPromExporterPort={port}\nkvConfigPath={tmp_path}/kv\n")
        start(running, tmp_path, "namesrv", "-c", str(conf), "--listen-port", str(free_port()))
        until(lambda: listening(port), PATIENCE, "the name server")
        assert subprocess.run(probe, check=False).returncode == 0
        assert subprocess.run([*probe[:-1], f"{port}/ready"], check=False).returncode == 0
        assert subprocess.run([*probe[:-1], f"{port}/nothing"], check=False).returncode == 1
