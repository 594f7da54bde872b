"""What the application layer promises, against our cluster and Apache's."""

import asyncio
from typing import Annotated, Any

import msgspec
import pytest

from ariane import ReceivedMessage, SendStatus, aio
from ariane.app import (
    Ariane,
    Context,
    DeadLetter,
    Depends,
    Envelope,
    Header,
    Retry,
    TransactionState,
)
from ariane.errors import ReplyTimeout
from ariane.message import dead_letter_topic
from tests.app.conftest import Site
from tests.app.payloads import Inbox, Invoice, Order, Parcel
from tests.peers import unique


async def test_payloads_of_every_kind_arrive_as_the_declared_type(site: Site, app: Ariane) -> None:
    sent: list[Any] = [
        "text", b"\x00bytes", {"a": [1, 2]}, Order(id=1, item="tea"), Parcel(2, 1.5), Invoice(3, 9.5), 42,
    ]  # fmt: skip
    inbox = Inbox()
    topics = [unique("kind") for _ in sent]
    async with aio.Admin(name_servers=site.name_servers) as admin:
        for topic in topics:
            await admin.create_topic(topic, queues=1)

    def listen(topic: str, kind: Any) -> None:
        async def got(payload: Any) -> None:
            inbox.put(payload)

        got.__annotations__["payload"] = kind
        app.listener(topic, group=unique("group"), name=topic)(got)

    for topic, payload in zip(topics, sent, strict=True):
        listen(topic, type(payload))
    async with app:
        for topic, payload in zip(topics, sent, strict=True):
            assert (await app.send(topic, payload)).status is SendStatus.SEND_OK
        received = await inbox.take(len(sent))
    assert sorted(map(repr, received)) == sorted(map(repr, sent))


async def test_a_plain_function_listens_in_threads_and_sends_through_sync(app: Ariane, topic: str, group: str) -> None:
    inbox = Inbox()

    @app.listener(topic, group=group, tags="new || old")
    def forward(order: Order, context: Context) -> None:
        if context.message.tags == "new":
            app.sync.send(f"{topic}:old", order)
        inbox.put((context.message.tags, order.id))

    async with app:
        await app.send(f"{topic}:other", Order(id=0, item="unseen"))
        await app.send(f"{topic}:new", Order(id=1, item="tea"))
        assert sorted(await inbox.take(2)) == [("new", 1), ("old", 1)]


async def test_keys_and_headers_travel_as_properties(app: Ariane, topic: str, group: str) -> None:
    inbox = Inbox()

    @app.listener(topic, group=group)
    async def got(
        message: ReceivedMessage,
        region: Annotated[str, Header("region")],
        count: Annotated[int, Header("count")],
        missing: Annotated[str, Header("missing")] = "none",
    ) -> None:
        inbox.put((message.keys, region, count, missing, message.properties["urgent"]))

    async with app:
        await app.send(topic, "x", keys=["a", "b"], headers={"region": "eu", "count": 3, "urgent": True})
        assert await inbox.take(1) == [(["a", "b"], "eu", 3, "none", "true")]


async def test_a_failed_message_comes_again_until_it_succeeds(app: Ariane, topic: str, group: str) -> None:
    inbox = Inbox()

    @app.listener(topic, group=group, retry_delay=1)
    async def moody(order: Order, context: Context) -> Retry | None:
        inbox.put(context.reconsume_times)
        if context.reconsume_times == 0:
            raise ValueError("bad day")
        return Retry(delay_level=1) if context.reconsume_times == 1 else None

    async with app:
        await app.send(topic, Order(id=1, item="tea"))
        assert await inbox.take(3) == [0, 1, 2]
    figures = moody.figures
    assert (figures.handled, figures.failed, figures.retried) == (1, 1, 2)


@pytest.mark.parametrize("orderly", [False, True])
async def test_dead_letters_are_reached_at_once(site: Site, app: Ariane, topic: str, group: str, orderly: bool) -> None:
    inbox = Inbox()

    @app.listener(topic, group=group, orderly=orderly)
    async def reject(order: Order) -> None:
        if order.id == 1:
            raise DeadLetter("no such item")
        inbox.put(order.id)

    async with app:
        await app.send(topic, Order(id=1, item="none"), hash_key="k")
        await app.send(topic, Order(id=2, item="tea"), hash_key="k")
        assert await inbox.take(1) == [2]
        [dead] = await dead_letters(site, group, 1)
    assert msgspec.json.decode(dead.body)["id"] == 1
    assert reject.figures.dead_lettered == 1


async def dead_letters(site: Site, group: str, count: int) -> list[ReceivedMessage]:
    """Read a group's dead letters, as an operator would."""
    found: list[ReceivedMessage] = []
    async with aio.PullClient(name_servers=site.name_servers) as reader, asyncio.timeout(60):
        while len(found) < count:
            try:
                queues = await reader.queues(dead_letter_topic(group))
                found = [m for queue in queues for m in await reader.pull_messages(queue, 0, suspend=0)]
            except Exception:
                await asyncio.sleep(0.1)
    return found


async def test_an_invalid_payload_goes_where_the_listener_says(site: Site, app: Ariane, topic: str, group: str) -> None:
    inbox = Inbox()

    @app.listener(topic, group=group, on_invalid="dead_letter")
    async def strict(order: Order) -> None:
        inbox.put(order.id)

    @app.listener(topic, group=unique("group"), on_invalid=lambda message, error: inbox.put((message.body, str(error))))
    def told(order: Order) -> None: ...

    async with app:
        await app.send(topic, {"id": "no number", "item": "tea"})
        [(body, error)] = await inbox.take(1)
        [dead] = await dead_letters(site, group, 1)
    assert dead.body == body
    assert "Order" in error
    assert "id: Input should be a valid integer" in error
    assert strict.figures.invalid == 1


async def test_equal_hash_keys_arrive_in_order(app: Ariane, topic: str, group: str) -> None:
    inbox = Inbox()

    @app.listener(topic, group=group, orderly=True)
    async def got(order: Order, context: Context) -> None:
        inbox.put((order.item, order.id, context.queue.queue_id))

    async with app:
        for number in range(10):
            for item in ("tea", "milk"):
                await app.send(topic, Order(id=number, item=item), hash_key=item)
        batch = [Order(id=number, item="tea") for number in range(10, 15)]
        await app.send_batch(topic, batch, hash_key="tea")
        received = await inbox.take(25)
    for item, count in (("tea", 15), ("milk", 10)):
        assert [number for of, number, _ in received if of == item] == list(range(count))
        assert len({queue for of, _, queue in received if of == item}) == 1


async def test_batches_of_envelopes_arrive_as_lists(app: Ariane, topic: str, group: str) -> None:
    inbox = Inbox()

    @app.listener(topic, group=group, batch=8, sql="n >= 5")
    async def got(orders: list[Order]) -> None:
        for order in orders:
            inbox.put(order.id)

    async with app:
        await app.send_batch(topic, [Envelope(Order(id=n, item="tea"), headers={"n": n}) for n in range(20)])
        assert sorted(await inbox.take(15)) == list(range(5, 20))


async def test_only_the_invalid_messages_of_a_batch_are_dead_letters(
    site: Site, app: Ariane, topic: str, group: str
) -> None:
    inbox = Inbox()

    @app.listener(topic, group=group, batch=8, on_invalid="dead_letter", filter=lambda m: m.body != b'"unwanted"')
    async def got(orders: list[Order]) -> None:
        for order in orders:
            inbox.put(order.id)

    good = [Order(id=n, item="tea") for n in range(6)]
    async with app:
        await app.send_batch(topic, [*good[:3], {"wrong": 1}, *good[3:], b'"unwanted"', {"wrong": 2}])
        assert sorted(await inbox.take(6)) == list(range(6))
        dead = await dead_letters(site, group, 2)
    assert sorted(message.body for message in dead) == [b'{"wrong":1}', b'{"wrong":2}']
    assert len(inbox.items) == 6


async def test_one_way_and_asynchronous_sends_arrive(app: Ariane, topic: str, group: str) -> None:
    inbox, results = Inbox(), Inbox()

    @app.listener(topic, group=group)
    async def got(text: str) -> None:
        inbox.put(text)

    async with app:
        await app.send_oneway(topic, "one way")
        await app.send_async(topic, "async", lambda result, error: results.put((result, error)))
        assert sorted(await inbox.take(2)) == ["async", "one way"]
        [(result, error)] = await results.take(1)
    assert error is None
    assert result.status is SendStatus.SEND_OK


async def test_a_request_is_answered_by_the_returned_value(app: Ariane, topic: str, group: str) -> None:
    @app.listener(topic, group=group, reply=True)
    def price(order: Order) -> Invoice:
        return Invoice(order.id, order.amount * 2.5)

    async with app:
        invoice = await app.request(topic, Order(id=7, item="tea", amount=2), Invoice, timeout=30)
        assert invoice == Invoice(7, 5.0)
        later = app.request_async(topic, Order(id=8, item="tea"), dict, timeout=30)
        assert (await later)["id"] == 8


async def test_a_request_without_replier_times_out(app: Ariane, topic: str) -> None:
    async with app:
        with pytest.raises(ReplyTimeout):
            await app.request(topic, "anybody?", str, timeout=0.2)


async def test_results_are_published_to_another_topic(app: Ariane, topic: str, group: str, site: Site) -> None:
    inbox, second = Inbox(), unique("second")
    async with aio.Admin(name_servers=site.name_servers) as admin:
        await admin.create_topic(second, queues=1)

    @app.publisher(f"{second}:made", keys="k")
    @app.listener(topic, group=group)
    async def make(order: Order) -> Invoice | None:
        return Invoice(order.id, 1.0) if order.id else None

    @app.listener(second, group=unique("group"), tags="made")
    async def got(invoice: Invoice, message: ReceivedMessage) -> None:
        inbox.put((invoice.id, message.keys))

    async with app:
        await app.send(topic, Order(id=0, item="nothing"))
        await app.send(topic, Order(id=5, item="tea"))
        assert await inbox.take(1) == [(5, ["k"])]


async def test_transactions_commit_roll_back_and_are_checked(app: Ariane, topic: str, group: str) -> None:
    inbox, checks = Inbox(), Inbox()

    @app.transaction_listener(unique("transactions"))
    class Orders:
        async def execute(self, order: Order, arg: str) -> TransactionState:
            return TransactionState[arg]

        def check(self, order: Order) -> TransactionState:
            checks.put(order.id)
            return TransactionState.COMMIT

    @app.listener(topic, group=group)
    async def got(order: Order) -> None:
        inbox.put(order.id)

    async with app:
        for number, fate in enumerate(["COMMIT", "ROLLBACK", "UNKNOWN"]):
            result = await app.send_in_transaction(topic, Order(id=number, item=fate), fate)
            assert result.state is TransactionState[fate]
        assert sorted(await inbox.take(2)) == [0, 2]
    assert set(checks.items) == {2}


async def test_a_restarted_idle_application_is_asked_for_its_half_messages(site: Site, topic: str, group: str) -> None:
    transactions = unique("transactions")

    def make(answer: TransactionState) -> Ariane:
        app = Ariane(unique("app"), name_servers=site.name_servers)

        @app.transaction_listener(transactions)
        async def place(order: Order) -> TransactionState:
            return TransactionState.UNKNOWN

        @place.check
        async def placed(order: Order) -> TransactionState:
            return answer

        return app

    async with make(TransactionState.UNKNOWN) as first:
        await first.send_in_transaction(topic, Order(id=3, item="tea"))
    others, inbox = Ariane(unique("app"), name_servers=site.name_servers, instance_name="others"), Inbox()

    @others.listener(topic, group=group, start_at="first")
    async def got(order: Order) -> None:
        inbox.put(order.id)

    async with others, make(TransactionState.COMMIT):  # it sends nothing and listens to nothing
        assert await inbox.take(1) == [3]


async def test_dependencies_are_opened_and_closed_for_each_message(app: Ariane, topic: str, group: str) -> None:
    inbox = Inbox()

    async def session(context: Context) -> Any:
        inbox.put("open")
        yield f"session of {context.message.topic}"
        inbox.put("closed")

    def text(session: Annotated[str, Depends(session)], order: Order) -> str:
        return f"{session}, order {order.id}"

    @app.listener(topic, group=group)
    async def got(
        order: Order, text: Annotated[str, Depends(text)], same: Annotated[str, Depends(session)], owner: Ariane
    ) -> None:
        inbox.put((text, same, owner is app))

    async with app:
        await app.send(topic, Order(id=4, item="tea"))
        expected = f"session of {topic}"
        assert await inbox.take(3) == ["open", (f"{expected}, order 4", expected, True), "closed"]


async def test_a_handler_under_way_finishes_when_the_application_stops(site: Site, topic: str, group: str) -> None:
    began, go_on, inbox = asyncio.Event(), asyncio.Event(), Inbox()

    def make() -> Ariane:
        app = Ariane(unique("app"), name_servers=site.name_servers, consumer={"start_at": "first"})

        @app.listener(topic, group=group)
        async def slow(text: str) -> None:
            began.set()
            await go_on.wait()
            inbox.put(text)

        return app

    app = make()
    await app.start()
    await app.send(topic, "first")
    await asyncio.wait_for(began.wait(), 60)
    stopping = asyncio.ensure_future(app.stop())
    await asyncio.sleep(0)
    assert not app.is_ready
    go_on.set()
    await stopping
    assert inbox.items == ["first"]
    async with make() as again:  # its offset was stored: the first message does not come again
        await again.send(topic, "second")
        assert await inbox.take(2) == ["first", "second"]


async def test_received_payloads_come_once(site: Site, topic: str, group: str) -> None:
    app = Ariane(
        unique("app"), name_servers=site.name_servers,
        pull_consumer={"group": group, "topic": topic, "start_at": "first"},
    )  # fmt: skip
    async with app:
        for number in range(3):
            await app.send(topic, Order(id=number, item="tea"))
        found: list[Order] = []
        async with asyncio.timeout(60):
            while len(found) < 3:
                found += await app.receive(Order, 1.0)
    assert sorted(order.id for order in found) == [0, 1, 2]


def test_plain_code_runs_the_application_in_a_thread(site: Site, ours: Any) -> None:
    app = Ariane(unique("app"), name_servers=site.name_servers)
    with aio_topic(site) as topic, app.sync as sync:
        assert sync.send(topic, "hello").status is SendStatus.SEND_OK
        assert len(sync.send_batch(topic, ["a", "b"])) == 1
        assert sync.send_async(topic, "later").result(60).status is SendStatus.SEND_OK
        sync.send_oneway(topic, "gone")


def aio_topic(site: Site) -> Any:
    from contextlib import contextmanager

    from ariane import Admin

    @contextmanager
    def made() -> Any:
        name = unique("topic")
        with Admin(name_servers=site.name_servers) as admin:
            admin.create_topic(name, queues=1)
        yield name

    return made()
