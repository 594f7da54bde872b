"""A console in trouble: no room on its disk, broken or locked files, a second console in its folder."""

import json
import shutil
import sqlite3
from collections import namedtuple
from pathlib import Path

import pytest

from ariane.client.options import ClientOptions
from ariane.console import audit as audit_module
from ariane.console.audit import AuditFailed, AuditLog
from ariane.console.config_file import ConfigFile
from ariane.console.options import ConsoleOptions
from ariane.console.pages.messages import MOST_BODY, body_forms
from ariane.console.people.users import Users
from ariane.console.rights import Role
from ariane.console.server import Console
from ariane.console.watch.alarms import AlarmRules
from ariane.console.watch.database import open_database
from ariane.console.watch.history import History
from ariane.console.watch.notices import Notifier
from ariane.console.watch.sampler import Sample, Sampler
from ariane.env import Env
from ariane.errors import ClientError, ConfigError
from tests.cluster import Cluster as Servers
from tests.console.test_alarms import Watch, broker
from tests.console.test_changes import Desk

Usage = namedtuple("Usage", "total used free")
TABLE = "create table if not exists one (value integer);"


async def test_a_change_that_cannot_be_noted_is_not_made(
    cluster: Servers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(ClientOptions(name_servers=cluster.namesrv), tmp_path)
    await desk.cluster.start()
    try:
        who = desk.visitor(Role.ADMIN)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100, 100, 0))
        with pytest.raises(AuditFailed, match="nothing was changed"):
            await desk.door.create_topic(who, desk.cluster, "not-noted", 1)
        monkeypatch.undo()
        assert "not-noted" not in await desk.cluster.admin.topics()
        (tmp_path / "audit.jsonl").unlink(missing_ok=True)
        (tmp_path / "audit.jsonl").mkdir()
        with pytest.raises(AuditFailed, match="nothing was changed"):
            await desk.door.create_topic(who, desk.cluster, "not-noted", 1)
        assert "not-noted" not in await desk.cluster.admin.topics()
    finally:
        await desk.cluster.stop()


def test_an_entry_that_was_written_in_part_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", Env().clock)
    log.write("anna", "192.0.2.1", "login", "done")
    whole, write = (tmp_path / "audit.jsonl").read_bytes(), audit_module.os.write
    monkeypatch.setattr(audit_module.os, "write", lambda handle, content: write(handle, content[:20]))
    with pytest.raises(AuditFailed, match="No space left"):
        log.write("bert", "192.0.2.1", "login", "done")
    monkeypatch.undo()
    assert (tmp_path / "audit.jsonl").read_bytes() == whole
    with (tmp_path / "audit.jsonl").open("a") as file:
        file.write('{"time": 1, "us')  # a line that a lost process left
    log.write("carl", "192.0.2.1", "login", "done")
    assert [one.user for one in log.newest()] == ["carl", "anna"]


def test_no_name_makes_a_line_of_the_audit_log(tmp_path: Path) -> None:
    log = AuditLog(tmp_path / "audit.jsonl", Env().clock)
    forged = 'x", "outcome": "done"}\n{"time": 1, "user": "admin"}\r\n\u2028'
    log.write(forged, forged, "login", forged, subject=forged, before={forged: forged}, after=forged)
    (line,) = (tmp_path / "audit.jsonl").read_text().splitlines()
    assert json.loads(line)["user"] == forged
    assert log.newest()[0].subject == forged


def test_alarms_are_told_though_neither_history_nor_alarms_can_be_written(tmp_path: Path) -> None:
    watch = Watch(tmp_path, AlarmRules(lag=5))
    history = History(tmp_path / "history.sqlite", 7)
    sampler = Sampler([], history, watch.alarms, Notifier(ConfigFile(), watch.clock), watch.clock, 15)
    history.close()
    watch.alarms.close()
    told = []
    for _ in range(2):
        sample = Sample("main", watch.clock.now_ms(), brokers=[broker("a", 0.95)], letters={"billing": 3})
        told = sampler.judge(sample)
    assert [one.alarm.kind for one in told] == ["disk"]


def test_a_broken_database_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite"
    path.write_text("this was never a database of SQLite, but it is long enough to be read as one" * 20)
    history = History(path, 7)
    history.add("main", 1000, {("lag", ""): 5.0})
    assert history.series("main", "lag", "", 0, 2000) == [(1000, 5.0)]
    history.close()
    assert (tmp_path / "history.sqlite.broken").read_text().startswith("this was never")


def test_a_locked_database_is_not_taken_for_a_broken_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history.sqlite"
    open_database(path, TABLE).close()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **(more | {"timeout": 0})))
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("begin exclusive")
        with pytest.raises(ConfigError, match="locked"):
            open_database(path, TABLE + "insert into one values (1);")
    other.close()
    assert not (tmp_path / "history.sqlite.broken").exists()


def test_a_folder_has_one_console(tmp_path: Path) -> None:
    options = ConsoleOptions({"main": ClientOptions(name_servers="127.0.0.1:1")}, tmp_path / "files")
    first = Env().files.lock(_made(tmp_path / "files") / "lock", "console 1")
    with pytest.raises(ConfigError, match="used by another console"):
        Console(options, Env())
    first.release()


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_users_that_another_process_changed_are_seen_at_once(tmp_path: Path) -> None:
    running, command = Users(tmp_path / "users.json"), Users(tmp_path / "users.json")
    running.add("root", Role.ADMIN)
    command.add("anna", Role.VIEWER)
    assert [one.name for one in running.all()] == ["anna", "root"]
    running.set_password("root", "a new password")
    command.remove("anna")
    assert [one.name for one in running.all()] == ["root"]
    assert running.check("root", "a new password") is not None
    (tmp_path / "users.json").write_text("{")
    assert [one.name for one in running.all()] == ["root"]  # until it can be read again


@pytest.mark.parametrize(
    "body",
    [
        b'{"half": "\\ud800", "whole": "\\ud83d\\ude00"}',
        b"[" * 900 + b"1," * 30_000 + b"1" + b"]" * 900,
        b"[" * 30_000 + b"]" * 30_000,
        b'{"big": ' + b"9" * 6000 + b', "nan": NaN}',
        b'{"long": "' + b"x" * (4 << 20),
        b"a\0b\x1b[31m\xe2\x80\xae",
        b"\xff\xfe\xc3\x28",
        b"",
    ],
    ids=["surrogate", "wide and deep", "deep", "numbers", "4 MiB", "controls", "not UTF-8", "empty"],
)
def test_a_page_can_carry_every_body(body: bytes) -> None:
    forms = body_forms(body)
    for text in forms.values():
        text.encode()
        assert len(text) <= 5 * MOST_BODY


@pytest.mark.parametrize("group", ["../../users", "a/b", "a\0", "a\nb", ""])
async def test_letters_of_no_group_write_no_file(tmp_path: Path, group: str) -> None:
    desk = Desk(ClientOptions(name_servers="127.0.0.1:1"), tmp_path)
    with pytest.raises(ClientError, match="not the name of a group"):
        await desk.door.resend_letters(desk.visitor(Role.OPERATOR), desk.cluster, group, None)
    assert not (tmp_path / "resent").exists()
