"""The subcommands of access control, run against a guarded broker of ours and of Apache's, compared with mqadmin."""

import asyncio
import io
import re
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ariane.cli.admin.call import parse
from ariane.cli.admin.main import execute
from ariane.cli.admin.table import find
from ariane.cli.app import app
from ariane.client.options import ClientOptions
from tests.access.matrix import SECRET
from tests.access.test_apache import KEYS, Site, apache, ours
from tests.peers import Driver, unique

__all__ = ["apache", "ours"]


@pytest.fixture(params=["ours", "apache"])
def site(request: pytest.FixtureRequest) -> Site:
    """First our guarded broker, then Apache's."""
    found: Site = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def both(site: Site, java: Driver) -> Callable[[str], tuple[list[str], list[str]]]:
    """Run a subcommand with both tools: ours, Apache's."""

    def run(text: str) -> tuple[list[str], list[str]]:
        words = [site.broker if word == "BROKER" else word for word in text.split()]
        theirs = java.mqadmin(*words, "-n", site.namesrv, **KEYS)
        return normal(admin(site, *words)), normal(theirs)

    return run


def admin(site: Site, *words: str) -> str:
    command = find(words[0])
    assert command is not None
    out = io.StringIO()
    with redirect_stdout(out), redirect_stderr(out):
        options = ClientOptions(name_servers=site.namesrv, **KEYS)
        asyncio.run(execute(command, parse(command.flags(), list(words[1:])), options))
    return out.getvalue()


def normal(text: str) -> list[str]:
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "TIME", text)
    return [" ".join(line.split()) for line in text.splitlines() if line.strip()]


def test_an_account_from_its_creation_to_its_end(
    both: Callable[[str], tuple[list[str], list[str]]], site: Site
) -> None:
    key = unique("key")
    words = (
        f"updateAclConfig -b BROKER -a {key} -s 12345678 -i DENY -u SUB -t orders=PUB,bills=SUB -g group=SUB -m false"
    )
    mine, theirs = both(words)
    assert mine[0] == theirs[0]
    assert mine[0].startswith("create or update plain access config to")
    mine, theirs = both("getAclConfig -b BROKER")
    assert mine == theirs
    assert f"accessKey : {key}" in mine
    mine, theirs = both(words.replace("-b BROKER", "-c DefaultCluster").replace("orders=PUB", "orders=DENY"))
    assert mine[0] == theirs[0]
    mine, theirs = both("clusterAclConfigVersion -c DefaultCluster")
    assert [line.split()[:3] for line in mine] == [line.split()[:3] for line in theirs]
    mine, theirs = both("clusterAclConfigVersion -b BROKER")
    assert mine[-1] == theirs[-1]
    mine, theirs = both("updateGlobalWhiteAddr -b BROKER -g 10.0.0.1")
    assert mine == theirs
    assert "globalWhiteRemoteAddresses: [10.0.0.1]" in both("getAclConfig -c DefaultCluster")[0]
    assert "success" in admin(site, "deleteAclConfig", "-b", site.broker, "-a", key)
    assert f"accessKey : {key}" not in normal(admin(site, "getAclConfig", "-b", site.broker))


def test_the_grouped_form(site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "profiles.toml"
    lines = [f'name_servers = "{site.namesrv}"', 'access_key = "admin-key"', f'secret_key = "{SECRET}"']
    file.write_text("\n".join(["[guarded]", *lines]))
    monkeypatch.setenv("ARIANE_PROFILES", str(file))
    monkeypatch.setenv("ARIANE_PROFILE", "guarded")
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    key = unique("key")

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, ["acl", *words])
        assert done.exit_code == 0, done.output + str(done.exception)
        return done.stdout

    run("update", key, "--secret-key", "12345678", "--topic", "orders=PUB", "--topic-default", "DENY")
    listed = run("list")
    assert re.search(rf"{key} .*orders=PUB", listed)
    assert "12345678" not in listed + run("list", "--json")
    run("delete", key, "--yes")
    assert key not in run("list")
