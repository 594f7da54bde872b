"""What is asked only to know it is answered by a slave while the master is gone."""

import asyncio
from pathlib import Path

import pytest

from ariane import ConsumeFrom, Message, aio
from ariane.errors import ArianeError
from tests.admin.test_commands import Shell
from tests.client.inbox import Inbox, eventually
from tests.cluster import running_cluster
from tests.peers import until


async def consume_some(namesrv: str) -> None:
    async with aio.Admin(name_servers=namesrv) as admin, aio.Producer("shop", name_servers=namesrv) as producer:
        await admin.create_topic("orders", queues=2)
        inbox = Inbox()
        async with aio.PushConsumer("billing", "orders", inbox, consume_from=ConsumeFrom.FIRST, name_servers=namesrv):
            for _ in range(4):
                await producer.send(Message("orders", b"x"))
            await inbox.arrived(4)
        for _ in range(3):
            await producer.send(Message("orders", b"y"))


def test_lag_and_topics_are_shown_while_the_master_is_gone(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        cluster.start_broker("broker-a")
        asyncio.run(consume_some(cluster.namesrv))
        slave = cluster.start_slave(brokerName="broker-a")
        ariane = Shell(cluster.namesrv)

        async def copied() -> bool:
            """Whether the slave has the group's offsets and all messages."""
            async with aio.Admin(name_servers=cluster.namesrv) as admin:
                stats = await admin.broker_progress(slave.address)
                rows = [one for table in stats.groups.get("billing", []) for one in table.offset_table.items()]
                orders = [offsets for queue, offsets in rows if queue.topic == "orders"]
                return sum(one.consumer_offset for one in orders) == 4 and sum(one.broker_offset for one in orders) == 7

        asyncio.run(eventually(copied, "the slave has all"))
        cluster.stop_broker("broker-a")
        until(lambda: len(ariane.json("cluster")) == 1, 60, "the master is unregistered")
        assert "slave 1" in ariane("cluster")
        assert ariane.json("group", "lag", "billing", "orders")["lag"] == 3
        assert "messages  7" in ariane("topic", "describe", "orders")
        assert "Diff Total: 3" in ariane("admin", "consumerProgress", "-g", "billing")
        assert len(ariane.json("message", "find", "orders", "--since", "1h")) == 7
        for words in ("grow orders 9", "delete orders --yes", "create more"):
            text, code = ariane.result("topic", *words.split())
            assert (code, "master" in text, "nothing was changed" in text) == (1, True, True), text
        assert "messages  7" in ariane("topic", "describe", "orders")
        with pytest.raises(ArianeError, match="master"):
            asyncio.run(reset(cluster.namesrv))


async def reset(namesrv: str) -> None:
    async with aio.Admin(name_servers=namesrv) as admin:
        await admin.reset("billing", "orders", 0)
