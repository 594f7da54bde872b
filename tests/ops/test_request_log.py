"""Who changed what, and which requests were slow."""

import asyncio
import logging
from typing import Any

import pytest

from ariane.access.gate import Level
from ariane.broker.acl.table import broker_rules
from ariane.broker.changes import CHANGES
from ariane.env import Env, ManualClock
from ariane.errors import ResponseError
from ariane.ops.request_log import RequestLog, code_name
from ariane.protocol.bodies import SubscriptionGroupConfig
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from tests.broker.operating import ok
from tests.broker.talk import Talk, settled


@pytest.fixture(autouse=True)
def _info(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "ariane")


def lines(caplog: pytest.LogCaptureFixture, name: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == name]


def test_every_request_that_only_administrators_may_send_and_that_changes_something_is_logged() -> None:
    reading = ("GET_", "VIEW_", "QUERY_", "REGISTER_FILTER_SERVER")  # the last comes every ten seconds
    admin = {code for code, rule in broker_rules().items() if rule.level is Level.ADMIN}
    assert {code_name(code) for code in admin - CHANGES if not code_name(code).startswith(reading)} == set()
    assert broker_rules().keys() >= CHANGES


async def test_a_change_is_logged_with_who_asked_for_what_and_how_it_ended(
    talk_to: Any, caplog: pytest.LogCaptureFixture
) -> None:
    talk: Talk = await talk_to()
    await ok(talk, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=SubscriptionGroupConfig("g").encode())
    await ok(
        talk, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders", "AccessKey": "alice", "Signature": "c2VjcmV0"}
    )
    await talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"listenPort=1")
    await ok(talk, RequestCode.UPDATE_BROKER_CONFIG, body=b"traceOn=false")
    group, topic, refused, done = lines(caplog, "ariane.admin")
    assert "asked for UPDATE_AND_CREATE_SUBSCRIPTIONGROUP" in group
    assert topic.startswith("127.0.0.1:")
    assert topic.endswith(" as alice asked for DELETE_TOPIC_IN_BROKER topic=orders: done")
    assert "configuration=listenPort=1: refused with code 1: the configuration is not changed" in refused
    assert done.endswith("configuration=traceOn=false: done")
    assert "c2VjcmV0" not in caplog.text
    [record] = [r for r in caplog.records if r.getMessage() == topic]
    assert record.__dict__["fields"]["account"] == "alice"
    assert record.__dict__["fields"]["arguments"] == {"topic": "orders"}


async def test_secrets_are_not_logged(talk_to: Any, caplog: pytest.LogCaptureFixture) -> None:
    talk: Talk = await talk_to()
    fields = {"accessKey": "somebody", "secretKey": "very-secret", "SecurityToken": "token-secret"}
    await talk.ask(RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, fields)
    [line] = lines(caplog, "ariane.admin")
    assert "accessKey=somebody" in line
    for option in (b"brokerSecretKey=", b"haKey ", b"tls.server.keyPassword: ", b"otlpHeaders = Authorization="):
        answer = await talk.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"traceOn=true\n" + option + b"very-secret")
        assert "very-secret" not in (answer.remark or "")
    assert "traceOn=true" in caplog.text
    assert "very-secret" not in caplog.text
    assert "token-secret" not in caplog.text


async def test_reading_and_messages_are_not_logged(talk_to: Any, caplog: pytest.LogCaptureFixture) -> None:
    talk: Talk = await talk_to()
    for number in range(200):
        await talk.send_ok("orders")
        await talk.pull("orders")
        await talk.heartbeat("workers", {"orders": "*"}, producer="shop")
        await ok(talk, RequestCode.GET_BROKER_RUNTIME_INFO)
        if not number:
            caplog.clear()  # topics and groups that are new
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_broker_at_rest_writes_nothing(talk_to: Any, caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    talk: Talk = await talk_to(env=Env(clock=clock), metricsExporterType="PROM", metricsPromExporterPort=0)
    await talk.send_ok("orders")
    await talk.pass_time(clock, 65)
    caplog.clear()  # the first round of checks made a topic
    await talk.pass_time(clock, 90)
    assert [record.getMessage() for record in caplog.records] == []


class Peer:
    peer = "127.0.0.1:1"


def watch(clock: ManualClock, handler: Any, slow_after_ms: int = 1000) -> tuple[RequestLog, Any]:
    log = RequestLog(clock, slow_after_ms)
    return log, log.watched({RequestCode.QUERY_MESSAGE: handler}, changing=(), unwatched=())[RequestCode.QUERY_MESSAGE]


async def test_slow_requests_are_logged_also_when_they_end_later_or_fail(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    request = Command(RequestCode.QUERY_MESSAGE)

    def slow(_: Any, request: Command) -> Command:
        clock.advance(1.5)
        return request.reply()

    async def later(_: Any, request: Command) -> Command:
        await clock.sleep(2)
        return request.reply()

    def failing(_: Any, request: Command) -> Command:
        clock.advance(3)
        raise ResponseError(1, "no")

    log, watched = watch(clock, slow)
    watched(Peer, request)
    _, watched = watch(clock, later)
    waiting = asyncio.ensure_future(watched(Peer, request))
    await settled(lambda: clock.sleepers)
    clock.advance(2)
    await waiting
    _, watched = watch(clock, failing)
    with pytest.raises(ResponseError):
        watched(Peer, request)
    assert [line.rpartition(" took ")[2] for line in lines(caplog, "ariane.slow")] == ["1500 ms", "2000 ms", "3000 ms"]
    assert log.slow == 1


def test_no_request_is_slow_without_a_threshold(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log, watched = watch(clock, lambda _, request: (clock.advance(100), request.reply())[1], slow_after_ms=0)
    watched(Peer, Command(RequestCode.QUERY_MESSAGE))
    assert (log.slow, lines(caplog, "ariane.slow")) == (0, [])


def test_slow_requests_fill_no_disk(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    log, watched = watch(clock, lambda _, request: (clock.advance(0.002), request.reply())[1], slow_after_ms=1)
    for _ in range(1000):
        watched(Peer, Command(RequestCode.QUERY_MESSAGE))
    assert log.slow == 1000
    assert len(lines(caplog, "ariane.slow")) <= 21


async def test_slow_sends_are_logged_and_counted(talk_to: Any, caplog: pytest.LogCaptureFixture) -> None:
    talk: Talk = await talk_to()
    talk.broker.cycle.record(1.2, 3)
    assert lines(caplog, "ariane.slow") == ["3 sends took 1200 ms"]
    assert talk.broker.requests.slow == 3
    await ok(talk, RequestCode.UPDATE_BROKER_CONFIG, body=b"slowRequestThreshold=5000")
    talk.broker.cycle.record(1.2, 3)
    assert talk.broker.requests.slow == 3
