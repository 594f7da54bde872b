"""Staging: the stub belongs to the user's transaction, and the message leaves after its commit."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from ariane import Admin, ReceivedMessage
from ariane.guarantee import ID_PROPERTY, Guarantee, GuaranteeError, StubStatus, aio
from ariane.guarantee.database import check_kind
from ariane.testing.cluster import Cluster
from tests.guarantee.bank import book, bookings
from tests.guarantee.conftest import Make, Site
from tests.peers import unique, until

PATIENCE = 60.0


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = unique("orders")
    cluster.create_topic(name, queues=1)
    return name


def sent(cluster: Cluster, topic: str, key: str) -> list[ReceivedMessage]:
    """What the broker has of a message, by its key."""
    with Admin(name_servers=cluster.name_servers) as admin:
        return admin.query_messages(topic, key)


def await_sends(guarantee: Guarantee, message_id: str, count: int) -> None:
    until(lambda: guarantee.inspect(message_id)[0].stub.count >= count, PATIENCE, f"{count} sends of {message_id}")


@dataclass
class Order:
    number: int
    items: list[str]


def test_a_staged_message_is_sent_after_the_commit(make: Make, cluster: Cluster, topic: str) -> None:
    guarantee = make(consumers={topic: "billing"}, name_servers=cluster.name_servers)
    with guarantee, Session(guarantee.engine) as session:
        book(session, "order 1")
        message_id = guarantee.stage(
            session, topic, Order(1, ["tea"]), tags="eu", keys=["o-1", "ann"], properties={"region": "eu"}
        )
        assert sent(cluster, topic, message_id) == []
        session.commit()
        await_sends(guarantee, message_id, 1)
    assert bookings(guarantee.engine) == ["order 1"]
    [message] = sent(cluster, topic, message_id)
    assert message.body == b'{"number":1,"items":["tea"]}'
    assert (message.tags, message.keys) == ("eu", ["o-1", "ann", message_id])
    assert message.properties[ID_PROPERTY] == message_id
    assert message.properties["region"] == "eu"
    [found] = guarantee.inspect(message_id)
    assert (found.stub.count, found.stub.status) == (1, StubStatus.UNCONFIRMED)
    assert found.stub.queue_offset == message.queue_offset
    assert (found.stub.broker_name, found.stub.queue_id) == ("broker-a", message.queue.queue_id)


def test_a_rolled_back_message_is_not_sent(make: Make, cluster: Cluster, topic: str) -> None:
    guarantee = make(consumers={topic: "billing"}, name_servers=cluster.name_servers)
    with guarantee, Session(guarantee.engine) as session:
        gone = guarantee.stage(session, topic, b"gone")
        session.rollback()
        with session.begin_nested() as savepoint:
            undone = guarantee.stage(session, topic, b"undone")
            savepoint.rollback()
        with session.begin_nested():
            kept = guarantee.stage(session, topic, b"kept")
        assert sent(cluster, topic, kept) == []  # a released savepoint is no commit
        session.commit()
        await_sends(guarantee, kept, 1)
    for message_id in (gone, undone):
        assert guarantee.inspect(message_id) == []
        assert sent(cluster, topic, message_id) == []


def test_a_savepoint_released_in_a_transaction_that_rolls_back_sends_nothing(
    make: Make, cluster: Cluster, topic: str
) -> None:
    guarantee = make(consumers={topic: "billing"}, name_servers=cluster.name_servers)
    with guarantee, Session(guarantee.engine) as session:
        with session.begin_nested():
            gone = guarantee.stage(session, topic, b"gone")
        session.rollback()
        kept = guarantee.stage(session, topic, b"kept")
        session.commit()
        await_sends(guarantee, kept, 1)
    assert sent(cluster, topic, gone) == []


def test_a_crash_between_commit_and_send_is_healed_by_a_resender(make: Make, cluster: Cluster, topic: str) -> None:
    crashed = make(consumers={topic: "billing"}, name_servers=cluster.name_servers, resend_after=0.001)
    with Session(crashed.engine) as session, session.begin():  # never started: the commit is all it came to
        message_id = crashed.stage(session, topic, b"paid")
    with make(name_servers=cluster.name_servers, resend=False, resend_after=3600) as resender:
        until(lambda: resender.resend_due().resent == 1, PATIENCE, "the message to be due")
        [message] = sent(cluster, topic, message_id)
        assert message.body == b"paid"
        assert resender.inspect(message_id)[0].stub.count == 1


def test_the_plain_form_writes_the_stub_and_then_sends(make: Make, cluster: Cluster, topic: str) -> None:
    with make(consumers={topic: "billing"}, name_servers=cluster.name_servers) as guarantee:
        message_id = guarantee.send(topic, "paid")
        [message] = sent(cluster, topic, message_id)
        assert message.body == b"paid"
        assert guarantee.inspect(message_id)[0].stub.count == 1


def test_a_message_that_no_broker_takes_is_kept_and_sent_later(make: Make, tmp_path: Any) -> None:
    with Cluster(tmp_path / "own") as cluster:
        cluster.create_topic("orders")
        with make(name_servers=cluster.name_servers, poll_interval=0.05, resend_after=0.05) as guarantee:
            cluster.stop_broker()
            message_id = guarantee.send("orders", b"paid")
            [found] = guarantee.inspect(message_id)
            assert found.stub.count == 0
            assert found.stub.last_error is not None
            cluster.start_broker()
            await_sends(guarantee, message_id, 1)


def test_a_message_that_every_broker_refuses_waits_for_a_person(make: Make, cluster: Cluster, topic: str) -> None:
    with make(consumers={topic: "billing"}, name_servers=cluster.name_servers) as guarantee:
        message_id = guarantee.send(topic, bytes(5 << 20))
        [waiting] = guarantee.stubs(attention=True)
        assert waiting.message_id == message_id
        assert waiting.attention is not None
        assert waiting.attention.startswith("cannot be sent: ")


def test_a_session_can_be_scoped_or_a_bare_connection(make: Make, cluster: Cluster, topic: str) -> None:
    with make(
        consumers={topic: "billing"}, name_servers=cluster.name_servers, resend_after=0.01, poll_interval=0.05
    ) as guarantee:
        scoped = scoped_session(sessionmaker(guarantee.engine))
        first = guarantee.stage(scoped, topic, b"scoped")
        scoped.commit()
        scoped.remove()
        with guarantee.engine.begin() as connection:
            second = guarantee.stage(connection, topic, b"connection")
        for message_id in (first, second):
            await_sends(guarantee, message_id, 1)


def test_an_id_of_the_users_own_is_taken_once(make: Make) -> None:
    guarantee = make()
    with Session(guarantee.engine) as session, session.begin():
        assert guarantee.stage(session, "orders", b"1", message_id="payment-42") == "payment-42"
        guarantee.stage(session, "orders", b"1", message_id="Payment-42")  # ids know upper and lower case
    with pytest.raises(IntegrityError), Session(guarantee.engine) as session, session.begin():
        guarantee.stage(session, "orders", b"2", message_id="payment-42")


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"topic": "unknown", "body": b""}, "consumers={'unknown': 'its-group'}"),
        ({"topic": "orders", "body": b"", "message_id": "a b"}, "no blank"),
        ({"topic": "orders", "body": b"", "message_id": "x" * 65}, "1 to 64"),
        ({"topic": "orders", "body": b"", "properties": {"DELAY": "3"}}, "stage it when it is due"),
        ({"topic": "orders", "body": b"", "properties": {"KEYS": "k"}}, "use tags=, keys="),
        ({"topic": "orders", "body": b"", "keys": "a b"}, "has no blanks"),
        ({"topic": "orders", "body": object()}, "encode it to bytes yourself"),
    ],
)
def test_what_cannot_be_kept_is_refused_before_the_commit(make: Make, arguments: dict[str, Any], told: str) -> None:
    guarantee = make()
    with Session(guarantee.engine) as session, pytest.raises(GuaranteeError, match=told):
        guarantee.stage(session, **arguments)


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
def test_sending_needs_a_start(make: Make) -> None:
    with pytest.raises(GuaranteeError, match="use it inside `with`"):
        make().send("orders", b"")
    with pytest.raises(GuaranteeError, match="not oracle"):
        check_kind("oracle")
    for memory in ("sqlite://", "sqlite:///:memory:"):
        with pytest.raises(GuaranteeError, match="name a file"):
            Guarantee(memory)
    with pytest.raises(GuaranteeError, match="aiosqlite"):
        aio.Guarantee("sqlite:///x.db")


async def test_sending_goes_on_after_the_database_was_away(
    site: Site, make: Make, cluster: Cluster, topic: str
) -> None:
    look = make()
    guarantee = aio.Guarantee(
        site.async_url, consumers={topic: "billing"}, name_servers=cluster.name_servers, resend=False
    )
    run, failed = guarantee._database.run, asyncio.Event()

    async def refused(work: Any) -> Any:
        guarantee._database.run = run  # type: ignore[method-assign]
        failed.set()
        raise ConnectionRefusedError  # drivers for asyncio raise it as it is

    async with guarantee, AsyncSession(guarantee.engine) as session:
        guarantee._database.run = refused  # type: ignore[method-assign]
        await guarantee.stage(session, topic, b"not recorded")
        await session.commit()
        await asyncio.wait_for(failed.wait(), PATIENCE)
        message_id = await guarantee.stage(session, topic, b"recorded")
        await session.commit()
        await asyncio.to_thread(await_sends, look, message_id, 1)


async def test_an_async_session_stages_too(site: Site, make: Make, cluster: Cluster, topic: str) -> None:
    look = make()
    consumers = {topic: "billing"}
    async with aio.Guarantee(site.async_url, consumers=consumers, name_servers=cluster.name_servers) as guarantee:
        async with AsyncSession(guarantee.engine) as session:
            gone = await guarantee.stage(session, topic, b"gone")
            await session.rollback()
            message_id = await guarantee.stage(session, topic, {"id": 1})
            await session.commit()
        await asyncio.to_thread(await_sends, look, message_id, 1)
        plain = await guarantee.send(topic, b"plain")
        assert (await guarantee.inspect(plain))[0].stub.count == 1
        assert await guarantee.inspect(gone) == []
        assert {stub.message_id for stub in await guarantee.stubs()} == {message_id, plain}
        await guarantee.void(plain, who="ann", reason="test")
        assert (await guarantee.stubs(status=StubStatus.VOID))[0].message_id == plain
        await guarantee.resend(message_id, who="ann", reason="test")
        assert (await guarantee.resend_due()).resent + (await guarantee.inspect(message_id))[0].stub.count >= 1
    assert sent(cluster, topic, gone) == []
