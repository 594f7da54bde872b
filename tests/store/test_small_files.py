"""The files of config/: the old or the new text after a crash at any instant, and a .bak to fall back to."""

import json
from contextlib import suppress
from pathlib import Path

import pytest

from ariane.store import ConfigFile
from ariane.testing.faults import Crash, MemoryFiles

PATH = Path("/store/config/topics.json")


def files_with(*texts: str) -> MemoryFiles:
    files = MemoryFiles()
    config = ConfigFile(PATH, files)
    for text in texts:
        config.save(text)
    return files


def test_a_saved_text_is_loaded() -> None:
    files = files_with('{"a": 1}')
    assert ConfigFile(PATH, files).load(json.loads) == {"a": 1}


def test_nothing_saved_gives_none() -> None:
    assert ConfigFile(PATH, MemoryFiles()).load(json.loads) is None


def test_the_replaced_text_is_kept_as_bak() -> None:
    files = files_with('{"a": 1}', '{"a": 2}', '{"a": 3}')
    assert files.read(PATH.with_name("topics.json.bak")) == b'{"a": 2}'


def test_a_damaged_file_is_read_from_its_bak(caplog: pytest.LogCaptureFixture) -> None:
    files = files_with('{"a": 1}', '{"a": 2}')
    files.replace(PATH, b'{"a": ')
    config = ConfigFile(PATH, files)
    assert config.load(json.loads) == {"a": 1}
    assert "topics.json is damaged" in caplog.text
    config.save('{"a": 3}')
    assert files.read(config.backup) == b'{"a": 1}'


def test_bytes_that_are_no_text_are_damage_too() -> None:
    files = files_with('{"a": 1}', '{"a": 2}')
    files.replace(PATH, b"\xff\xfe\x00")
    assert ConfigFile(PATH, files).load(json.loads) == {"a": 1}


def test_the_same_text_is_not_written_twice() -> None:
    files = files_with('{"a": 1}')
    config = ConfigFile(PATH, files)
    config.load(json.loads)
    count = len(files.calls)
    config.save('{"a": 1}')
    assert len(files.calls) == count


def test_a_crash_at_any_instant_leaves_the_old_or_the_new() -> None:
    whole = files_with('{"a": 1}', '{"a": 2}')
    steps = len(whole.calls) - len(files_with('{"a": 1}').calls)
    seen: set[int] = set()
    for stop in range(steps + 1):
        files = files_with('{"a": 1}')
        config = ConfigFile(PATH, files)
        config.load(json.loads)
        files.crash_at = len(files.calls) + stop
        with suppress(Crash):
            config.save('{"a": 2}')
        for left in (files.after_power_cut(), files.after_kill(), files.after_torn_writes(stop)):
            value = ConfigFile(PATH, left).load(json.loads)
            assert value is not None
            seen.add(value["a"])
    assert seen == {1, 2}
