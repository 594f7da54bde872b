"""Where a consumer begins with a queue. Brokers answer 0 for a young queue, so the rules are tested without one."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

from ariane import ConsumeFrom, MessageQueue, PushOptions
from ariane.client.connect.broker_calls import BrokerCalls
from ariane.client.consumer.queues.offset_store import LocalOffsets, OffsetStore
from ariane.client.consumer.queues.start_offset import start_offset
from ariane.env import Env

QUEUE = MessageQueue("orders", "broker-a", 0)
RETRY = MessageQueue("%RETRY%g", "broker-a", 0)
NOW = 1_700_000_000_000


@dataclass
class Known:
    """A queue with 100 messages, and a group that may have an offset."""

    stored: int | None
    asked: int | None = None

    async def read(self, _: MessageQueue) -> int | None:
        return self.stored

    async def max_offset(self, _: MessageQueue) -> int:
        return 100

    async def search_offset(self, _: MessageQueue, timestamp: int) -> int:
        self.asked = timestamp
        return 42


async def begin(known: Known, queue: MessageQueue, where: ConsumeFrom, **options: Any) -> int:
    wanted = PushOptions(name_servers="x:1", consume_from=where, **options)
    return await start_offset(cast(BrokerCalls, known), wanted, cast(OffsetStore, known), queue, NOW)


@pytest.mark.parametrize("where", list(ConsumeFrom))
async def test_a_stored_offset_always_counts(where: ConsumeFrom) -> None:
    assert await begin(Known(7), QUEUE, where) == 7


async def test_a_new_group_begins_at_the_end_the_beginning_or_a_time() -> None:
    known = Known(None)
    assert await begin(known, QUEUE, ConsumeFrom.LAST) == 100
    assert await begin(known, QUEUE, ConsumeFrom.FIRST) == 0
    assert await begin(known, QUEUE, ConsumeFrom.TIMESTAMP) == 42
    assert known.asked == NOW - 30 * 60 * 1000
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    assert await begin(known, QUEUE, ConsumeFrom.TIMESTAMP, consume_timestamp=moment) == 42
    assert known.asked == 1_704_067_200_000


async def test_messages_that_came_back_are_never_skipped() -> None:
    assert await begin(Known(None), RETRY, ConsumeFrom.LAST) == 0
    assert await begin(Known(None), RETRY, ConsumeFrom.FIRST) == 0
    assert await begin(Known(None), RETRY, ConsumeFrom.TIMESTAMP) == 100  # as Apache's client does it


async def test_releasing_a_queue_keeps_the_offsets_of_the_others_in_the_file(tmp_path: Path) -> None:
    files = Env().files
    first, second = MessageQueue("orders", "a", 0), MessageQueue("orders", "a", 1)
    offsets = LocalOffsets(tmp_path, "client", "group", files)
    for queue in (first, second):
        offsets.update(queue, 7, only_forward=True)
    await offsets.persist([first], wait=True)
    offsets.forget(first)
    killed = LocalOffsets(tmp_path, "client", "group", files)
    assert killed.table("orders") == {first: 7, second: 7}
    await offsets.persist([second])
    restarted = LocalOffsets(tmp_path, "client", "group", files)
    assert restarted.table("orders") == {first: 7, second: 7}
