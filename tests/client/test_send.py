"""Every way to send, against our broker and Apache's."""

import asyncio
import zlib

import pytest

from ariane import Compression, Message, MessageQueue, ReceivedMessage, SendStatus, aio
from ariane.client.admin import Admin
from ariane.client.producer.producer import Producer
from ariane.client.producer.queue_choice import by_hash
from ariane.errors import BrokerRefused, ClientError, InvalidMessage, NotRunning, RouteMissing
from ariane.protocol.units import COMPRESSED, decode_units
from tests.client.inbox import eventually
from tests.peers import unique


async def stored(ns: str, topic: str) -> list[bytes]:
    """The bodies in a topic."""
    async with aio.PullClient(name_servers=ns) as reader:
        queues = await reader.queues(topic)
        return [m.body for queue in queues for m in await reader.pull_messages(queue, 0, 32)]


async def test_a_sent_message_is_stored_with_all_it_has(ns: str, topic: str, producer: Producer, admin: Admin) -> None:
    message = Message(topic, b"\x00paid", tags="TagA", keys=["o-1", "o-2"], properties={"region": "eu"}, flag=7)
    sent = await producer.send(message)
    assert sent.status is SendStatus.SEND_OK
    assert len(sent.message_id) == 32
    assert sent.message_ids == (sent.message_id,)
    found = await admin.view_message(sent.offset_id)
    assert (found.body, found.tags, found.keys, found.flag) == (b"\x00paid", "TagA", ["o-1", "o-2"], 7)
    assert (found.properties["region"], found.message_id) == ("eu", sent.message_id)
    assert (found.queue_offset, found.queue.queue_id) == (sent.queue_offset, sent.queue.queue_id)
    assert message.properties == {"TAGS": "TagA", "KEYS": "o-1 o-2", "region": "eu"}  # the caller's object is its own


async def test_one_sender_goes_round_all_queues(topic: str, producer: Producer) -> None:
    queues = [(await producer.send(Message(topic, b"x"))).queue.queue_id for _ in range(8)]
    assert queues[:4] == queues[4:]
    assert sorted(queues[:4]) == [0, 1, 2, 3]


async def test_submit_gives_a_future_and_calls_back(topic: str, producer: Producer) -> None:
    called: list[object] = []
    futures = [producer.submit(Message(topic, b"x"), callback=lambda *a: called.append(a)) for _ in range(20)]
    results = await asyncio.gather(*futures)
    assert {result.status for result in results} == {SendStatus.SEND_OK}
    await asyncio.sleep(0)
    assert sorted(called, key=str) == sorted([(result, None) for result in results], key=str)


async def test_oneway_messages_arrive(ns: str, topic: str, producer: Producer) -> None:
    for i in range(10):
        await producer.send_oneway(Message(topic, b"%d" % i))

    async def all_there() -> bool:
        return sorted(await stored(ns, topic)) == sorted(b"%d" % i for i in range(10))

    await eventually(all_there, "ten one-way messages")


async def test_a_batch_is_stored_whole_in_one_queue_with_an_id_each(ns: str, topic: str, producer: Producer) -> None:
    batch = [Message(topic, b"m%d" % i, keys=f"k{i}", tags="T", properties={"n": str(i)}) for i in range(5)]
    [sent] = await producer.send_batch(batch)
    assert len(set(sent.message_ids)) == 5
    found: list[ReceivedMessage] = []
    async with aio.PullClient(name_servers=ns) as reader:
        while len(found) < 5:  # Apache's broker answers a waiting pull as soon as the first one can be read
            found += await reader.pull_messages(sent.queue, len(found), suspend=10)
    assert [(m.body, m.keys, m.tags, m.properties["n"]) for m in found] == [
        (b"m%d" % i, [f"k{i}"], "T", str(i)) for i in range(5)
    ]
    assert [m.message_id for m in found] == list(sent.message_ids)


async def test_a_large_batch_is_split_below_the_limit(ns: str, topic: str, producer: Producer) -> None:
    batch = [Message(topic, bytes([i]) * 500_000) for i in range(20)]
    results = await producer.send_batch(batch, timeout=20)
    assert len(results) == 3
    assert sum(len(result.message_ids) for result in results) == 20


async def test_a_large_body_travels_packed_and_arrives_plain(ns: str, topic: str, producer: Producer) -> None:
    body = b"abc" * 3000
    sent = await producer.send(Message(topic, body))
    small = await producer.send(Message(topic, body[:4095]))
    async with aio.PullClient(name_servers=ns) as reader:
        [unit] = decode_units((await reader.pull(sent.queue, sent.queue_offset, 1, suspend=10)).body)
        [plain] = decode_units((await reader.pull(small.queue, small.queue_offset, 1, suspend=10)).body)
        [message] = await reader.pull_messages(sent.queue, sent.queue_offset, 1, suspend=10)
    assert unit.sys_flag & COMPRESSED
    assert zlib.decompress(unit.body) == message.body == body
    assert not plain.sys_flag & COMPRESSED


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
async def test_the_packers_of_version_5_work_where_installed(ns: str, topic: str, compression: Compression) -> None:
    pytest.importorskip("lz4" if compression is Compression.LZ4 else "zstandard")
    async with aio.Producer(unique("p"), name_servers=ns, compression=compression) as producer:
        sent = await producer.send(Message(topic, b"abc" * 3000))
    async with aio.PullClient(name_servers=ns) as reader:
        [message] = await reader.pull_messages(sent.queue, sent.queue_offset, 1, suspend=10)
    assert message.body == b"abc" * 3000


async def test_a_queue_can_be_chosen_by_hand_by_hash_or_by_a_function(topic: str, producer: Producer) -> None:
    queues = await producer.queues(topic)
    assert (await producer.send(Message(topic, b"x"), queue=queues[2])).queue == queues[2]
    hashed = {(await producer.send(Message(topic, b"x"), hash_key="order-1")).queue for _ in range(5)}
    assert hashed == {by_hash("order-1")(queues, Message(topic, b"x"))}
    last = await producer.send(Message(topic, b"x"), selector=lambda queues, _: queues[-1])
    assert last.queue == queues[-1]
    assert (await producer.submit(Message(topic, b"x"), queue=queues[1])).queue == queues[1]


async def test_a_topic_that_is_not_there_is_made_by_the_broker(producer: Producer) -> None:
    name = unique("made")
    sent = await producer.send(Message(name, b"x"))
    assert sent.queue.topic == name
    assert sent.queue.queue_id < 4


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (Message("", b"x"), "blank"),
        (Message("a b", b"x"), "only letters"),
        (Message("t" * 128, b"x"), "128 characters"),
        (Message("SCHEDULE_TOPIC_XXXX", b"x"), "reserved for brokers"),
        (Message("T", b""), "empty body"),
        (Message("T", b"x" * (4 * 1024 * 1024 + 1)), "max_message_size"),
        (Message("T", b"x", properties={"a": "b\x01c"}), "separate properties"),
        (Message("T", b"x", properties={"a": "b" * 40000}), "32767 bytes"),
    ],
)
async def test_what_no_broker_would_take_is_refused_before_sending(
    producer: Producer, message: Message, why: str
) -> None:
    with pytest.raises(InvalidMessage, match=why):
        await producer.send(message)


async def test_batches_that_cannot_go_together_are_refused(topic: str, producer: Producer) -> None:
    plain = Message(topic, b"x")
    for batch, why in [
        ([], "empty"),
        ([plain, Message("other", b"x")], "one topic"),
        ([plain, Message(topic, b"x", delay_level=1)], "delayed"),
        ([plain, Message(topic, b"x", wait_store=False)], "wait"),
    ]:
        with pytest.raises(InvalidMessage, match=why):
            await producer.send_batch(batch)


async def test_a_queue_that_is_not_there_is_refused_by_name(topic: str, producer: Producer) -> None:
    [queue, *_] = await producer.queues(topic)
    with pytest.raises(BrokerRefused, match=r"127\.0\.0\.1:\d+ refused SEND_MESSAGE_V2"):
        await producer.send(Message(topic, b"x"), queue=MessageQueue(topic, queue.broker_name, 99))


async def test_a_broker_that_is_not_there_is_no_route(topic: str, producer: Producer) -> None:
    with pytest.raises(RouteMissing, match="no-such-broker"):
        await producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "no-such-broker", 0))


async def test_clients_work_only_between_start_and_close(ns: str) -> None:
    producer = aio.Producer("g", name_servers=ns)
    with pytest.raises(NotRunning, match="not started"):
        await producer.send(Message("T", b"x"))
    async with producer:
        pass
    with pytest.raises(NotRunning, match="closed"):
        await producer.send(Message("T", b"x"))
    with pytest.raises(NotRunning, match="once"):
        await producer.start()


async def test_without_a_name_server_the_error_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    with pytest.raises(ClientError, match="NAMESRV_ADDR"):
        await aio.Producer("g").start()


async def test_the_environment_names_the_servers(monkeypatch: pytest.MonkeyPatch, ns: str, topic: str) -> None:
    monkeypatch.setenv("NAMESRV_ADDR", ns)
    async with aio.Producer(unique("p")) as producer:
        assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK


async def test_binary_headers_are_spoken_when_asked_for(ns: str, topic: str) -> None:
    async with aio.Producer(unique("p"), name_servers=ns, binary_headers=True) as producer:
        assert (await producer.send(Message(topic, b"x"))).status is SendStatus.SEND_OK
