"""Administration, against our broker and Apache's."""

import pytest

from ariane import ConsumeFrom, Message, aio
from ariane.client.admin import Admin
from ariane.client.admin.offsets import END
from ariane.client.producer.producer import Producer
from ariane.errors import RouteMissing
from ariane.protocol.bodies import SubscriptionGroupConfig
from tests.client.inbox import Inbox, eventually
from tests.peers import unique


async def test_a_topic_is_made_changed_and_deleted(admin: Admin) -> None:
    name = unique("topic")
    await admin.create_topic(name, queues=3, write_queues=2)
    [queues] = (await admin.route(name)).queue_datas
    assert (queues.read_queue_nums, queues.write_queue_nums) == (3, 2)
    assert name in await admin.topics()
    await admin.delete_topic(name)
    with pytest.raises(RouteMissing, match=name):
        await admin.route(name)


async def test_the_cluster_tells_about_itself(admin: Admin) -> None:
    info = await admin.cluster_info()
    [address] = await admin.masters()
    assert [broker.broker_addrs for broker in info.broker_addr_table.values()] == [{0: address}]
    assert "brokerName" in await admin.broker_config(address)
    assert "bootTimestamp" in await admin.broker_stats(address)
    assert (await admin.topic_configs(address)).topic_config_table


async def test_groups_are_made_and_deleted(admin: Admin, group: str) -> None:
    [address] = await admin.masters()
    await admin.create_group(SubscriptionGroupConfig(group, retry_max_times=3))
    assert (await admin.groups(address)).subscription_group_table[group].retry_max_times == 3
    await admin.delete_group(group)
    assert group not in (await admin.groups(address)).subscription_group_table


async def test_messages_are_found_by_key_and_by_id(admin: Admin, topic: str, producer: Producer) -> None:
    sent = await producer.send(Message(topic, b"x", keys=["order-7", "customer-3"]))

    async def indexed() -> bool:
        return bool(await admin.query_messages(topic, "order-7"))

    await eventually(indexed, "the index")
    [by_key] = await admin.query_messages(topic, "customer-3")
    by_id = await admin.find_message(topic, sent.message_id)
    assert by_id is not None
    assert by_key.message_id == by_id.message_id == sent.message_id
    assert await admin.query_messages(topic, "order-8") == []
    assert await admin.find_message(topic, "0" * 32) is None


async def test_offsets_of_a_group_can_be_read_and_set(admin: Admin, topic: str, producer: Producer, group: str) -> None:
    [queue, *_] = await producer.queues(topic)
    await producer.send_batch([Message(topic, b"x")] * 5, queue=queue)

    async def dispatched() -> bool:
        return await admin.max_offset(queue) == 5

    await eventually(dispatched, "five messages in the queue")
    assert await admin.min_offset(queue) == 0
    assert await admin.search_offset(queue, 0) == 0
    await admin.create_group(SubscriptionGroupConfig(group))  # RocketMQ 5 keeps no offsets of groups it does not know
    await admin.commit(group, queue, 2)
    assert await admin.committed(group, queue) == 2
    assert await admin.earliest_store_time(queue) > 0


async def test_group_that_has_not_committed_in_every_queue_is_reset(
    admin: Admin, topic: str, producer: Producer, group: str
) -> None:
    queues = await producer.queues(topic)
    for queue in queues:
        await producer.send_batch([Message(topic, b"x")] * 3, queue=queue)

    async def dispatched() -> bool:
        return [await admin.max_offset(queue) for queue in queues] == [3] * len(queues)

    await eventually(dispatched, "three messages in each queue")
    await admin.create_group(SubscriptionGroupConfig(group))
    await admin.commit(group, queues[0], 1)  # the others are like queues that were added since
    await admin.reset(group, topic, END)
    assert await admin.committed(group, queues[0]) == 3


async def test_consumers_online_are_listed_and_their_offsets_reset(
    ns: str, admin: Admin, topic: str, producer: Producer, group: str
) -> None:
    inbox = Inbox()
    async with aio.PushConsumer(group, topic, inbox, name_servers=ns, consume_from=ConsumeFrom.FIRST) as consumer:
        for i in range(8):
            await producer.send(Message(topic, b"%d" % i))
        await inbox.arrived(8)
        await consumer.commit()
        connections = await admin.consumer_connections(group)
        assert [one.client_id for one in connections.connection_set] == [consumer.client_id]
        assert set(connections.subscription_table) >= {topic}
        offsets = await admin.reset_offset(group, topic, 0)
        assert set(offsets.values()) == {0}
        again = await inbox.arrived(16)
    assert sorted(m.body for m in again[8:]) == sorted(m.body for m in again[:8])
