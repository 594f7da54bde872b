"""Request and reply, against our broker and Apache's."""

import pytest

from ariane import ConsumeFrom, ConsumeStatus, Message, ReceivedMessage, aio
from ariane.client.producer.producer import Producer
from ariane.errors import ClientError, ReplyTimeout
from tests.client.inbox import OK


async def test_a_request_gets_the_reply_of_a_consumer(ns: str, topic: str, producer: Producer, group: str) -> None:
    async def answer(messages: list[ReceivedMessage]) -> ConsumeStatus:
        for message in messages:
            await producer.reply(message, message.body.upper())
        return OK

    async with aio.PushConsumer(group, topic, answer, name_servers=ns, consume_from=ConsumeFrom.FIRST):
        replies = [await producer.request(Message(topic, word), timeout=20) for word in (b"ping", b"pong")]
    assert [reply.body for reply in replies] == [b"PING", b"PONG"]


async def test_without_a_replier_the_request_times_out(topic: str, producer: Producer) -> None:
    with pytest.raises(ReplyTimeout, match="no consumer replied"):
        await producer.request(Message(topic, b"anybody?"), timeout=0.2)


async def test_only_requests_can_be_replied_to(ns: str, topic: str, producer: Producer) -> None:
    sent = await producer.send(Message(topic, b"no request"))
    async with aio.PullClient(name_servers=ns) as reader:
        [message] = await reader.pull_messages(sent.queue, sent.queue_offset, suspend=10)
    with pytest.raises(ClientError, match="is not a request"):
        await producer.reply(message, b"?")
