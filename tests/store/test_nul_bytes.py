"""NUL bytes are legal in bodies and properties: they are told from a torn write by structure."""

import asyncio
from pathlib import Path

import pytest

from ariane.env import Env, ManualClock
from ariane.protocol.units import Unit, encode_unit
from ariane.store import MessageStore, StoreOptions
from ariane.store.recovery import recovery
from ariane.testing.faults import MemoryFiles
from tests.store.units import HOST, HOST_V6, read_all, unit

ROOT = Path("/store")
FILE_SIZE = 1 << 14
STOPS = pytest.mark.parametrize("stop", ["killed", "closed", "power cut"])
PADS = (1, 511, 512, 513, 1100, 4096, 4097, 7000)


def open_store(files: MemoryFiles, file_size: int = FILE_SIZE) -> MessageStore:
    options = StoreOptions(
        root=ROOT,
        commitlog_file_size=file_size,
        consumequeue_file_entries=100,
        index_slots=20,
        index_entries=500,
        flush="SYNC_FLUSH",
    )
    store = MessageStore(options, Env(clock=ManualClock(), files=files))
    store.open()
    return store


def put(store: MessageStore, message: Unit) -> Unit:
    """Append a message and make it durable."""
    result = store.append(message)
    assert result.status.name == "OK"
    done: list[bool] = []
    store.when_flushed(result.end_offset, done.append)
    store.dispatch_now()
    assert done == [True]
    return message


def stopped(store: MessageStore, files: MemoryFiles, stop: str) -> MemoryFiles:
    if stop == "closed":
        asyncio.run(store.close())
        return files.after_power_cut()
    return files.after_kill() if stop == "killed" else files.after_power_cut()


@STOPS
@pytest.mark.parametrize("pad", PADS)
def test_messages_after_a_property_of_nul_bytes_are_kept(pad: int, stop: str) -> None:
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    put(store, unit("nul", b"first", pad="\0" * pad))
    for n in range(50):
        put(store, unit("orders", b"m%d" % n, pad="\0" * (n * 13)))
    put(store, unit("nul", b"last"))
    again = open_store(stopped(store, files, stop))
    assert again.log_max == store.log_max
    assert [u.body for u in read_all(again, "orders")] == [b"m%d" % n for n in range(50)]
    assert [(u.body, u.properties) for u in read_all(again, "nul")] == [
        (b"first", b"pad\x01" + b"\0" * pad),
        (b"last", b""),
    ]


@STOPS
@pytest.mark.parametrize("pad", PADS)
def test_a_last_message_that_ends_in_nul_bytes_is_kept(pad: int, stop: str) -> None:
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    put(store, unit(body=b"first"))
    put(store, unit(body=b"\0" * pad, pad="\0" * pad))
    left = stopped(store, files, stop)
    again = open_store(left)
    assert [u.body for u in read_all(again)] == [b"first", b"\0" * pad]
    put(again, unit(body=b"next"))
    assert [u.body for u in read_all(open_store(left.after_power_cut()))] == [b"first", b"\0" * pad, b"next"]


@pytest.mark.parametrize("host", [HOST, HOST_V6], ids=["v4", "v6"])
@pytest.mark.parametrize("topic", ["t", "t" * 127])
def test_nul_bytes_at_every_distance_from_a_sector_border_are_kept(topic: str, host: bytes) -> None:
    files = MemoryFiles(ManualClock())
    store = open_store(files, 1 << 20)
    sent = [put(store, unit(topic, b"\0" * (n % 7), host=host, a="\0" * 700, z=str(n) * n)) for n in range(0, 513, 9)]
    for left in (files.after_kill(), files.after_power_cut()):
        again = open_store(left, 1 << 20)
        assert [(u.body, u.properties) for u in read_all(again, topic)] == [(u.body, u.properties) for u in sent]


@STOPS
def test_nul_bytes_before_a_file_border_are_kept(stop: str) -> None:
    """The unit ends so that 8 to 600 bytes of the file stay for the blank record: that is what follows it."""
    for room in (8, 9, 100, 511, 512, 513, 600):
        files = MemoryFiles(ManualClock())
        store = open_store(files, 4096)
        size = len(put(store, unit(body=b"x", pad="\0")).properties)
        first = store.log_max
        put(store, unit(body=b"y", pad="\0" * (1 + 4096 - room - 2 * first)))
        assert store.log_max == 4096 - room
        put(store, unit(body=b"z", pad="\0" * 700))
        put(store, unit(body=b"end"))
        assert size == 5
        again = open_store(stopped(store, files, stop), 4096)
        assert [u.body for u in read_all(again)] == [b"x", b"y", b"z", b"end"]


def test_properties_torn_by_a_power_cut_are_never_delivered() -> None:
    """Every set of lost sectors at the end of the log; the message before it stays."""
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    put(store, unit(body=b"first"))
    start = store.log_max
    store.append(unit(body=b"torn", text="x" * 2500))
    store.dispatch_now()
    end = store.log_max
    sectors = [at for at in range(0, end, 512) if at >= start]
    for lost in range(1, 1 << len(sectors)):
        left = files.after_kill()
        left.boot_id = "boot-1"
        data = left._nodes[ROOT / "commitlog" / "0".zfill(20)].data
        for number, at in enumerate(sectors):
            if lost & 1 << number:
                data[at : at + 512] = bytes(512)
        again = open_store(left)
        assert [u.body for u in read_all(again)] == [b"first"], lost
        assert again.log_max == start


def test_a_store_that_another_broker_left_behind_counts_as_cut_off() -> None:
    """Apache's abort file is empty: it does not tell in which run of the machine it was written."""
    files = MemoryFiles(ManualClock())
    store = open_store(files)
    put(store, unit(body=b"first"))
    start = store.log_max
    store.append(unit(body=b"torn", pad="\0" * 2000))
    store.dispatch_now()
    left = files.after_kill()
    left.replace(ROOT / "abort", b"")
    assert open_store(left).log_max == start


def test_a_body_that_holds_a_unit_does_not_mislead_the_search_for_a_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sender knows where its message will lie, and the false unit leads to no unit at all."""
    monkeypatch.setattr(recovery, "_NEAR_END", 3000)
    monkeypatch.setattr(recovery, "_NEAR_ENOUGH", 512)
    files = MemoryFiles(ManualClock())
    store = open_store(files, 1 << 16)
    for n in range(20):
        put(store, unit(body=b"m%d" % n))
    false = unit(body=b"false")
    false.physical_offset = store.log_max + 1000
    inside = encode_unit(false)
    body = bytearray(8000)
    at = 1000 - 88
    body[at : at + len(inside)] = inside
    put(store, unit(body=bytes(body)))
    put(store, unit(body=b"after"))
    store._queue_flusher.flush(thorough=True)
    for left in (files.after_kill(), stopped(store, files, "closed")):
        again = open_store(left, 1 << 16)
        assert [u.body for u in read_all(again)] == [b"m%d" % n for n in range(20)] + [bytes(body), b"after"]
