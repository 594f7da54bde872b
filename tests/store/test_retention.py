"""Old files go: by age, by hour, by room on the disk, by hand; never the newest, and never out of order."""

import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from ariane.env import Env, ManualClock
from ariane.store import GetStatus, MessageStore, PutStatus, StoreOptions
from ariane.testing.faults import MemoryFiles
from tests.store.units import fill, read_all, unit

ROOT = Path("/store")
HOUR = 3600
_NO_TIME = timedelta(0)


class World:
    """A store on a disk and a clock that a test moves; log files of 4 KiB, about thirty messages each."""

    def __init__(self, **changes: Any) -> None:
        self.clock = ManualClock(start_ms=local_midnight_ms())
        self.files = MemoryFiles(self.clock)
        self.files.used_ratio = 0.1
        small: dict[str, Any] = {
            "root": ROOT,
            "commitlog_file_size": 4096,
            "consumequeue_file_entries": 10,
            "index_slots": 20,
            "index_entries": 30,
            "delete_commitlog_files_interval": _NO_TIME,
            "delete_consumequeue_files_interval": _NO_TIME,
        }
        self.store = MessageStore(StoreOptions(**small | changes), Env(clock=self.clock, files=self.files))
        self.store.open()

    def log_files(self) -> int:
        return len(self.files.list(ROOT / "commitlog"))

    async def clean(self) -> None:
        """One pass, whatever it sleeps."""
        self.clock.sleep = _no_sleep  # type: ignore[method-assign]
        self.store.flusher.begin()
        await self.store.retention.clean()
        self.store.tick()


def local_midnight_ms() -> int:
    day = time.localtime(1_700_000_000)
    return int(time.mktime((day.tm_year, day.tm_mon, day.tm_mday, 0, 0, 0, 0, 0, -1))) * 1000


async def _no_sleep(seconds: float) -> None:
    pass


async def test_expired_files_go_at_four_in_the_morning_only() -> None:
    world = World()
    fill(world.store, 100)
    count = world.log_files()
    world.clock.advance(73 * HOUR)
    await world.clean()
    assert world.log_files() == count
    world.clock.advance(3 * HOUR)
    await world.clean()
    assert world.log_files() == 1


async def test_young_files_stay() -> None:
    world = World()
    fill(world.store, 100)
    world.clock.advance(4 * HOUR)
    count = world.log_files()
    await world.clean()
    assert world.log_files() == count


async def test_expired_files_go_at_any_hour_when_the_disk_is_three_quarters_full() -> None:
    world = World()
    fill(world.store, 100)
    world.clock.advance(73 * HOUR)
    world.files.used_ratio = 0.76
    await world.clean()
    assert world.log_files() == 1


async def test_the_oldest_files_go_though_not_expired_above_85_per_cent() -> None:
    world = World()
    fill(world.store, 100)
    world.files.used_ratio = 0.86
    await world.clean()
    assert world.log_files() == 1
    assert world.store.writable


async def test_without_force_only_expired_files_go() -> None:
    world = World(clean_file_forcibly=False)
    fill(world.store, 100)
    count = world.log_files()
    world.files.used_ratio = 0.86
    await world.clean()
    assert world.log_files() == count


async def test_writes_are_refused_above_90_per_cent_and_taken_again_below() -> None:
    world = World()
    world.files.used_ratio = 0.91
    await world.clean()
    assert world.store.append(unit()).status is PutStatus.SERVICE_NOT_AVAILABLE
    assert "91 % full" in world.store.health.text
    world.files.used_ratio = 0.5
    await world.clean()
    assert world.store.append(unit()).status is PutStatus.OK


async def test_a_full_disk_is_noticed_at_start() -> None:
    world = World()
    world.files.used_ratio = 0.95
    other = MessageStore(world.store.options, Env(clock=world.clock, files=world.files.after_kill()))
    other.env.files.used_ratio = 0.95  # type: ignore[attr-defined]
    other.open()
    assert not other.writable


async def test_at_most_ten_files_a_pass() -> None:
    world = World()
    fill(world.store, 500)
    count = world.log_files()
    assert count > 12
    world.store.delete_expired_files()
    world.clock.advance(80 * HOUR)
    await world.clean()
    assert world.log_files() == count - 10


async def test_there_is_a_pause_between_two_files() -> None:
    world = World(delete_commitlog_files_interval=timedelta(milliseconds=100))
    fill(world.store, 100)
    world.clock.advance(76 * HOUR)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    world.clock.sleep = sleep  # type: ignore[method-assign]
    count = world.log_files()
    world.store.flusher.begin()
    await world.store.retention.clean()
    assert slept.count(0.1) >= count - 2


async def test_by_hand_expired_files_go_at_any_hour() -> None:
    world = World()
    fill(world.store, 100)
    world.clock.advance(73 * HOUR)
    world.store.delete_expired_files()
    await world.clean()
    assert world.log_files() == 1


async def test_queues_and_index_go_with_the_log() -> None:
    world = World()
    fill(world.store, 100)
    world.store._queue_flusher.flush(thorough=True, keep=0)
    before = len(world.files.list(ROOT / "index"))
    world.clock.advance(76 * HOUR)
    await world.clean()
    log_min = world.store.log_min
    left = read_all(world.store)
    assert left
    assert left[0].physical_offset == log_min
    assert world.store.min_offset("orders", 0) == left[0].queue_offset == 100 - len(left)
    names = world.files.list(ROOT / "consumequeue" / "orders" / "0")
    assert int(names[0]) // 20 <= left[0].queue_offset < int(names[0]) // 20 + 10
    assert len(world.files.list(ROOT / "index")) < before
    old = world.store.get("orders", 0, 0, 32)
    assert (old.status, old.next_offset) == (GetStatus.OFFSET_TOO_SMALL, left[0].queue_offset)


async def test_min_offsets_are_right_after_a_restart_too() -> None:
    world = World()
    fill(world.store, 100)
    world.clock.advance(76 * HOUR)
    await world.clean()
    low = world.store.min_offset("orders", 0)
    for files in (world.files.after_kill(),):
        again = MessageStore(world.store.options, Env(clock=world.clock, files=files))
        again.open()
        assert (again.min_offset("orders", 0), again.max_offset("orders", 0)) == (low, 100)


async def test_a_queue_whose_messages_are_all_gone_serves_no_old_offset() -> None:
    world = World()
    fill(world.store, 3, topic="rare")
    fill(world.store, 100)
    world.clock.advance(76 * HOUR)
    await world.clean()
    assert world.store.get("rare", 0, 0, 32).status is GetStatus.OFFSET_TOO_SMALL
    assert (world.store.min_offset("rare", 0), world.store.max_offset("rare", 0)) == (3, 3)
    assert world.store.append(unit("rare")).queue_offset == 3


async def test_expired_queues_are_dropped_when_asked() -> None:
    world = World()
    fill(world.store, 3, topic="rare")
    fill(world.store, 100)
    world.store._queue_flusher.flush(thorough=True)
    world.clock.advance(76 * HOUR)
    await world.clean()
    assert world.store.clean_expired_consumequeues() == 1
    world.store.tick()
    assert ("rare", 0) not in list(world.store.queues())
    assert not world.files.is_folder(ROOT / "consumequeue" / "rare")


async def test_unused_topics_are_dropped_when_asked() -> None:
    world = World()
    for topic in ("kept", "gone", "SCHEDULE_TOPIC_XXXX"):
        fill(world.store, 2, topic=topic)
    world.store._queue_flusher.flush(thorough=True)
    unused = world.store.unused_topics({"kept"})
    assert len(unused) == 1
    world.store.delete_topics(unused)
    world.store.tick()
    assert sorted(world.files.list(ROOT / "consumequeue")) == ["SCHEDULE_TOPIC_XXXX", "kept"]


async def test_a_file_in_use_gets_its_grace_and_is_then_removed() -> None:
    world = World()
    fill(world.store, 100)
    count = world.log_files()
    reading = world.store.slice_at(0)
    assert reading is not None
    content = bytes(reading)
    world.clock.advance(76 * HOUR)
    await world.clean()
    assert world.log_files() == 2
    assert world.store.get("orders", 0, 0, 1).status is GetStatus.OFFSET_TOO_SMALL
    world.clock.advance(119)
    await world.clean()
    assert world.log_files() == 2
    world.clock.advance(2)
    await world.clean()
    assert world.log_files() == 1
    assert bytes(reading) == content
    assert count > 2


async def test_a_file_is_removed_as_soon_as_its_last_reader_is_done() -> None:
    world = World()
    fill(world.store, 100)
    reading = world.store.slice_at(0)
    assert reading is not None
    world.clock.advance(76 * HOUR)
    await world.clean()
    reading.release()
    await world.clean()
    assert world.log_files() == 1


@pytest.mark.parametrize("when", ["04;16", "16"])
async def test_several_hours_can_be_given(when: str) -> None:
    world = World(delete_when=when)
    fill(world.store, 100)
    world.clock.advance(72 * HOUR + 16 * HOUR)
    await world.clean()
    assert world.log_files() == 1
