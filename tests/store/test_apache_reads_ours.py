"""A folder that Ariane wrote, closed or killed, opens in Apache's broker, which serves every message of it."""

import asyncio
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from ariane.env import Env
from ariane.protocol.ids import offset_id, pack_host
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import Unit
from ariane.store import ConfigFile, MessageStore, StoreOptions
from tests.peers import ApacheBroker, ApacheNamesrv, Driver, PeerError
from tests.peers.clients import PullConsumer
from tests.peers.jvm import until
from tests.peers.messages import Queue
from tests.store.units import batch

TOPICS = {"OrsOne": 4, "OrsTwo": 2}
# Three index files. Apache names them by the millisecond: two made within one are the same file, and keys are lost.
INDEX_ENTRIES = 500
SIZES = {
    "mappedFileSizeCommitLog": 65536,
    "mappedFileSizeConsumeQueue": 2000,
    "maxHashSlotNum": 50,
    "maxIndexNum": INDEX_ENTRIES,
}


@dataclass
class Sent:
    """What the store must give back."""

    topic: str
    queue_id: int
    queue_offset: int
    body: bytes
    key: str
    offset: int


def write(root: Path) -> tuple[MessageStore, list[Sent]]:
    """Fill a store: several topics and queues, several files of each kind, single messages and batches."""
    options = StoreOptions(
        root=root,
        commitlog_file_size=65536,
        consumequeue_file_entries=100,
        index_slots=50,
        index_entries=INDEX_ENTRIES,
    )
    store = MessageStore(options, Env())
    store.open()
    sent: list[Sent] = []
    for n in range(600):
        topic = "OrsTwo" if n % 3 == 0 else "OrsOne"
        messages = [message(topic, n % TOPICS[topic], f"{n}.{part}") for part in range(3 if n % 10 == 0 else 1)]
        result = store.append_batch(batch(messages)) if len(messages) > 1 else store.append(messages[0])
        assert result.status.name == "OK"
        sent += [
            Sent(topic, m.queue_id, result.queue_offset + number, m.body, f"k{m.body.decode()[5:]}", place)
            for number, (m, place) in enumerate(zip(messages, result.places or [result.physical_offset], strict=True))
        ]
        if n % 50 == 0:
            store.dispatch_now()
            store.tick()
    store.dispatch_now()
    write_topics(store)
    return store, sent


def message(topic: str, queue_id: int, name: str) -> Unit:
    host = pack_host("127.0.0.1", 10911)
    properties = encode_properties(
        {"KEYS": f"k{name}", "TAGS": "TagA", "UNIQ_KEY": name.encode().hex().upper().zfill(32)}
    )
    return Unit(
        topic.encode(),
        f"body-{name}".encode(),
        properties.encode(),
        queue_id=queue_id,
        born_time=1,
        born_host=host,
        store_host=host,
    )


def write_topics(store: MessageStore) -> None:
    table = {
        name: {"topicName": name, "readQueueNums": count, "writeQueueNums": count, "perm": 6, "order": False}
        for name, count in TOPICS.items()
    }
    text = json.dumps({"dataVersion": {"counter": 1, "timestamp": 1}, "topicConfigTable": table})
    ConfigFile(store.layout.config / "topics.json", store.env.files).save(text)


@pytest.fixture(params=["closed", "killed"])
def ours(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, list[Sent]]:
    """A store after a clean stop, and one as a killed process leaves it."""
    store, sent = write(tmp_path / "ours")
    left = tmp_path / "left"
    if request.param == "killed":
        shutil.copytree(tmp_path / "ours", left)
    asyncio.run(store.close())
    if request.param == "closed":
        shutil.copytree(tmp_path / "ours", left)
    assert (left / "abort").exists() == (request.param == "killed")
    return left, sent


def test_apache_serves_every_message(
    ours: tuple[Path, list[Sent]],
    java: Driver,
    apache_namesrv: Callable[..., ApacheNamesrv],
    apache_broker: Callable[..., ApacheBroker],
) -> None:
    folder, sent = ours
    namesrv = apache_namesrv().address
    broker = apache_broker(namesrv, store=folder, config=SIZES)
    with java.pull_consumer(namesrv) as consumer:
        for topic, count in TOPICS.items():
            for number in range(count):
                queue = Queue(topic, broker.name, number)
                expected = [m.body for m in sent if (m.topic, m.queue_id) == (topic, number)]
                # Apache dispatches what it recovered after it has begun to serve
                until(lambda q=queue, e=expected: consumer.max_offset(q) == len(e), 60, f"{len(expected)} in {queue}")
                assert pull_all(consumer, queue, len(expected)) == expected
        host = pack_host("127.0.0.1", broker.port)
        for one in sent:
            until(lambda one=one: bodies_by_key(consumer, one) == [one.body], 60, f"key {one.key} in the index")
            assert consumer.view(one.topic, offset_id(host, one.offset)).body == one.body


def bodies_by_key(consumer: PullConsumer, one: Sent) -> list[bytes]:
    try:
        return [m.body for m in consumer.query(one.topic, one.key)]
    except PeerError:  # Apache's client raises when nothing is found
        return []


def pull_all(consumer: PullConsumer, queue: Queue, count: int) -> list[bytes]:
    bodies: list[bytes] = []
    while len(bodies) < count:
        found = consumer.pull(queue, len(bodies))
        assert found.messages, found
        bodies += [m.body for m in found.messages]
    return bodies
