"""Rules copied from a master: all files come into force together, whatever fails on the way."""

import stat
from pathlib import Path

import pytest

from ariane.access.rules import COPIED, LiveRules
from ariane.env import Env
from ariane.settings import ConfigError
from ariane.testing.faults import MemoryFiles
from tests.access.test_rules import account

HOME = Path("/home")
DEFAULT = HOME / "conf/plain_acl.yml"


def loaded(files: MemoryFiles) -> LiveRules:
    rules = LiveRules(files, Env().clock, HOME)
    rules.load()
    return rules


def old_files() -> MemoryFiles:
    files = MemoryFiles()
    for folder in (HOME / "conf", HOME / "conf/acl"):
        files.make_folder(folder)
    files.replace(DEFAULT, account("account1").encode(), secret=True)
    files.replace(HOME / "conf/acl/old.yml", account("account2").encode(), secret=True)
    return files


NEW = {"": account("account3").encode(), "team/a.yml": account("account4", ", admin: true").encode()}


async def test_all_files_are_replaced_and_others_removed(tmp_path: Path) -> None:
    (tmp_path / "conf/acl").mkdir(parents=True)
    (tmp_path / "conf/acl/old.yml").write_text(account("account2"))
    (tmp_path / "conf/plain_acl.yml").write_text(account("account1"))
    rules = LiveRules(Env().files, Env().clock, tmp_path)
    rules.load()
    told: list[int] = []
    rules.on_change.append(lambda: told.append(len(rules.current.accounts)))
    assert await rules.mirror(NEW)
    assert sorted(rules.current.accounts) == ["account3", "account4"]
    assert rules.texts() == NEW
    assert told == [2]
    assert not (tmp_path / "conf/acl/old.yml").exists()
    assert not (tmp_path / COPIED).exists()
    assert stat.S_IMODE((tmp_path / "conf/acl/team/a.yml").stat().st_mode) == 0o600
    assert not await rules.mirror(NEW)  # nothing to do
    await rules.refresh()
    assert told == [2]


@pytest.mark.parametrize(
    "texts",
    [
        {},
        {"": b"accounts: {"},
        {**NEW, "b.yml": b"accounts: 1"},
        {**NEW, "../b.yml": NEW[""]},
        {**NEW, "/etc/b.yml": NEW[""]},
        {**NEW, "a/../../b.yml": NEW[""]},
        {**NEW, "a\\b.yml": NEW[""]},
        {**NEW, "b.txt": NEW[""]},
        {**NEW, "a/" * 20 + "b.yml": NEW[""]},
        {**NEW, "b.yml": b"\xff\xfe"},
    ],
)
async def test_one_wrong_file_changes_nothing(texts: dict[str, bytes]) -> None:
    files = old_files()
    rules = loaded(files)
    with pytest.raises(ConfigError):
        await rules.mirror(texts)
    assert sorted(rules.current.accounts) == ["account1", "account2"]
    assert sorted(loaded(files).current.accounts) == ["account1", "account2"]


async def test_power_cut_at_any_step_leaves_the_old_rules_or_the_new_ones() -> None:
    files = old_files()
    rules = loaded(files)
    disks: list[MemoryFiles] = []
    files.before_call = lambda: disks.append(files.after_power_cut())
    assert await rules.mirror(NEW)
    files.before_call = None
    found = [tuple(sorted(loaded(disk).current.accounts)) for disk in (*disks, files.after_power_cut())]
    assert len(found) > 5
    assert set(found) == {("account1", "account2"), ("account3", "account4")}
    assert found == sorted(found)  # never back
    assert not any(disk.exists(HOME / COPIED) for disk in disks)  # each start has finished the copy


@pytest.mark.parametrize("part", ["copied", "plain_acl", "team"])
async def test_full_disk_at_any_file_leaves_the_old_rules_in_force(part: str) -> None:
    files = old_files()
    rules = loaded(files)
    rule = files.fail("write", part=part)
    with pytest.raises(OSError):  # noqa: PT011
        await rules.mirror(NEW)
    await rules.refresh()  # half of the files are new: the watch must not take them over
    assert sorted(rules.current.accounts) == ["account1", "account2"]
    files.rules.remove(rule)
    await rules.refresh()
    expected = ["account1", "account2"] if part == "copied" else ["account3", "account4"]
    assert sorted(rules.current.accounts) == expected
    await rules.mirror(NEW)
    assert sorted(rules.current.accounts) == ["account3", "account4"]
    assert rules.texts() == NEW


def test_note_that_cannot_be_read_refuses_the_start() -> None:
    files = old_files()
    files.replace(HOME / COPIED, b"{", secret=True)
    with pytest.raises(ConfigError, match=r"acl.copied: .* delete it"):
        loaded(files)
