"""A real Spring Boot application (starter 2.2.3) and ours exchange messages, both ways, over both clusters."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ariane import Admin, ReceivedMessage
from ariane.app import Ariane, TransactionState
from tests.app.conftest import Site
from tests.app.payloads import Inbox, Invoice, Order
from tests.app.spring_program import SpringShop, build_spring
from tests.peers import unique
from tests.peers.build import PeersMissing

pytestmark = pytest.mark.slow  # it starts a JVM


@pytest.fixture(scope="session")
def spring_classes(request: pytest.FixtureRequest) -> str:
    try:
        return build_spring()
    except PeersMissing as missing:
        pytest.skip(str(missing))


@dataclass
class Meeting:
    """Both applications, and the topics where they meet."""

    spring: SpringShop
    app: Ariane
    topics: dict[str, str]
    kind: str

    async def call(self, op: str, to: str, number: int, item: str = "tea", **more: Any) -> Any:
        order = {"id": number, "item": item, "amount": 2}
        return await asyncio.to_thread(self.spring.call, op, to, order, **more)

    async def take(self, event: str) -> Any:
        return await asyncio.to_thread(self.spring.take, event)


@pytest.fixture
def meeting(site: Site, spring_classes: str, tmp_path: Path) -> Iterator[Meeting]:
    topics = {name: unique(name) for name in ("orders", "steps", "prices", "ours", "ourprices")}
    with Admin(name_servers=site.name_servers) as admin:
        for topic in topics.values():
            admin.create_topic(topic, queues=4)
    spring = SpringShop(spring_classes, tmp_path, site.name_servers, topics)
    app = Ariane(unique("app"), name_servers=site.name_servers, consumer={"start_at": "first"})
    yield Meeting(spring, app, topics, site.kind)
    spring.close()


async def test_spring_and_ours_exchange_messages_both_ways(meeting: Meeting) -> None:
    app, topics, inbox = meeting.app, meeting.topics, Inbox()

    @app.transaction_listener(unique("transactions"))
    async def place(order: Order, fate: str) -> TransactionState:
        return TransactionState[fate]

    @place.check
    async def placed(order: Order) -> TransactionState:
        return TransactionState.COMMIT

    @app.listener(topics["ours"], group=unique("group"), orderly=True)
    async def got(order: Order, message: ReceivedMessage) -> None:
        inbox.put((order, message))

    @app.listener(topics["ourprices"], group=unique("group"), reply=True)
    def price(order: Order) -> Invoice:
        return Invoice(order.id, order.amount * 3.5)

    async with app:
        await to_spring(meeting)
        await from_spring(meeting, inbox)


async def to_spring(meeting: Meeting) -> None:
    """Typed JSON by tag, keys and headers, order, transactions, request and reply."""
    app, topics = meeting.app, meeting.topics
    orders = topics["orders"]
    await app.send(f"{orders}:paid", Order(id=1, item="tea"), keys="k-1", headers={"region": "eu"})
    assert await meeting.take("order") == {"id": 1, "item": "tea", "amount": 1}
    properties = await meeting.take("raw")
    assert (properties["KEYS"], properties["region"], properties["TAGS"]) == ("k-1", "eu", "paid")
    for number in range(5):
        for item in ("a", "b"):
            await app.send(topics["steps"], Order(id=number, item=item), hash_key=item)
    steps = [await meeting.take("step") for _ in range(10)]
    for item in ("a", "b"):
        assert [step["id"] for step in steps if step["item"] == item] == [0, 1, 2, 3, 4]
    for number, fate in ((2, "ROLLBACK"), (3, "COMMIT"), (4, "UNKNOWN")):
        await app.send_in_transaction(f"{orders}:refunded", Order(id=number, item=fate), fate)
    assert [(await meeting.take("order"))["id"] for _ in range(2)] == [3, 4]
    invoice = await app.request(topics["prices"], Order(id=5, item="tea", amount=4), Invoice, timeout=30)
    assert invoice == Invoice(5, 10.0)


async def from_spring(meeting: Meeting, inbox: Inbox) -> None:
    """The same from the template of Spring."""
    ours = meeting.topics["ours"]
    assert await meeting.call("send", f"{ours}:new", 10) == "SEND_OK"
    [(order, message)] = await inbox.take(1)
    assert order == Order(id=10, item="tea", amount=2)
    assert (message.tags, message.keys, message.properties["region"]) == ("new", ["key-10"], "eu")
    assert await meeting.call("batch", ours, 11) == "SEND_OK"
    await inbox.take(4)
    await meeting.call("async", ours, 12)
    assert await meeting.take("async") == "SEND_OK"
    await meeting.call("oneway", ours, 13)
    assert await meeting.call("delay", ours, 14) == "SEND_OK"
    assert {order.id for order, _ in (await inbox.take(7))[4:]} == {12, 13, 14}
    queues = {await meeting.call("orderly", ours, number, "same") for number in range(20, 25)}
    assert len(queues) == 1
    assert [order.id for order, _ in (await inbox.take(12))[7:]] == list(range(20, 25))
    for number, fate in ((30, "ROLLBACK"), (31, "COMMIT"), (32, "UNKNOWN")):
        await meeting.call("transaction", ours, number, fate=fate)
    assert [order.id for order, _ in (await inbox.take(14))[12:]] == [31, 32]
    assert await meeting.call("request", meeting.topics["ourprices"], 40) == {"id": 40, "total": 7.0}
    if meeting.kind == "ariane":  # brokers of 4.9 deliver such a message at once
        before = time.time_ns() // 1_000_000
        assert await meeting.call("delaySeconds", ours, 41) == "SEND_OK"
        order, message = (await inbox.take(15))[14]
        assert (order.id, message.store_time - before >= 2000) == (41, True)
