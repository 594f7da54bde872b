"""A store folder written by Apache's broker opens here and gives what its manifest says."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ariane.env import Env, SystemClock
from ariane.protocol.ids import host_text, offset_id
from ariane.protocol.properties import decode_properties
from ariane.protocol.units import Unit
from ariane.store import MessageStore, StoreOptions
from tests.recorded import read_manifest
from tests.store.conftest import FIXTURES
from tests.store.units import read_all, unit, units_of

Unpack = Callable[[str], Path]
BOTH = pytest.mark.parametrize("name", ["store-clean", "store-killed"])
DELAYS = (1, 1, 1, 2, 3, 10, 20, 30, 60, 120, 180, 240, 300, 600, 1200, 1800, 3600, 7200)  # of the recorded broker


def delay_ms(level: int) -> int:
    return DELAYS[level - 1] * 1000


def opened(root: Path) -> MessageStore:
    """Opened with the default sizes, which are not those of the fixtures."""
    store = MessageStore(StoreOptions(root=root, delay_ms=delay_ms), Env())
    store.open()
    return store


def told(u: Unit) -> dict[str, Any]:
    """A unit in the words of the manifest."""
    return {
        "topic": u.topic.decode(),
        "queueId": u.queue_id,
        "queueOffset": u.queue_offset,
        "commitLogOffset": u.physical_offset,
        "storeSize": u.size,
        "offsetMsgId": offset_id(u.store_host, u.physical_offset),
        "flag": u.flag,
        "sysFlag": u.sys_flag,
        "bornTimestamp": u.born_time,
        "storeTimestamp": u.store_time,
        "bornHost": host_text(u.born_host),
        "storeHost": host_text(u.store_host),
        "reconsumeTimes": u.reconsume_times,
        "preparedTransactionOffset": u.prepared_offset,
        "bodyCRC": u.body_crc,
        "storedBodyLength": len(u.body),
        "storedBodySha256": hashlib.sha256(u.body).hexdigest(),
        "properties": decode_properties(u.properties.decode()),
    }


@BOTH
async def test_every_message_of_the_manifest_is_there(name: str, apache_store: Unpack) -> None:
    store = opened(apache_store(name))
    for expected in read_manifest(name)["messages"]:
        found = store.unit_at(expected["commitLogOffset"])
        assert found is not None
        ours = told(found)
        theirs = {key: expected[key] for key in ours}
        for host in ("bornHost", "storeHost"):
            theirs[host] = theirs[host] if ":" not in theirs[host].rpartition(":")[0] else ours[host]
        assert ours == theirs
    await store.close()


@BOTH
async def test_queues_have_the_entries_of_the_manifest(name: str, apache_store: Unpack) -> None:
    store = opened(apache_store(name))
    for key, expected in read_manifest(name)["consumequeue"].items():
        topic, _, queue = key.rpartition("/")
        units = expected["units"]
        found = [list(e) for n in range(len(units)) for e in store.queue_entries(topic, int(queue), n, 1)]
        assert found == units
    await store.close()


@BOTH
async def test_queues_have_the_ranges_that_apache_serves(name: str, apache_store: Unpack) -> None:
    store = opened(apache_store(name))
    served = json.loads((FIXTURES / f"{name}.served.json").read_text())
    ours = {f"{t}/{q}": [store.min_offset(t, q), store.max_offset(t, q)] for t, q in store.queues()}
    assert {key: value for key, value in ours.items() if value != [0, 0]} == served
    await store.close()


@BOTH
async def test_every_message_is_found_by_its_keys(name: str, apache_store: Unpack) -> None:
    store = opened(apache_store(name))
    for expected in read_manifest(name)["messages"]:
        if expected["sysFlag"] & 0xC == 0xC:
            continue
        properties = expected["properties"]
        for key in filter(None, [*properties.get("KEYS", "").split(), properties.get("UNIQ_KEY")]):
            slices = store.query(expected["topic"], key, 64, 0, 1 << 60).slices
            assert expected["commitLogOffset"] in {u.physical_offset for u in units_of(slices)} or len(slices) == 64
    await store.close()


@BOTH
async def test_a_store_goes_on_where_apache_stopped(name: str, apache_store: Unpack) -> None:
    root = apache_store(name)
    store = opened(root)
    topic, queue = next(iter(store.queues()))
    before = [u.body for u in read_all(store, topic, queue)]
    result = store.append(unit(topic, b"ours", queue_id=queue))
    assert result.queue_offset == len(before)
    store.dispatch_now()
    await store.close()
    again = opened(root)
    assert [u.body for u in read_all(again, topic, queue)] == [*before, b"ours"]
    await again.close()


async def test_files_keep_the_sizes_that_apache_gave_them(apache_store: Unpack) -> None:
    root = apache_store("store-clean")
    store = opened(root)
    for n in range(3000):
        store.append(unit("FixPlain", b"x" * 100, KEYS=f"new{n}"))
    store.dispatch_now()
    await store.close()
    assert {path.stat().st_size for path in (root / "commitlog").iterdir()} == {262144}
    assert {path.stat().st_size for path in (root / "consumequeue").glob("*/*/*")} == {2000}
    assert {path.stat().st_size for path in (root / "index").iterdir()} == {10040}
    assert SystemClock().now_ms() > 0
