"""A store folder that Apache's broker left behind, served by ours: every message, topic and offset of the manifest."""

import json
from pathlib import Path

import pytest

from ariane.broker.server import Broker
from ariane.protocol.units import Unit
from tests.broker.talk import Talk, small_broker
from tests.recorded import read_manifest, unpack

FIXTURES = Path(__file__).parent.parent / "fixtures"


def broker_on(name: str, folder: Path) -> Broker:
    """A broker of ours on a copy of the folder, with the settings that it was written with."""
    store = unpack(name, folder)
    given = read_manifest(name)["settings"]
    sizes = {k: v for k, v in given.items() if k.startswith("mappedFileSize") or k in ("maxHashSlotNum", "maxIndexNum")}
    levels = {"messageDelayLevel": given["messageDelayLevel"]} if "messageDelayLevel" in given else {}
    return small_broker(store, brokerName=given["brokerName"], fileReservedTime=1_000_000, **sizes, **levels)


async def served(talk: Talk, topic: str, queue_id: int) -> list[Unit]:
    """All of a queue, pull by pull, as a consumer gets it."""
    found: list[Unit] = []
    offset = talk.broker.store.min_offset(topic, queue_id)
    while units := await talk.units(topic, queue_id, offset, consumer_group="TOOLS_CONSUMER"):
        found += units
        offset = units[-1].queue_offset + 1
    return found


@pytest.mark.parametrize("name", ["store-clean", "store-killed"])
async def test_every_message_is_served(name: str, tmp_path: Path) -> None:
    expected = json.loads((FIXTURES / f"{name}.served.json").read_text())
    by_place = {m["commitLogOffset"]: m for m in read_manifest(name)["messages"]}
    async with Talk.to(broker_on(name, tmp_path)) as talk:
        for queue, (low, high) in expected.items():
            topic, _, queue_id = queue.rpartition("/")
            if topic not in talk.broker.topics:
                continue  # a topic of the broker's own that nobody may pull from
            units = await served(talk, topic, int(queue_id))
            offsets = [u.queue_offset for u in units]
            assert offsets[: high - low] == list(range(low, high)), queue
            for unit in units[: high - low]:
                known = by_place[unit.physical_offset]
                assert (known["topic"], known["storeSize"]) == (unit.topic.decode(), unit.size)


async def test_topics_groups_and_offsets_are_taken_over(tmp_path: Path) -> None:
    config = read_manifest("store-clean")["config"]
    async with Talk.to(broker_on("store-clean", tmp_path)) as talk:
        kept = config["topics.json"]["topicConfigTable"]
        assert set(kept) <= talk.broker.topics.names()
        for topic, queues in kept.items():
            found = talk.broker.topics.get(topic)
            assert found is not None
            assert (found.read_queue_nums, found.perm) == (queues["readQueueNums"], queues["perm"])
        assert set(config["subscriptionGroup.json"]["subscriptionGroupTable"]) <= {
            group.group_name for group in talk.broker.groups
        }
        for key, queues in config["consumerOffset.json"]["offsetTable"].items():
            topic, _, group = key.partition("@")
            assert talk.broker.offsets.queues(group, topic) == {int(q): o for q, o in queues.items()}


async def test_new_messages_follow_the_old_ones(tmp_path: Path) -> None:
    async with Talk.to(broker_on("store-clean", tmp_path)) as talk:
        answer = await talk.send_ok("FixPlain", b"new")
        assert answer.fields["queueOffset"] == "30"
        assert [u.body for u in await talk.units("FixPlain", 0, 30)] == [b"new"]
