"""`ariane guarantee`, as people and scripts call it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy.orm import Session
from typer.testing import CliRunner, Result

from ariane import Admin
from ariane.cli.app import app
from ariane.guarantee import Guarantee
from ariane.testing.cluster import Cluster
from tests.guarantee.servers import ARIANE
from tests.peers import unique, until


def ariane(*arguments: str, database: str | None = None) -> Result:
    """Run a command in this process."""
    world = {} if database is None else {"ARIANE_GUARANTEE_DATABASE": database}
    return CliRunner().invoke(app, ["guarantee", *arguments], env=world)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/shop.db"


def test_a_person_lists_looks_resends_and_voids(url: str) -> None:
    assert "there is no database" in str(ariane("list", "-d", url).exception)
    Path(url.removeprefix("sqlite:///")).touch()
    assert "no such table: message_stub; create the tables with" in str(ariane("list", "-d", url).exception)
    assert ariane("migrate", "-d", url).exit_code == 0
    guarantee = Guarantee(url, consumers={"orders": "billing"})
    with Session(guarantee.engine) as session, session.begin():
        first = guarantee.stage(session, "orders", {"id": 1}, keys="o-1", message_id="pay-1")
        second = guarantee.stage(session, "orders", {"id": 2}, message_id="pay-2")
    listed = ariane("list", "--status", "unconfirmed", "--json", database=url)
    assert [json.loads(line)["message_id"] for line in listed.stdout.splitlines()] == [first, second]
    assert "pay-1" in ariane("list", database=url).stdout
    assert ariane("list", "--attention", "--json", database=url).stdout == ""

    assert ariane("void", first, "--who", "ann", "--reason", "paid twice", database=url).exit_code == 0
    assert ariane("resend", second, "--who", "bob", "--reason", "mended", database=url).exit_code == 0
    shown = json.loads(ariane("show", first, "--json", database=url).stdout)
    assert shown["stub"]["status"] == "void"
    assert (shown["decisions"][0]["who"], shown["decisions"][0]["reason"]) == ("ann", "paid twice")
    printed = ariane("show", second, database=url).stdout
    assert "resend by bob: mended" in printed
    assert '{"id":2}' in printed

    again = ariane("resend", first, "--who", "ann", "--reason", "oh no", database=url)
    assert again.exit_code == 1
    assert "settled already" in str(again.exception)
    assert "no stub of message nix" in str(ariane("show", "nix", database=url).exception)
    assert ariane("void", second, "--who", "ann", database=url).exit_code == 2  # without a reason
    assert "deleted 1 stubs" in ariane("sweep", "--days", "0", database=url).stdout
    guarantee.close()


@pytest.mark.slow
def test_a_resender_runs_as_a_command_until_it_is_stopped(url: str, cluster: Cluster) -> None:
    topic = unique("orders")
    cluster.create_topic(topic, queues=1)
    guarantee = Guarantee(url, consumers={topic: "billing"}, resend_after=0.01)
    guarantee.migrate()
    with Session(guarantee.engine) as session, session.begin():
        message_id = guarantee.stage(session, topic, b"paid")
    arguments = ["run", "-d", url, "-n", cluster.name_servers, "--poll", "0.1"]
    running = subprocess.Popen([*ARIANE, "guarantee", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        until(lambda: guarantee.inspect(message_id)[0].stub.count == 1, 60, "the resend")
        running.terminate()
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.communicate()
    with Admin(name_servers=cluster.name_servers) as admin:
        assert len(admin.query_messages(topic, message_id)) == 1
    guarantee.close()


def test_without_the_extra_the_command_says_what_to_install(tmp_path: Path) -> None:
    (tmp_path / "sqlalchemy.py").write_text("raise ModuleNotFoundError('no', name='sqlalchemy')")
    world = {**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    for code in (["-c", "import ariane.guarantee"], [*ARIANE[1:], "guarantee", "list"]):
        ran = subprocess.run([sys.executable, *code], capture_output=True, text=True, env=world, check=False)
        assert ran.returncode == 1
        assert "pip install 'ariane[guarantee]'" in ran.stderr
