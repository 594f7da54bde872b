"""Log files: rotation, JSON, levels by area, changed while a server runs."""

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ariane
from ariane.broker.config import BrokerOptions
from ariane.env import Env
from ariane.errors import ConfigError
from ariane.namesrv import NameServer, NamesrvOptions
from ariane.ops.logs import LogLevels, open_logs
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.remoting import Client
from ariane.settings import operation
from tests.broker.operating import ok
from tests.broker.talk import Talk

AREAS = ("ariane", "ariane.store", "ariane.remoting", "ariane.admin", "ariane.slow", "ariane.broker")


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """Puts the process's logging back as it was."""
    root, admin = logging.getLogger(), logging.getLogger("ariane.admin")
    handlers, level = list(root.handlers), root.level
    levels = {name: logging.getLogger(name).level for name in AREAS}
    root.handlers = []  # pytest's own stay open
    try:
        yield
    finally:
        for handler in [*root.handlers, *admin.handlers]:
            handler.close()
        root.handlers, admin.handlers, admin.propagate = handlers, [], True
        root.setLevel(level)
        for name, before in levels.items():
            logging.getLogger(name).setLevel(before)


def options(**values: Any) -> BrokerOptions:
    return BrokerOptions.load("\n".join(f"{name} = {value}" for name, value in values.items()))


def test_a_log_file_is_made_with_its_folder_and_rotated(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "broker.log"
    open_logs(options(logFile=file, logFileMaxBytes=65536, logFileCount=2), "info")
    for number in range(3000):
        logging.getLogger("ariane.broker").info("line %d %s", number, "x" * 80)
    files = sorted(path.name for path in file.parent.iterdir())
    assert files == ["broker.log", "broker.log.1", "broker.log.2"]
    assert all(path.stat().st_size <= 65536 for path in file.parent.iterdir())
    assert "line 2999" in file.read_text().splitlines()[-1]


def test_json_lines_have_the_fields_of_the_event(tmp_path: Path) -> None:
    open_logs(options(logFile=tmp_path / "log", logFormat="json"), "info")
    logging.getLogger("ariane.broker").warning('broken\n"%s"', "ü", extra={"fields": {"peer": "127.0.0.1:1"}})
    try:
        raise ValueError("no")
    except ValueError:
        logging.getLogger("ariane.store").exception("failed")
    first, second = map(json.loads, (tmp_path / "log").read_text().splitlines())
    assert first["message"] == 'broken\n"ü"'
    assert (first["level"], first["logger"], first["peer"]) == ("WARNING", "ariane.broker", "127.0.0.1:1")
    assert second["exception"].endswith("ValueError: no")


def test_text_of_a_peer_cannot_look_like_a_line_of_its_own(tmp_path: Path) -> None:
    open_logs(options(logFile=tmp_path / "log"), "info")
    logging.getLogger("ariane.broker").warning("refused %s", "x\n2026-01-01 00:00:00 INFO    ariane.admin: all is well")
    first, second = (tmp_path / "log").read_text().splitlines()
    assert first.endswith("refused x")
    assert second.startswith("    ")


def test_levels_hold_by_area_and_other_packages_are_quiet(tmp_path: Path) -> None:
    open_logs(options(logFile=tmp_path / "log", logLevel="warning", logLevels="store=debug;remoting=error"), "info")
    for name in ("ariane.store", "ariane.broker", "ariane.remoting", "asyncio"):
        for level in (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR):
            logging.getLogger(name).log(level, "%s %s", name, logging.getLevelName(level))
    shown = [line.partition(": ")[2] for line in (tmp_path / "log").read_text().splitlines()]
    assert [line for line in shown if line.startswith("ariane.store")] == [
        f"ariane.store {level}" for level in ("DEBUG", "INFO", "WARNING", "ERROR")
    ]
    assert [line for line in shown if line.startswith("ariane.remoting")] == ["ariane.remoting ERROR"]
    assert [line for line in shown if line.startswith("ariane.broker")] == [
        "ariane.broker WARNING",
        "ariane.broker ERROR",
    ]
    assert [line for line in shown if line.startswith("asyncio")] == ["asyncio WARNING", "asyncio ERROR"]


def test_an_area_that_is_named_no_longer_has_the_common_level_again() -> None:
    levels = LogLevels()
    levels.set(options(logLevels="store=debug"))
    assert logging.getLogger("ariane.store").level == logging.DEBUG
    levels.set(options(logLevel="error"))
    assert logging.getLogger("ariane.store").getEffectiveLevel() == logging.ERROR


def test_levels_of_the_start_end_too_when_they_are_named_no_longer(tmp_path: Path) -> None:
    start = options(logFile=tmp_path / "log", logLevels="store=debug")
    open_logs(start, "info")
    levels = LogLevels(current=start)
    levels.set(options(logLevels="remoting=error"))
    assert logging.getLogger("ariane.store").level == logging.NOTSET
    assert logging.getLogger("ariane.remoting").level == logging.ERROR


@pytest.mark.parametrize("value", ["store", "store=loud", "store=debug;=info", "Store=debug", "a b=info"])
def test_wrong_levels_are_refused(value: str) -> None:
    with pytest.raises(ConfigError, match="logLevels: expected areas and levels such as store=debug"):
        options(logLevels=value)


def test_an_unknown_area_is_refused_with_the_list_of_areas() -> None:
    with pytest.raises(ConfigError, match=r"there is no area stroe; areas are access, .* store"):
        options(logLevels="remoting=error;stroe=debug")


def test_the_areas_are_those_that_log() -> None:
    sources = [path.read_text() for path in Path(ariane.__file__).parent.rglob("*.py")]
    names = {name for text in sources for name in re.findall(r'getLogger\("ariane\.([a-z_]+)', text)}
    assert "store" in names
    assert names <= set(operation.AREAS)


def test_a_log_that_cannot_be_written_is_a_configuration_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be written"):
        open_logs(options(logFile=tmp_path / "file" / "log"), "info")


async def test_levels_of_a_broker_change_at_run_time(talk_to: Any) -> None:
    talk: Talk = await talk_to()
    await ok(talk, RequestCode.UPDATE_BROKER_CONFIG, body=b"logLevels=store=debug;remoting=error\nlogLevel=warning")
    assert logging.getLogger("ariane.store").level == logging.DEBUG
    assert logging.getLogger("ariane.remoting").level == logging.ERROR
    assert logging.getLogger("ariane").level == logging.WARNING
    refused = await talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"logFile=/etc/passwd")
    assert refused.code != 0


async def test_levels_of_a_name_server_change_at_run_time(tmp_path: Path) -> None:
    text = f"listenPort = 0\nbindAddress = 127.0.0.1\nkvConfigPath = {tmp_path}/kv\nconfigStorePath = {tmp_path}/conf"
    server, client = NameServer(NamesrvOptions.load(text), Env()), Client(clock=Env().clock)
    await server.start()
    try:
        for body, code in ((b"logLevels=remoting=debug", True), (b"adminLogFile=/tmp/x", False)):
            answer = await client.request(server.address, Command(RequestCode.UPDATE_NAMESRV_CONFIG, None, body), 60)
            assert (answer.code == 0) == code
        assert logging.getLogger("ariane.remoting").level == logging.DEBUG
    finally:
        await client.close()
        await server.stop()
