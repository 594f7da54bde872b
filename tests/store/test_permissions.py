"""Nobody but the broker's user and group can read what it stores; secrets are for the user alone."""

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ariane.env import Env, SystemFiles
from ariane.settings.edit import rewrite
from ariane.store import ConfigFile, MessageStore, StoreOptions
from tests.store.units import fill


@pytest.fixture
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077], indirect=True)
def test_others_cannot_read_a_store(umask: int, tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    options = StoreOptions(root=root, commitlog_file_size=4096, index_slots=10, index_entries=50)

    async def use() -> None:
        store = MessageStore(options, Env())
        store.open()
        fill(store, 60)
        ConfigFile(root / "config" / "topics.json", store.env.files).save("{}")
        assert {mode(path) for path in (root / "abort", root / "lock")} == {0o640 & ~umask}
        await store.close()

    asyncio.run(use())
    found = [root, *root.rglob("*"), root.parent]
    assert len(found) > 15
    for path in found:
        assert mode(path) == (0o750 if path.is_dir() else 0o640) & ~umask, path


@pytest.mark.parametrize("umask", [0o000], indirect=True)
def test_configuration_with_secrets_is_for_its_owner_alone(umask: int, tmp_path: Path) -> None:
    path = tmp_path / "conf" / "broker.conf"
    rewrite(SystemFiles(), path, {"secretKey": "x"})
    assert mode(path) == 0o600


@pytest.mark.parametrize("umask", [0o000], indirect=True)
@pytest.mark.parametrize(("before", "after"), [(0o644, 0o640), (0o640, 0o640), (0o600, 0o600)])
def test_a_changed_configuration_keeps_the_rights_of_its_group(
    umask: int, before: int, after: int, tmp_path: Path
) -> None:
    path = tmp_path / "broker.conf"
    path.touch()
    path.chmod(before)
    rewrite(SystemFiles(), path, {"secretKey": "x"})
    assert mode(path) == after


@pytest.mark.parametrize("umask", [0o000], indirect=True)
def test_a_draft_left_by_a_crash_does_not_widen_the_rights(umask: int, tmp_path: Path) -> None:
    draft = tmp_path / "broker.conf.tmp"
    draft.touch()
    draft.chmod(0o666)
    rewrite(SystemFiles(), tmp_path / "broker.conf", {"secretKey": "x"})
    assert mode(tmp_path / "broker.conf") == 0o600
