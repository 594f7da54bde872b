"""Rules files on the disk: taken over when they change, never by half."""

from pathlib import Path

import pytest

from ariane.access.rules import LiveRules
from ariane.env import Env
from ariane.settings import ConfigError


def account(name: str, more: str = "") -> str:
    return f"accounts:\n- {{accessKey: {name}, secretKey: 12345678{more}}}\n"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "conf/acl/team").mkdir(parents=True)
    (tmp_path / "conf/plain_acl.yml").write_text(account("account1"))
    return tmp_path


def loaded(home: Path) -> LiveRules:
    env = Env()
    rules = LiveRules(env.files, env.clock, home)
    rules.load()
    return rules


def test_all_files_are_read_and_the_folder_wins(home: Path) -> None:
    (home / "conf/acl/team/a.yml").write_text(account("account2") + "globalWhiteRemoteAddresses: [1.2.3.4]")
    (home / "conf/acl/b.yaml").write_text(account("account1", ", admin: true"))
    (home / "conf/acl/c.txt").write_text("not: [read")
    rules = loaded(home).current
    assert sorted(rules.accounts) == ["account1", "account2"]
    assert rules.accounts["account1"].admin
    assert rules.is_white(bytes([1, 2, 3, 4]))
    assert [warning for warning in rules.warnings() if "account1 is in" in warning]


def test_a_start_without_any_file_or_with_a_broken_one_is_refused(home: Path) -> None:
    (home / "conf/acl/b.yml").write_text("accounts: 1")
    with pytest.raises(ConfigError, match=r"b.yml:1: accounts: expected a list"):
        loaded(home)
    (home / "conf/acl/b.yml").unlink()
    (home / "conf/plain_acl.yml").unlink()
    with pytest.raises(ConfigError, match=r"plain_acl.yml: aclEnable is true and there is no rules file"):
        loaded(home)


async def test_changes_are_taken_over_and_a_broken_file_keeps_its_last_good_rules(home: Path) -> None:
    rules = loaded(home)
    file = home / "conf/plain_acl.yml"
    file.write_text(account("account3") + "globalWhiteRemoteAddresses: [1.2.3.4]")
    await rules.refresh()
    assert list(rules.current.accounts) == ["account3"]
    assert rules.current.is_white(bytes([1, 2, 3, 4]))
    for broken in ("globalWhiteRemoteAddresses: [1.2.3.5]\naccounts: {", "", "# nothing yet"):
        file.write_text(broken)
        await rules.refresh()
        await rules.refresh()
        assert list(rules.current.accounts) == ["account3"]
        assert not rules.current.is_white(bytes([1, 2, 3, 5]))
        assert rules.counters.broken_files == 1
    assert rules.counters.reload_failures == 3
    file.write_text(account("account4"))
    await rules.refresh()
    assert list(rules.current.accounts) == ["account4"]
    assert not rules.current.is_white(bytes([1, 2, 3, 4]))
    assert rules.counters.broken_files == 0
    file.unlink()
    await rules.refresh()
    assert rules.current.accounts == {}


async def test_a_broken_file_does_not_hold_others_back(home: Path) -> None:
    rules = loaded(home)
    (home / "conf/plain_acl.yml").write_text("[")
    (home / "conf/acl/new.yml").write_text(account("account2"))
    await rules.refresh()
    assert sorted(rules.current.accounts) == ["account1", "account2"]


async def test_a_change_that_would_break_the_file_is_not_written(home: Path) -> None:
    rules = loaded(home)
    file = home / "conf/plain_acl.yml"
    before = file.read_bytes()
    with pytest.raises(ConfigError):
        await rules.change(file, lambda data: {**data, "accounts": "none"})
    assert file.read_bytes() == before
    await rules.change(file, lambda data: {**data, "globalWhiteRemoteAddresses": ["1.2.3.4"]})
    assert rules.current.is_white(bytes([1, 2, 3, 4]))
    assert rules.current.files[0].version.counter == 1
    assert file.stat().st_mode & 0o077 == 0 or file.stat().st_mode & 0o007 == 0
