"""Traces that Apache's own tool shows, and hooks."""

from typing import Any

import pytest

from ariane import ConsumeFrom, Message, SendStatus, TransactionState, aio
from ariane.client.observe.hooks import ConsumeContext, SendContext, SendMode
from ariane.client.producer.producer import Producer
from ariane.errors import SendForbidden
from ariane.protocol.command import Command
from tests.client.inbox import Inbox, eventually
from tests.client.test_transactions import Ledger
from tests.peers import Driver, unique
from tests.peers import aio as peer

FIRST = ConsumeFrom.FIRST


async def shown(java: Driver, ns: str, message_id: str, *words: str, trace_topic: str | None = None) -> str:
    """What `mqadmin queryMsgTraceById` prints, once it has all these words."""
    more = ["-t", trace_topic] if trace_topic else []
    text = ""

    async def all_there() -> bool:
        nonlocal text
        text = await peer(java).mqadmin("queryMsgTraceById", "-n", ns, "-i", message_id, *more)
        return all(word in text for word in words)

    await eventually(all_there, f"a trace with {words}")
    return text


async def test_mqadmin_shows_who_sent_and_who_consumed(ns: str, topic: str, group: str, java: Driver) -> None:
    producers = unique("producers")
    inbox = Inbox()
    async with aio.Producer(producers, name_servers=ns, trace=True) as producer:
        sent = await producer.send(Message(topic, b"traced", tags="T", keys="k"))
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST, trace=True):
        await inbox.arrived(1)
    text = await shown(java, ns, sent.message_id, producers, group)
    assert text.count("success") >= 2


async def test_a_trace_topic_of_ones_own_and_transactions(ns: str, topic: str, java: Driver) -> None:
    trace_topic, producers = unique("traces"), unique("tx")
    options = {"name_servers": ns, "trace": True, "trace_topic": trace_topic}
    ledger = Ledger({b"x": TransactionState.COMMIT})
    async with aio.TransactionProducer(producers, ledger, **options) as producer:
        result = await producer.send_in_transaction(Message(topic, b"x"))
    await shown(java, ns, result.send.message_id, producers, trace_topic=trace_topic)


class Watcher:
    """Every hook there is."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def before_send(self, context: SendContext) -> None:
        self.seen.append(("before send", context.message.body, context.mode))
        raise ValueError("a hook that fails changes nothing")

    def after_send(self, context: SendContext) -> None:
        assert context.result is not None
        self.seen.append(("after send", context.result.status))

    def before_consume(self, context: ConsumeContext) -> None:
        self.seen.append(("before consume", [m.body for m in context.messages]))

    def after_consume(self, context: ConsumeContext) -> None:
        self.seen.append(("after consume", context.status, context.success, context.returned))

    def check_forbidden(self, context: SendContext) -> None:
        if context.message.body == b"secret":
            raise SendForbidden("secrets stay here")

    def before_request(self, peer: str, command: Command) -> None:
        self.seen.append(("request", command.code))

    def after_response(self, peer: str, request: Command, response: Command) -> None:
        self.seen.append(("response", request.code, response.code))


async def test_hooks_see_sends_and_consumptions(ns: str, topic: str, group: str) -> None:
    watcher, inbox = Watcher(), Inbox()
    hooks = {"send_hooks": [watcher], "forbid_hooks": [watcher]}
    async with (
        aio.Producer(unique("p"), name_servers=ns, **hooks) as producer,
        aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST, consume_hooks=[watcher]),
    ):
        await producer.send(Message(topic, b"x"))
        with pytest.raises(SendForbidden, match="secrets stay"):
            await producer.send(Message(topic, b"secret"))
        await eventually(lambda: len(watcher.seen) >= 4, "the hooks")
    assert [entry for entry in watcher.seen if "send" in entry[0]] == [
        ("before send", b"x", SendMode.SYNC),
        ("after send", SendStatus.SEND_OK),
    ]
    assert [entry for entry in watcher.seen if "consume" in entry[0]] == [
        ("before consume", [b"x"]),
        ("after consume", "CONSUME_SUCCESS", True, "SUCCESS"),
    ]


async def test_hooks_see_every_request(ns: str, topic: str) -> None:
    watcher = Watcher()
    async with aio.Producer(unique("p"), name_servers=ns, rpc_hooks=[watcher]) as producer:
        await producer.send(Message(topic, b"x"))
    assert ("request", 105) in watcher.seen
    assert ("response", 310, 0) in watcher.seen


async def test_brokers_may_ask_a_consumer_about_itself(
    ns: str, topic: str, group: str, producer: Producer, java: Driver
) -> None:
    inbox = Inbox()
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=FIRST) as consumer:
        sent = await producer.send(Message(topic, b"x"))
        await inbox.arrived(1)
        async with await peer(java).admin(ns) as admin:
            info = await admin.invoke("getConsumerRunningInfo", group, consumer.client_id, True)
            assert info["properties"]["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
            assert len(info["mqTable"]) == 5
            assert "ariane" in info["jstack"]
            result = await admin.invoke("consumeMessageDirectly", group, consumer.client_id, topic, sent.message_id)
            assert result["consumeResult"] == "CR_SUCCESS"
            await inbox.arrived(2)
            status = await admin.invoke("getConsumeStatus", topic, group, consumer.client_id)
            assert consumer.client_id in str(status)
        text = await peer(java).mqadmin("consumerStatus", "-n", ns, "-g", group, "-i", consumer.client_id)
        assert "#Consumer Subscription#" in text
        assert topic in text
