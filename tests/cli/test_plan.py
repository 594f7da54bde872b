"""`ariane plan`: its model agrees with real stores, and its page with what it prints."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from ariane.cli.app import app
from ariane.cli.plan.model import MEASURED as COSTS
from ariane.cli.plan.model import Sending, Workload, kept_bytes, master_us, memory_bytes, plan, stored_bytes
from ariane.env import Env
from ariane.errors import ConfigError
from ariane.store import MessageStore, StoreOptions
from tests.cli.programs import run
from tests.store.units import unit

PAGE = Path(__file__).parents[2] / "docs" / "capacity.md"
LOAD = Workload(rate=10_000, size=1000)


def test_the_page_shows_what_the_command_prints() -> None:
    [start, *shown] = [line[4:] for line in PAGE.read_text().splitlines() if line.startswith("    ")]
    command = start.removeprefix("$ ").split()
    done = run(command[0], *command[1:])
    assert done.returncode == 0, done.stderr
    assert [line.rstrip() for line in done.stdout.splitlines()] == [line.rstrip() for line in shown]


def test_the_bytes_of_a_message_are_those_of_a_store(tmp_path: Path) -> None:
    store = MessageStore(
        StoreOptions(root=tmp_path, commitlog_file_size=1 << 20, index_slots=10, index_entries=50), Env()
    )
    store.open()
    message = unit("orders", b"b" * 300, KEYS="k", UNIQ_KEY="U" * 32)
    store.append(message)
    load = Workload(rate=1, size=300, topic_length=len("orders"), properties=len(message.properties), keys=1)
    assert store.log_max == stored_bytes(load)
    assert kept_bytes(load) == stored_bytes(load) + 20 + 2 * 21
    asyncio.run(store.close())


def test_every_part_of_a_load_costs_something() -> None:
    costs = COSTS[Sending.ASYNC]
    for more in ({"size": 2000}, {"groups": 2}, {"replicas": 3}):
        assert master_us(replace(LOAD, **more), costs) > master_us(LOAD, costs)
    for more in ({"topics": 5000}, {"queues": 64}, {"connections": 10_000}):
        assert memory_bytes(replace(LOAD, **more), costs) > memory_bytes(LOAD, costs)
    assert [COSTS[one].send_us for one in (Sending.SYNC, Sending.ASYNC, Sending.BATCH)] == sorted(
        (costs.send_us for costs in COSTS.values()), reverse=True
    )


def test_a_load_beyond_one_core_is_spread_over_masters() -> None:
    def figures(load: Workload) -> dict[str, float]:
        return {line.name: line.value for line in plan(load)}

    small, large = figures(LOAD), figures(replace(LOAD, rate=1_000_000))
    assert small["masters"] == 1
    assert large["masters"] > 5
    assert large["CPU of a master"] <= 0.6
    assert large["masters"] * large["rate of a master"] == pytest.approx(1_000_000)
    kept = small["kept by a broker"] * small["masters"]
    assert large["kept by a broker"] * large["masters"] == pytest.approx(100 * kept)


def test_programs_get_json() -> None:
    found = json.loads(run("ariane", "plan", "--rate", "5000", "--size", "2k", "--retention", "7d", "--json").stdout)
    assert found["stored message"]["value"] == 91 + 16 + 64 + 2048
    assert all(line["why"] for line in found.values())


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--size", "big"), "1k"),
        (("--size", "0"), "512"),
        (("--size", "17m"), "ends at 16m"),
        (("--size", "9" * 400), "ends at 16m"),
        (("--retention", "3"), "72h"),
        (("--retention", "0d"), "72h"),
        (("--retention", "9999999d"), "ten years"),
        (("--rate", "0"), "--rate"),
        (("--rate", "inf"), "--rate"),
        (("--rate", "nan"), "--rate"),
        (("--replicas", "0"), "--replicas"),
        (("--groups", "-1"), "--groups"),
        (("--topics", "999999999999"), "--topics"),
        (("--properties", "40000"), "--properties"),
        (("--cpu", "nan"), "--cpu"),
    ],
)
def test_a_load_that_cannot_be_is_refused_with_what_to_give(words: tuple[str, str], said: str) -> None:
    done = CliRunner().invoke(app, ["plan", "--rate", "1", *words])
    assert isinstance(done.exception, ConfigError | SystemExit)
    assert said in done.output + str(done.exception)
