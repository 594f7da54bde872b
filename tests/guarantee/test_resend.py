"""Resending: the five conditions, many resenders, and the person at the end."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from email.message import Message as Mailed
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.handlers import Message as MailHandler
from sqlalchemy import update
from sqlalchemy.orm import Session

from ariane import Admin, MessageQueue
from ariane.env import ManualClock
from ariane.guarantee import Guarantee, GuaranteeError, Mail, Notice, StubStatus
from ariane.guarantee import log as message_log
from ariane.guarantee.tables import message_stub
from ariane.testing.cluster import Cluster
from tests.guarantee.conftest import Make
from tests.guarantee.deliveries import delivery
from tests.peers import free_port, unique

HOUR = 3600.0


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = unique("orders")
    cluster.create_topic(name, queues=1)
    return name


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def group() -> str:
    return unique("billing")


@pytest.fixture
def guarantee(make: Make, cluster: Cluster, topic: str, group: str, clock: ManualClock) -> Guarantee:
    """Started, without a resender of its own: the tests make the passes."""
    return make(
        consumers={topic: group}, name_servers=cluster.name_servers, clock=clock, resend=False, max_sends=3
    ).start()


def consume_past(cluster: Cluster, guarantee: Guarantee, message_id: str) -> None:
    """Let the group's offset pass the message, as if a consumer had lost it."""
    stub = guarantee.inspect(message_id)[0].stub
    assert stub.broker_name is not None
    assert stub.queue_id is not None
    assert stub.queue_offset is not None
    with Admin(name_servers=cluster.name_servers) as admin:
        queue = MessageQueue(stub.topic, stub.broker_name, stub.queue_id)
        admin.commit(stub.consumer_group, queue, stub.queue_offset + 1)
        assert admin.committed(stub.consumer_group, queue) == stub.queue_offset + 1


def test_a_message_that_its_group_has_passed_and_not_logged_is_resent_alike(
    guarantee: Guarantee, cluster: Cluster, topic: str, clock: ManualClock
) -> None:
    message_id = guarantee.send(topic, b"paid", tags="eu", keys="o-1", properties={"region": "eu"})
    consume_past(cluster, guarantee, message_id)
    before = guarantee.inspect(message_id)[0].stub
    clock.advance(61)
    assert guarantee.resend_due().resent == 1
    after = guarantee.inspect(message_id)[0].stub
    assert after.count == before.count + 1
    assert after.queue_offset == (before.queue_offset or 0) + 1
    assert after.resend_time == clock.now_ms() + 120_000  # twice the first interval
    with Admin(name_servers=cluster.name_servers) as admin:
        first, second = admin.query_messages(topic, message_id)
    for one in (first, second):
        assert (one.body, one.tags, one.keys) == (b"paid", "eu", ["o-1", message_id])
        assert one.properties["region"] == "eu"


def test_a_confirmed_or_void_message_is_not_resent(
    guarantee: Guarantee, cluster: Cluster, topic: str, clock: ManualClock
) -> None:
    done, void = guarantee.send(topic, b"1"), guarantee.send(topic, b"2")
    for message_id in (done, void):
        consume_past(cluster, guarantee, message_id)
    guarantee.process(delivery(done, topic=topic), lambda message: None)
    guarantee.void(void, who="ann", reason="sent by mistake")
    clock.advance(HOUR)
    assert guarantee.resend_due().claimed == 0


def test_a_message_that_is_not_due_is_not_resent(guarantee: Guarantee, cluster: Cluster, topic: str) -> None:
    consume_past(cluster, guarantee, guarantee.send(topic, b"paid"))
    assert guarantee.resend_due().claimed == 0


def test_a_backlog_is_not_resent(guarantee: Guarantee, topic: str, clock: ManualClock) -> None:
    message_id = guarantee.send(topic, b"paid")
    for _ in range(5):
        clock.advance(HOUR)
        done = guarantee.resend_due()
        assert (done.claimed, done.backlog, done.resent, done.marked) == (1, 1, 0, 0)
    assert guarantee.inspect(message_id)[0].stub.count == 1


def test_a_received_message_is_not_resent_until_its_log_is_stale(
    guarantee: Guarantee, cluster: Cluster, topic: str, clock: ManualClock
) -> None:
    message_id = guarantee.send(topic, b"paid")
    consume_past(cluster, guarantee, message_id)

    def fail(message: Any) -> None:
        raise ValueError("no money")

    guarantee.process(delivery(message_id, topic=topic), fail)
    clock.advance(HOUR)
    assert guarantee.resend_due().received == 1
    clock.advance(3 * HOUR)  # longer than any retry takes: the broker has lost it since
    assert guarantee.resend_due().resent == 1


def test_a_message_whose_queue_lost_its_data_is_resent(guarantee: Guarantee, topic: str, clock: ManualClock) -> None:
    message_id = guarantee.send(topic, b"paid")
    with guarantee.engine.begin() as connection:  # the queue had more messages before its files were deleted
        connection.execute(update(message_stub).values(queue_offset=500))
    clock.advance(61)
    assert guarantee.resend_due().resent == 1
    assert guarantee.inspect(message_id)[0].stub.count == 2


def test_a_message_waits_while_its_broker_does_not_answer(make: Make, clock: ManualClock, tmp_path: Any) -> None:
    with Cluster(tmp_path / "own") as cluster:
        cluster.create_topic("orders")
        with make(name_servers=cluster.name_servers, clock=clock, resend=False) as guarantee:
            message_id = guarantee.send("orders", b"paid")
            cluster.stop_broker()
            clock.advance(61)
            assert guarantee.resend_due().unreachable == 1
            assert guarantee.inspect(message_id)[0].stub.count == 1


def test_each_due_stub_is_claimed_by_one_resender(
    make: Make, cluster: Cluster, topic: str, group: str, clock: ManualClock
) -> None:
    options = {"consumers": {topic: group}, "name_servers": cluster.name_servers, "clock": clock, "resend": False}
    makers = [make(**options, batch=7).start() for _ in range(4)]
    with Session(makers[0].engine) as session, session.begin():
        ids = [make(**options).stage(session, topic, str(number)) for number in range(60)]  # by nobody who sends
    clock.advance(61)
    resent = []
    lock = threading.Lock()

    def drain(resender: Guarantee) -> None:
        while (done := resender.resend_due()).claimed:
            with lock:
                resent.append(done.resent)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(drain, makers))
    assert sum(resent) == len(ids)
    assert {makers[0].inspect(message_id)[0].stub.count for message_id in ids} == {1}
    with Admin(name_servers=cluster.name_servers) as admin:
        assert sum(admin.max_offset(queue) for queue in admin.queues(topic)) == len(ids)


def test_a_resender_that_dies_with_its_claim_is_replaced_when_the_claim_ends(
    guarantee: Guarantee, cluster: Cluster, topic: str, clock: ManualClock
) -> None:
    consume_past(cluster, guarantee, guarantee.send(topic, b"paid"))
    clock.advance(61)
    resender = guarantee._service.resender  # type: ignore[union-attr]
    with guarantee.engine.begin() as connection:
        assert len(resender._claim_due(connection)) == 1
    assert guarantee.resend_due().claimed == 0
    clock.advance(61)
    assert guarantee.resend_due().resent == 1


class Mailbox(MailHandler):
    def __init__(self) -> None:
        super().__init__()
        self.mails: list[Mailed] = []

    def handle_message(self, message: Mailed) -> None:
        self.mails.append(message)


@pytest.fixture
def mailbox() -> Iterator[tuple[Mailbox, int]]:
    box = Mailbox()
    controller = Controller(box, hostname="127.0.0.1", port=free_port())
    controller.start()
    yield box, controller.port
    controller.stop()


def test_over_the_limit_a_person_is_told_once_by_mail_and_by_a_hook(
    make: Make, cluster: Cluster, topic: str, group: str, clock: ManualClock, mailbox: tuple[Mailbox, int]
) -> None:
    box, port = mailbox
    hooked: list[Notice] = []
    mail = Mail(host="127.0.0.1", port=port, sender="mq@example.com", to=["ops@example.com", "boss@example.com"])
    guarantee = make(
        consumers={topic: group}, name_servers=cluster.name_servers, clock=clock, resend=False, max_sends=3,
        notify=[mail, hooked.append],
    ).start()  # fmt: skip
    message_id = guarantee.send(topic, b"paid")
    for sends in (1, 2, 3):
        assert guarantee.inspect(message_id)[0].stub.count == sends
        consume_past(cluster, guarantee, message_id)
        clock.advance(HOUR)
        guarantee.resend_due()
    for _ in range(3):
        clock.advance(HOUR)
        guarantee.resend_due()
    [waiting] = guarantee.stubs(attention=True)
    assert waiting.count == 3
    assert waiting.attention == f"sent 3 times and never confirmed by group {group}"
    assert waiting.notified is not None
    [notice] = hooked
    assert [stub.message_id for stub in notice.stubs] == [message_id]
    [received] = box.mails
    assert received["To"] == "ops@example.com, boss@example.com"
    assert message_id in received["Subject"]
    assert f"ariane guarantee {'show'} ID" in str(received.get_payload())
    assert message_id in str(received.get_payload())

    assert guarantee.resend(message_id, who="ann", reason="the consumer is mended") == [group]
    done = guarantee.resend_due()
    assert done.resent == 1
    [found] = guarantee.inspect(message_id)
    assert found.stub.attention is None
    assert [(d.action, d.who, d.reason) for d in found.decisions] == [("resend", "ann", "the consumer is mended")]


def test_a_person_is_told_later_when_the_mail_server_is_away(
    make: Make, cluster: Cluster, topic: str, group: str, clock: ManualClock
) -> None:
    told: list[Notice] = []
    fail = threading.Event()
    fail.set()

    async def hook(notice: Notice) -> None:
        if fail.is_set():
            raise OSError("no route to the pager")
        told.append(notice)

    guarantee = make(
        consumers={topic: group}, name_servers=cluster.name_servers, clock=clock, resend=False,
        notify=[hook, Mail(host="127.0.0.1", port=free_port(), sender="a@example.com", to=["b@example.com"])],
    ).start()  # fmt: skip
    guarantee.send(topic, bytes(5 << 20))
    assert guarantee.resend_due().notified == 0
    fail.clear()
    assert guarantee.resend_due().notified == 0  # the claim of the failed try still holds
    clock.advance(61)
    assert guarantee.resend_due().notified == 1
    clock.advance(61)
    assert guarantee.resend_due().notified == 0
    assert len(told) == 1


def test_a_message_done_in_the_end_needs_no_person(guarantee: Guarantee, topic: str, clock: ManualClock) -> None:
    message_id = guarantee.send(topic, bytes(5 << 20))
    guarantee.process(delivery(message_id, topic=topic), lambda message: None)
    assert guarantee.stubs(attention=True) == []
    assert guarantee.resend_due().notified == 0


def test_decisions_need_a_name_and_a_reason_and_an_open_stub(guarantee: Guarantee, topic: str) -> None:
    message_id = guarantee.send(topic, b"paid")
    with pytest.raises(GuaranteeError, match="say who decides and why"):
        guarantee.void(message_id, who=" ", reason="because")
    with pytest.raises(GuaranteeError, match="no stub"):
        guarantee.resend("unknown", who="ann", reason="because")
    guarantee.void(message_id, who="ann", reason="because")
    with pytest.raises(GuaranteeError, match="settled already"):
        guarantee.resend(message_id, who="ann", reason="because")
    [found] = guarantee.inspect(message_id)
    assert found.stub.status is StubStatus.VOID
    assert len(found.decisions) == 1


def test_the_log_says_where_a_message_was_received(guarantee: Guarantee, topic: str, group: str) -> None:
    message_id = guarantee.send(topic, b"paid")
    for offset in (7, 9):
        with guarantee.engine.begin() as connection:
            message_log.write(connection, message_id, group, "broker-a", 2, offset, 1000 + offset)
    [found] = guarantee.inspect(message_id, group=group)
    assert found.received is not None
    assert (found.received.queue_id, found.received.queue_offset, found.received.received) == (2, 9, 1009)
