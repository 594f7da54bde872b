"""The page about administration: its terminal sessions are run, and what they show is what the commands print.

`UPDATE_PAGE=1 pytest tests/admin/test_page.py` writes what they print into the page.
"""

import asyncio
import inspect
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from ariane import Admin, ConsumeFrom, ConsumeStatus, Message, MessageQueue, SubscriptionGroupConfig, aio
from tests.admin.test_commands import Shell, Undecided
from tests.client.inbox import Inbox, eventually
from tests.cluster import Cluster, running_cluster

PAGE = Path(__file__).parent.parent.parent / "docs" / "admin.md"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
VOLATILE = (
    (r"\b[0-9A-F]{32}\b", "ID"),
    (r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(,\d{3})?", "TIME"),
    (r"\b\d+(\.\d+)?s\b|\b\d+m \d+s\b", "SPAN"),
    (r"127\.0\.0\.1:\d+", "ADDRESS"),
    (r"\d+\.\d\d?/s|\b\d+\.\d\d?\b|\d+%", "N"),
    (r"(shipping +0) .*", r"\1 ROW"),  # its offsets are committed, or not yet
    (r"[ \t]+", " "),
)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster in which billing is behind, shipping has dead letters, and a payment is undecided."""
    with running_cluster(tmp_path_factory.mktemp("shop")) as cluster:
        cluster.start_broker("broker-a")
        asyncio.run(open_shop(cluster.namesrv))
        yield cluster


async def open_shop(namesrv: str) -> None:
    async with aio.Admin(name_servers=namesrv) as admin, aio.Producer("shop", name_servers=namesrv) as producer:
        for topic in ("orders", "parcels", "payments"):
            await admin.create_topic(topic, queues=2)
        await admin.create_group(SubscriptionGroupConfig("shipping", retry_max_times=0))
        inbox = Inbox()
        async with aio.PushConsumer("billing", "orders", inbox, consume_from=ConsumeFrom.FIRST, name_servers=namesrv):
            for number in range(4):
                message = Message("orders", b"ordered", keys=[f"order-{number}"], tags="TagA")
                await producer.send(message, queue=MessageQueue("orders", "broker-a", number % 2))
            await inbox.arrived(4)
        for number in range(2):
            message = Message("orders", b"paid", keys=[f"order-{number}"], tags="TagA")
            await producer.send(message, queue=MessageQueue("orders", "broker-a", number % 2))
            await producer.send(Message("parcels", b"send it", keys=[f"parcel-{number}"]))
        options = {"consume_from": ConsumeFrom.FIRST, "max_reconsume_times": 0, "name_servers": namesrv}
        async with aio.PushConsumer("shipping", "parcels", lambda _: ConsumeStatus.RECONSUME_LATER, **options):

            async def dead() -> bool:
                return len(await admin.dead_letters("shipping")) == 2

            await eventually(dead, "both parcels are dead letters")
        async with aio.TransactionProducer("payments", Undecided(), name_servers=namesrv) as undecided:
            await undecided.send_half(Message("payments", b"42"))

        async def dispatched() -> bool:
            return bool(await admin.half_messages()) and await admin.lag("billing", "orders") == 2

        await eventually(dispatched, "all is in its queues")


def comparable(text: str) -> list[str]:
    for pattern, word in VOLATILE:
        text = re.sub(pattern, word, text)
    return sorted(line.strip() for line in text.splitlines() if line.strip())


def test_terminal_sessions_show_what_the_commands_print(
    shop: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ariane = Shell(shop.namesrv)
    page = PAGE.read_text()
    for block in BLOCK.findall(page):
        printed = ""
        for command in re.findall(r"^\$ ariane (.+)$", block, re.MULTILINE):
            text = ariane(*command.split()).replace(shop.broker_address, "127.0.0.1:10911")
            printed += f"$ ariane {command}\n{text.replace(shop.namesrv, '127.0.0.1:9876')}"
        page = page.replace(f"```console\n{block}```", f"```console\n{printed}```")
    if os.environ.get("UPDATE_PAGE"):
        PAGE.write_text(page)
    assert comparable(PAGE.read_text()) == comparable(page)


def test_every_method_is_named() -> None:
    page = PAGE.read_text()
    methods = {name for name, _ in inspect.getmembers(Admin, inspect.isfunction) if not name.startswith("_")}
    assert sorted(name for name in methods - {"start", "close"} if f"`{name}`" not in page) == []
