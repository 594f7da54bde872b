"""Namespaces as 4.9 has them, and the second port of Apache's brokers."""

from ariane import ConsumeFrom, ConsumeStatus, Message, aio
from ariane.client.admin import Admin
from ariane.client.producer.producer import Producer
from tests.client.conftest import Site
from tests.client.inbox import Inbox
from tests.peers import unique

LATER = ConsumeStatus.RECONSUME_LATER


async def test_topics_and_groups_of_a_namespace_are_its_own(ns: str, admin: Admin, producer: Producer) -> None:
    tenant, topic, group = unique("tenant"), unique("topic"), unique("group")
    await admin.create_topic(f"{tenant}%{topic}", queues=2)
    await admin.create_topic(topic, queues=2)
    await producer.send(Message(topic, b"of nobody"))
    inbox = Inbox(lambda message, _: LATER if message.reconsume_times == 0 else ConsumeStatus.CONSUME_SUCCESS)
    async with aio.Producer(unique("producers"), name_servers=ns, namespace=tenant) as own:
        sent = await own.send(Message(topic, b"of a tenant"))
        [batch] = await own.send_batch([Message(topic, b"of a batch")], queue=sent.queue)
        assert {sent.queue.topic, batch.queue.topic} == {f"{tenant}%{topic}"}
        async with aio.PushConsumer(
            group, topic, inbox, name_servers=ns, namespace=tenant, consume_from=ConsumeFrom.FIRST, rebalance_interval=1
        ) as consumer:
            assert consumer.group == f"{tenant}%{group}"
            found = await inbox.arrived(4)  # each twice: the way back to the group is in the namespace too
    assert {message.topic for message in found} == {topic}
    assert {message.body for message in found} == {b"of a tenant", b"of a batch"}
    assert {message.properties["INSTANCE_ID"] for message in found} == {tenant}


async def test_a_consumer_polls_in_its_namespace(ns: str, admin: Admin) -> None:
    tenant, topic = unique("tenant"), unique("topic")
    await admin.create_topic(f"{tenant}%{topic}", queues=1)
    async with aio.Producer(unique("producers"), name_servers=ns, namespace=tenant) as own:
        await own.submit(Message(topic, b"x"))
    async with aio.LitePullConsumer(
        unique("group"), topic, name_servers=ns, namespace=tenant, consume_from=ConsumeFrom.FIRST
    ) as consumer:
        found = []
        while not found:
            found = await consumer.poll(timeout=30)
    assert (found[0].topic, found[0].body) == (topic, b"x")


async def test_a_topic_may_be_taken_and_left_by_its_bare_name(ns: str, admin: Admin) -> None:
    tenant, first, second = unique("tenant"), unique("topic"), unique("topic")
    for topic in (first, second):
        await admin.create_topic(f"{tenant}%{topic}", queues=1)
    async with aio.LitePullConsumer(unique("group"), first, name_servers=ns, namespace=tenant) as consumer:
        await consumer.subscribe(second)
        await consumer.unsubscribe(first)
        assert {queue.topic for queue in await consumer.assignment()} == {f"{tenant}%{second}"}
        assert {queue.topic for queue in await consumer.queues(second)} == {f"{tenant}%{second}"}


async def test_apaches_brokers_take_messages_at_their_second_port(site: Site, topic: str) -> None:
    if site.kind == "ariane":
        return  # has one port
    seen: list[str] = []

    class Watch:
        def before_request(self, peer: str, command: object) -> None:
            seen.append(peer)

        def after_response(self, peer: str, request: object, response: object) -> None:
            pass

    async with aio.Producer(
        unique("producers"), rpc_hooks=(Watch(),), name_servers=site.name_servers, vip_channel=True
    ) as producer:
        await producer.send(Message(topic, b"x"))
        [address] = producer._running().routes.brokers.values()
    assert f"127.0.0.1:{int(address[0].rpartition(':')[2]) - 2}" in seen
