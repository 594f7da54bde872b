"""Stores that one implementation converted to a ledger open in the other, old and new messages alike."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from ariane.broker.server import Broker
from ariane.env import Env
from tests.broker.talk import Talk, small_options
from tests.dledger.brokers import send
from tests.dledger.group import until
from tests.dledger.test_mixed import MixedGroup, pulled
from tests.peers.servers import ApacheBroker

pytestmark = pytest.mark.timeout(600)


class OneMember(MixedGroup):
    """A group of n0 alone, so that nothing is copied: each opens the files as the other left them."""

    def __init__(self, root: Path, start_apache: Callable[..., ApacheBroker]) -> None:
        super().__init__(root, start_apache)
        self.peers = self.peers.partition(";")[0]

    async def write_with_apache(self, sent: list[str], count: int, label: str) -> list[str]:
        """Send messages to Apache's broker without DLedger, and stop it."""
        sizes = {"mappedFileSizeCommitLog": 4 << 20, "mappedFileSizeConsumeQueue": 20 * 1000}
        config = {"brokerName": "ledger", "maxHashSlotNum": 400, "maxIndexNum": 1000, **sizes}
        broker = await asyncio.to_thread(self._start_apache, self.name_servers, store=self.root / "n0", config=config)
        sent = sent + await send(self, "orders", count, label)
        await asyncio.to_thread(broker.stop)
        return sent

    async def write_with_ariane(self, sent: list[str], count: int, label: str) -> list[str]:
        """Send messages to Ariane's broker without DLedger, and stop it."""
        broker = Broker(small_options(self.root / "n0", brokerName="ledger", namesrvAddr=self.name_servers), Env())
        await broker.start()
        sent = sent + await send(self, "orders", count, label)
        await broker.stop()
        return sent

    async def stop_apache(self) -> None:
        await asyncio.to_thread(self.apache.pop("n0").stop)

    async def check_ariane(self, sent: list[str]) -> None:
        """All messages are in the queues without gaps, and each is found by its id and by its key."""
        store = self.brokers["n0"].store
        await until(lambda: sorted(self.bodies("n0", "orders")) == sorted(sent))
        for topic, queue in store.queues():
            for offset in range(store.max_offset(topic, queue) if topic == "orders" else 0):
                found = store.message_at(store.physical_offset(topic, queue, offset))
                assert found is not None
                assert found.queue_offset == offset
        for body in sent:
            assert len(store.query("orders", body, 32, 0, 1 << 60).slices) == 1, body

    async def check_apache(self, sent: list[str]) -> None:
        async with asyncio.timeout(60):
            while sorted(await pulled(self.apache["n0"].address, "orders")) != sorted(sent):  # noqa: ASYNC110
                await asyncio.sleep(0.2)


@pytest.fixture
async def group(tmp_path: Path, apache_broker: Callable[..., ApacheBroker]) -> AsyncIterator[OneMember]:
    group = OneMember(tmp_path, apache_broker)
    await group.start_name_server()
    try:
        yield group
    finally:
        for id in list(group.apache):
            await group.leave(id)
        await group.stop()


async def test_a_store_that_apaches_broker_converted_is_served_and_goes_back(group: OneMember) -> None:
    sent = await group.write_with_apache([], 40, "plain-")
    await group.start_apache("n0")
    sent += await send(group, "orders", 40, "apache-")
    await group.stop_apache()
    await group.start("n0")
    sent += await send(group, "orders", 40, "ariane-")
    await group.check_ariane(sent)
    ledger = group.brokers["n0"].group
    assert ledger is not None
    assert ledger.status_rows()["ledgerStart"] == str(4 << 20)
    await group.stop("n0")
    await group.start_apache("n0")
    sent += await send(group, "orders", 5, "back-")
    await group.check_apache(sent)


@pytest.mark.parametrize("plain", ["ariane", "apache"])
async def test_a_store_that_ariane_converted_opens_in_apaches_broker(group: OneMember, plain: str) -> None:
    write = group.write_with_ariane if plain == "ariane" else group.write_with_apache
    sent = await write([], 40, "plain-")
    await group.start("n0")
    sent += await send(group, "orders", 40, "ariane-")
    await group.check_ariane(sent)
    async with Talk.beside(group.brokers["n0"]) as talk:
        answer = await talk.pull("orders", 0, 0)
        assert answer.code == 0
    await group.stop("n0")
    await group.start_apache("n0")
    sent += await send(group, "orders", 20, "apache-")
    await group.check_apache(sent)
