"""Alarms and history: when one begins and ends, who is told over real mail and HTTP, and what is kept."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import Message as Mail
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from aiosmtpd.controller import Controller

from ariane.client.admin.brokers import BrokerStatus
from ariane.console.cluster import GroupRow
from ariane.console.config_file import ConfigFile, MailOptions, WebhookOptions, read_config
from ariane.console.watch import history as history_module
from ariane.console.watch.alarms import Alarm, AlarmRules, Alarms, Notice, RulesFile
from ariane.console.watch.history import History
from ariane.console.watch.notices import Notifier, letter, posted
from ariane.console.watch.sampler import Sample, Sampler
from ariane.env import Env, ManualClock
from ariane.errors import ConfigError
from tests.peers import free_port

KINDS = frozenset({"lag", "disk"})
LAG = {("lag", "billing"): 20_000.0}
NOON = 1_700_049_600_000  # 2023-11-15 12:00 UTC


class Watch:
    """Alarms over a clock that the test moves."""

    def __init__(self, folder: Path, rules: AlarmRules | None = None) -> None:
        self.folder, self.clock = folder, ManualClock(NOON)
        self.file = RulesFile(folder / "alarms.json")
        if rules is not None:
            self.file.write(rules)
        self.alarms = Alarms(folder / "alarms.sqlite", self.file, self.clock)

    def look(self, found: dict[tuple[str, str], float], cluster: str = "main") -> list[str]:
        self.clock.advance(15)
        return [f"{one.state} {one.alarm.name}" for one in self.alarms.look(cluster, found, KINDS)]


def test_an_alarm_begins_and_ends_once_it_is_steady(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    assert watch.look(LAG) == []  # one sample is not enough
    assert watch.look({}) == []
    assert watch.look(LAG) == []
    assert watch.look(LAG) == ["begins billing"]
    assert [watch.look(LAG) for _ in range(100)] == [[]] * 100  # told once
    assert watch.look({}) == []
    assert watch.look(LAG) == []  # it never ended
    assert [watch.look({}), watch.look({})] == [[], ["ends billing"]]
    assert watch.alarms.active == []
    assert [one.name for one in watch.alarms.past()] == ["billing"]


def test_a_restart_repeats_no_notice(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    watch.look(LAG)
    assert watch.look(LAG) == ["begins billing"]
    watch.alarms.close()
    again = Watch(tmp_path)
    assert [again.look(LAG) for _ in range(3)] == [[]] * 3
    assert [one.name for one in again.alarms.active] == ["billing"]


def test_quiet_times_hold_notices_and_forget_what_passed(tmp_path: Path) -> None:
    watch = Watch(tmp_path, AlarmRules(quiet="22:00-07:00, 11:59-12:10"))
    passing = {("lag", "passing"): 1.0}
    for _ in range(2):
        assert watch.look(LAG | passing) == []
    for _ in range(2):
        assert watch.look(LAG) == []
    watch.clock.advance(600)
    assert watch.look(LAG) == ["begins billing"]  # of the other one nobody hears; the page has it
    assert [one.name for one in watch.alarms.past()] == ["passing"]


def test_reminders_are_rare_and_names_can_be_muted(tmp_path: Path) -> None:
    watch = Watch(tmp_path, AlarmRules(remind_hours=2, muted="test-* other"))
    muted = {("lag", "test-1"): 1.0, ("lag", "other"): 1.0}
    watch.look(LAG | muted)
    assert watch.look(LAG | muted) == ["begins billing"]
    watch.clock.advance(2 * 3600)
    assert watch.look(LAG) == ["lasts billing"]
    assert watch.look(LAG) == []


def test_clusters_and_kinds_that_were_not_looked_at_stay_as_they_are(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    for _ in range(2):
        watch.look(LAG)
        watch.look(LAG, "other")
    for _ in range(3):
        watch.look({}, "other")
        watch.alarms.look("main", {}, frozenset({"unreachable"}))
    assert [one.cluster for one in watch.alarms.active] == ["main"]


@pytest.mark.parametrize("bad", [{"lag": -1}, {"disk_percent": 101}, {"quiet": "25:00-07:00"}, {"remind_hours": 0}])
def test_rules_that_are_none_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        AlarmRules(**bad)


def broker(name: str, disk: float, error: str | None = None) -> BrokerStatus:
    return BrokerStatus("c", name, 0, f"{name}:1", {"commitLogDiskRatio": str(disk)}, error)


def test_samples_become_alarms_of_every_kind(tmp_path: Path) -> None:
    watch = Watch(tmp_path)
    history = History(tmp_path / "history.sqlite", 7)
    sampler = Sampler([], history, watch.alarms, Notifier(ConfigFile(), watch.clock), watch.clock, 15)

    def take(**parts: Any) -> list[tuple[str, str]]:
        watch.clock.advance(15)
        sample = Sample("main", watch.clock.now_ms(), **parts)
        if sample.error is None:
            history.add("main", sample.time, sample.values())
        return sorted((one.alarm.kind, one.alarm.name) for one in sampler.judge(sample))

    assert take(brokers=[broker("a", 0.2), broker("b", 0.2)], letters={"billing": 3}) == []
    bad: dict[str, Any] = {
        "brokers": [broker("a", 0.9)],
        "groups": [GroupRow("billing", lag=10_000), GroupRow("calm", lag=9_999)],
        "letters": {"billing": 4},
        "conflicts": {"billing": True, "calm": False},
    }
    take(**bad)
    assert take(**bad) == [
        ("conflict", "billing"), ("disk", "a a:1"), ("lag", "billing"), ("letters", "billing"), ("missing", "b b:1"),
    ]  # fmt: skip
    good = {
        "brokers": [broker("a", 0.2), broker("b", 0.2)],
        "groups": [GroupRow("billing")],
        "conflicts": {"billing": False},
    }
    take(**good)
    ended = take(**good)
    assert ("lag", "billing") in ended
    assert ("missing", "b b:1") in ended
    take(error="no answer")
    assert take(error="no answer") == [("unreachable", "")]
    history.close()


@pytest.mark.slow
def test_history_is_thinned_and_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    history = History(tmp_path / "history.sqlite", 1)
    first = NOON
    for number in range(4 * 60 * 30):  # thirty hours
        history.add("main", first + number * 15_000, {("lag", ""): float(number), ("lag", "billing"): 1.0})
    last = first + (4 * 60 * 30 - 1) * 15_000
    (rows,) = history._reader.execute("select count(*) from figure").fetchone()
    assert rows == pytest.approx(2 * (480 + 22 * 12), rel=0.02)  # two hours of all, a day of one in five minutes
    series = history.series("main", "lag", "", last - 86_400_000, last)
    assert 200 < len(series) <= history_module.POINTS + 1
    assert series == sorted(series)
    assert history.series("main", "lag", "", last - 60_000, last)[-1][1] == 4 * 60 * 30 - 1
    monkeypatch.setattr(history_module, "MOST", 400)
    history.add("main", last + 15_000, {("lag", ""): 0.0})
    (rows,) = history._reader.execute("select count(*) from figure").fetchone()
    assert 0 < rows <= 400
    history.close()


def test_a_group_without_lag_has_zeros_in_its_series(tmp_path: Path) -> None:
    history = History(tmp_path / "history.sqlite", 7)
    for number, lag in enumerate([0.0, 7.0, 0.0]):
        values = {("lag", ""): lag} | ({("lag", "billing"): lag} if lag else {})
        history.add("main", NOON + number * 15_000, values)
    assert [value for _, value in history.series("main", "lag", "billing", NOON, NOON + 60_000)] == [0.0, 7.0, 0.0]
    assert history.series("main", "lag", "other", NOON, NOON + 60_000) == []
    history.close()


class Mailbox:
    """A mail server that keeps what it gets."""

    def __init__(self) -> None:
        self.mails: list[Mail] = []

    async def handle_DATA(self, _server: object, _session: object, envelope: Any) -> str:
        self.mails.append(message_from_bytes(envelope.content))
        return "250 OK"


@contextmanager
def webhook(statuses: list[int]) -> Iterator[tuple[str, list[Any]]]:
    """An HTTP server that answers with these codes, then 200."""
    got: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(statuses.pop(0) if statuses else 200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook/a-secret-token", got
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def notices(count: int) -> list[Notice]:
    return [Notice(Alarm("main", "lag", f"group-{number}", 5, NOON), "begins") for number in range(count)]


async def until(done: Any) -> None:
    async with asyncio.timeout(30):
        while not done():  # noqa: ASYNC110  (other threads do it)
            await asyncio.sleep(0.02)


async def test_a_flood_is_one_mail_and_one_post(tmp_path: Path) -> None:
    box = Mailbox()
    port = free_port()
    mail_server = Controller(box, hostname="127.0.0.1", port=port)
    mail_server.start()
    try:
        with webhook([]) as (url, got):
            mail = MailOptions("127.0.0.1", "console@example.org", ("ops@example.org",), port, "none")
            notifier = Notifier(ConfigFile(mail, WebhookOptions(url)), Env().clock)
            notifier.tell(notices(200))
            notifier.start()
            try:
                await until(lambda: box.mails and got)
                notifier.tell(notices(1))  # within the minute: it waits
            finally:
                await notifier.stop()
    finally:
        mail_server.stop()
    assert len(box.mails) == len(got) == 1
    content = box.mails[0].get_payload()
    assert isinstance(content, str)
    assert box.mails[0]["Subject"] == "Ariane: 200 alarms, 200 new, 0 over"
    assert "5 messages wait for the group group-0" in content
    assert "and 170 more" in content
    assert len(got[0]["alarms"]) == 200
    assert all(one.sent and not one.error for one in notifier.channels)


async def test_a_failed_post_is_sent_again_and_its_address_is_not_shown() -> None:
    with webhook([500, 302]) as (url, got):
        notifier = Notifier(ConfigFile(webhook=WebhookOptions(url, "feishu")), Env().clock, apart=0.05)
        notifier.tell(notices(1))
        notifier.start()
        try:
            await until(lambda: notifier.channels[0].error)
            assert "secret" not in notifier.channels[0].error + notifier.channels[0].where
            await until(lambda: notifier.channels[0].sent)
        finally:
            await notifier.stop()
    assert len(got) == 3
    assert "group-0" in got[2]["content"]["text"]


def test_webhooks_speak_the_forms_of_others() -> None:
    assert "group-0" in posted("dingtalk", notices(1))["text"]["content"]
    assert posted("json", notices(2))["alarms"][1]["name"] == "group-1"
    assert letter(notices(1))[1].startswith("[alarm] main: 5 messages wait for the group group-0 (2023-11-15 12:00:00")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[male]\n", "unknown section male"),
        ("[mail]\nserver='a'\nsender='b'\nto='c'\n", "mail.to has a value of the wrong kind"),
        ("[mail]\nserver='a'\n", "mail.sender is missing"),
        ("[webhook]\nurl='file:///etc/passwd'\n", "webhook.url"),
        ("[oidc]\nissuer='https://a'\nclient_id='b'\n", "nobody a role"),
        ("[schemas.orders]\nprotobuf='a.desc'\n", "needs avro, or protobuf with message"),
        ("mail = 1\n", "mail is a table"),
        ("[mail\n", "console.toml"),
    ],
)
def test_a_wrong_configuration_is_named(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "console.toml").write_text(text)
    with pytest.raises(ConfigError, match=problem):
        read_config(tmp_path)
