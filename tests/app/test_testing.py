"""TestApp: listeners in memory, and the same test against a cluster in this process."""

import asyncio
from dataclasses import replace
from typing import Annotated, Any

import pytest

from ariane import ConsumeStatus, Delivery
from ariane.app import (
    AppError,
    Ariane,
    Context,
    DeadLetter,
    Depends,
    Header,
    Message,
    ReceivedMessage,
    Retry,
    SettingsError,
    TransactionState,
)
from ariane.errors import ReplyTimeout
from ariane.testing.app import TestApp
from ariane.testing.cluster import Cluster
from tests.app.payloads import Invoice, Order

TEA = Order(id=1, item="tea")


def shop() -> tuple[Ariane, Any]:
    app = Ariane("shop", consumer={"start_at": "first"})

    @app.listener("orders", group="stock", tags="paid || refunded")
    async def reserve(order: Order) -> None: ...

    return app, reserve


async def test_a_listener_is_called_before_send_returns() -> None:
    app, reserve = shop()
    async with TestApp(app) as test:
        await app.send("orders:paid", TEA)
        await app.send("orders:new", TEA)
        reserve.mock.assert_called_once_with(TEA)
        assert [message.tags for message in test.sent("orders")] == ["paid", "new"]
    with pytest.raises(AppError, match="inside `async with TestApp"):
        _ = reserve.mock


async def test_the_same_test_runs_against_a_cluster(ours: Cluster) -> None:
    app, reserve = shop()
    async with TestApp(app, cluster=ours) as test:
        await app.send("orders:paid", TEA)
        await test.handled(reserve)
        reserve.mock.assert_called_once_with(TEA)


async def test_tries_and_dead_letters_take_no_time() -> None:
    app = Ariane()
    tries = []

    @app.listener("orders", group="stock", max_retries=3)
    def moody(order: Order, context: Context) -> Retry | DeadLetter | None:
        tries.append((order.id, context.reconsume_times))
        if order.id == 1:
            raise ValueError("always")
        if order.id == 2:
            return DeadLetter("never")
        return Retry() if context.reconsume_times < 2 else None

    async with TestApp(app) as test:
        for number in (1, 2, 3):
            await app.send("orders", Order(id=number, item="x"))
        assert tries == [(1, 0), (1, 1), (1, 2), (1, 3), (2, 0), (3, 0), (3, 1), (3, 2)]
        assert [message.reconsume_times for message in test.dead_letters("stock")] == [3, 0]


async def test_sql_request_reply_batch_and_receive_work_in_memory() -> None:
    app = Ariane(pull_consumer={"group": "pull", "topic": "orders"})

    @app.listener("orders", group="large", sql="amount > 10")
    def large(message: ReceivedMessage) -> None: ...

    @app.listener("prices", group="prices", reply=True)
    async def price(order: Order) -> Invoice:
        return Invoice(order.id, 2.0)

    async with TestApp(app):
        await app.send("orders", TEA, headers={"amount": 11})
        await app.send_batch("orders", [TEA, TEA], headers={"amount": 9})
        assert large.mock.call_count == 1
        assert await app.request("prices", TEA, Invoice) == Invoice(1, 2.0)
        with pytest.raises(ReplyTimeout):
            await app.request("nobody", TEA, Invoice)
        assert await app.receive(Order) == [TEA, TEA, TEA]
        await app.send_oneway("orders", TEA)
        assert await app.send_async("orders", TEA)


async def test_transactions_work_in_memory() -> None:
    app = Ariane()
    answers = [TransactionState.UNKNOWN, TransactionState.COMMIT]

    @app.transaction_listener("tx")
    def place(order: Order, arg: object) -> TransactionState:
        if arg is None:
            raise ValueError("undecided")
        assert isinstance(arg, TransactionState)
        return arg

    @place.check
    async def placed(order: Order) -> TransactionState:
        return answers.pop(0)

    async with TestApp(app) as test:
        await app.send_in_transaction("orders", TEA, TransactionState.COMMIT)
        await app.send_in_transaction("orders", TEA, TransactionState.ROLLBACK)
        assert len(test.sent("orders")) == 1
        result = await app.send_in_transaction("orders", TEA)
        assert isinstance(result.error, ValueError)
        await test.check_transactions()
        assert len(test.sent("orders")) == 1
        await test.check_transactions()
        assert len(test.sent("orders")) == 2


async def test_middlewares_stand_around_in_the_order_of_registration() -> None:
    app = Ariane()
    steps: list[str] = []

    def named(name: str) -> Any:
        async def handle(context: Context, call_next: Any) -> Any:
            steps.append(f"{name} before")
            result = await call_next(context)
            steps.append(f"{name} after {result}")
            return result

        return handle

    @app.around_send
    async def stamp(message: Message, call_next: Any) -> Any:
        message.properties["stamp"] = "s"
        return await call_next(message)

    app.around_handle(named("outer"))
    app.around_handle(named("inner"))

    @app.listener("orders", group="g", middlewares=[named("own")], guarantee=named("guarantee"))
    def got(stamp: Annotated[str, Header("stamp")]) -> str:
        steps.append(stamp)
        return "done"

    async with TestApp(app):
        await app.send("orders", TEA)
        names = ["outer", "inner", "own", "guarantee"]
        before = [f"{name} before" for name in names]
        assert steps == [*before, "s", *[f"{name} after done" for name in reversed(names)]]
        steps.clear()
        await app.send_batch("orders", [TEA])
        await app.send_oneway("orders", TEA)
        assert steps.count("s") == 2


async def test_a_class_listens_and_prepares_its_consumer() -> None:
    app = Ariane()
    prepared = []

    @app.listener("orders", group="g")
    class Stock:
        def __init__(self) -> None:
            self.seen: list[int] = []

        def prepare_start(self, consumer: object) -> None:
            prepared.append(consumer)

        async def on_message(self, order: Order) -> None:
            self.seen.append(order.id)

    async with TestApp(app):
        await app.send("orders", TEA)
        Stock.mock.assert_called_once_with(TEA)
    assert len(prepared) == 1


async def test_hooks_run_around_listeners_and_a_failing_start_stops_what_was_started() -> None:
    app = Ariane()
    steps = []

    @app.on_start
    async def begin() -> None:
        steps.append((await app.send("orders", TEA)).status.name)

    @app.on_stop
    def end() -> None:
        steps.append("stopped")

    async with TestApp(app):
        assert app.is_ready
    assert steps == ["SEND_OK", "stopped"]

    @app.on_start
    def fail() -> None:
        raise ValueError("no database")

    with pytest.raises(ValueError, match="no database"):
        async with TestApp(app):
            pass
    assert steps == ["SEND_OK", "stopped", "SEND_OK", "stopped"]
    with pytest.raises(AppError, match="the application is not running"):
        await app.send("orders", TEA)


async def test_a_listener_is_still_the_function_that_it_was() -> None:
    app = Ariane()

    @app.listener("orders", group="g")
    def double(order: Order) -> int:
        return order.amount * 2

    assert double(Order(id=1, item="x", amount=4)) == 8


async def test_sync_calls_from_the_loop_are_an_error_not_a_deadlock() -> None:
    app = Ariane()
    async with TestApp(app):
        with pytest.raises(AppError, match="await the application's own method"):
            app.sync.send("orders", TEA)
        sent = await asyncio.to_thread(app.sync.send, "orders", TEA)
        assert sent.queue.topic == "orders"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda x: None, "has no type hint"),
        (lambda *x: None, "named one by one"),
    ],
)
def test_a_parameter_that_cannot_be_filled_is_an_error_at_the_decorator(make: Any, named: str) -> None:
    with pytest.raises(AppError, match=named):
        Ariane().listener("orders", group="g")(make)


def test_wrong_signatures_are_told_at_the_decorator() -> None:
    app = Ariane()

    def two(a: Order, b: Invoice) -> None: ...

    def outgoing(a: Message) -> None: ...

    def unknown(a: "Nowhere") -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def again(a: Annotated[str, Depends(lambda: again)]) -> None: ...

    def strange(a: asyncio.Lock) -> None: ...

    for function, named in [(two, "payload parameter already"), (outgoing, "ReceivedMessage"), (unknown, "Nowhere")]:
        with pytest.raises(AppError, match=named):
            app.listener("orders", group="g")(function)
    with pytest.raises(AppError, match="is no topic"):
        app.listener("orders:paid", group="g")(again)
    app.listener("orders", group="g")(strange)


async def test_a_type_that_is_no_payload_is_told_at_the_start() -> None:
    app = Ariane()

    @app.listener("orders", group="g")
    def strange(a: asyncio.Lock) -> None: ...

    with pytest.raises(AppError, match="Lock is no payload type"):
        async with TestApp(app):
            pass


async def test_a_message_that_could_not_be_decoded_is_an_invalid_payload() -> None:
    app, told = Ariane(), []

    @app.listener("orders", group="g", on_invalid=lambda message, error: told.append(str(error)))
    def got(body: bytes) -> None:
        told.append("handled")

    async with TestApp(app) as test:
        await app.send("orders", b"as it is")
        [message] = test.sent("orders")
        broken = replace(message, decode_error="not zlib")
        [handling] = [running.handling for running in app.running]
        assert handling.in_thread([broken], Delivery(message.queue)) is ConsumeStatus.CONSUME_SUCCESS
    assert told == ["handled", "the message is not as its sender wrote it: not zlib"]


async def test_mistakes_at_the_template_are_errors_at_the_call() -> None:
    app = Ariane()
    async with TestApp(app):
        for destination in ("", ":tag", "topic:"):
            with pytest.raises(AppError, match="is no destination"):
                await app.send(destination, "x")
        with pytest.raises(AppError, match="header 'h' is list"):
            await app.send("orders", "x", headers={"h": [1]})  # type: ignore[dict-item]
        with pytest.raises(AppError, match="cannot be written as JSON"):
            await app.send("orders", object())
        with pytest.raises(AppError, match="contradict each other"):
            await app.send("orders", "x", delay=1, deliver_at=1)
        with pytest.raises(AppError, match="no converter writes dict as 'text/xml'"):
            await app.send("orders", {}, content_type="text/xml")
        with pytest.raises(AppError, match="give it the payload"):
            await app.send("orders", Message("orders", b"x"))
        with pytest.raises(AppError, match="there is no transaction listener"):
            await app.send_in_transaction("orders", "x")
        with pytest.raises(AppError, match="leave timeout out"):
            await app.send_oneway("orders", "x", timeout=1)
        with pytest.raises(SettingsError, match=r"pull_consumer\.group"):
            await app.receive(str)
        assert await app.send_batch("orders", []) == []


async def test_a_converter_of_ones_own_is_chosen_by_type_and_content_type() -> None:
    class Reversed:
        content_type = "text/reversed"

        def takes(self, kind: Any) -> bool:
            return kind is str

        def encode(self, payload: Any) -> bytes:
            return bytes(reversed(payload.encode()))

        def decode(self, body: bytes, kind: Any) -> Any:
            return bytes(reversed(body)).decode()

    app = Ariane(converters=[Reversed()])

    @app.listener("words", group="g")
    def got(word: str) -> None: ...

    async with TestApp(app) as test:
        await app.send("words", "tea")
        await app.send("words", b"raw", content_type="text/plain")
        assert test.sent("words")[0].body == b"aet"
        assert [call.args[0] for call in got.mock.call_args_list] == ["tea", "raw"]


async def test_a_failing_callback_for_invalid_payloads_has_the_message_retried() -> None:
    app, tries = Ariane(), []

    def refuse(message: ReceivedMessage, error: Exception) -> None:
        tries.append(message.reconsume_times)
        if len(tries) < 3:
            raise OSError("no room for it")

    @app.listener("orders", group="plain", on_invalid=refuse)
    def plain(order: Order) -> None: ...

    async with TestApp(app) as test:
        await app.send("orders", "no order")
        assert tries == [0, 1, 2]
        assert test.dead_letters("plain") == []
    assert plain.figures.in_flight == 0
