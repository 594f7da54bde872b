"""`ariane app`: started as a user would, with its screen, its health endpoint, its workers and its documents."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ariane import Producer
from ariane.message import Message
from ariane.testing.cluster import Cluster
from tests.peers import unique

pytestmark = pytest.mark.slow  # starts programs

PATIENCE = 90.0
MAIN = "import sys; from ariane.cli import main; sys.argv[0] = 'ariane'; main()"
PROGRAM = """
import asyncio, os, pathlib
from pydantic import BaseModel
from ariane.app import Ariane

app = Ariane("shop", consumer={{"start_at": "first"}})
out = pathlib.Path("out")
out.mkdir(exist_ok=True)

class Order(BaseModel):
    id: int

@app.listener("{topic}", group="{topic}")
async def reserve(order: Order) -> None:
    "Reserve an order's items."
    (out / f"{{order.id}}-{{os.getpid()}}-begun").touch()
    if order.id == 7:
        raise ValueError("unlucky")
    while order.id == 9 and not (out / "go").exists():
        await asyncio.sleep(0.02)
    (out / f"{{order.id}}-{{os.getpid()}}-done").touch()
"""


@pytest.fixture
def topic(ours: Cluster) -> str:
    name = unique("shop")
    ours.create_topic(name, queues=4)
    return name


@pytest.fixture
def program(tmp_path: Path, topic: str) -> Path:
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "__init__.py").touch()
    (tmp_path / "shop" / "main.py").write_text(PROGRAM.format(topic=topic))
    return tmp_path


def environment(ours: Cluster) -> dict[str, str]:
    return {**os.environ, "ARIANE_NAME_SERVERS": ours.name_servers, "PYTHONUNBUFFERED": "1", "COLUMNS": "200"}


class Program:
    """`ariane app ...` in a process of its own."""

    def __init__(self, folder: Path, ours: Cluster, *arguments: str) -> None:
        self.output = folder / "output"
        with self.output.open("wb") as sink:
            self.process = subprocess.Popen(
                [sys.executable, "-c", MAIN, "app", *arguments],
                cwd=folder, env=environment(ours), stdout=sink, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def text(self) -> str:
        return self.output.read_text()

    def find(self, pattern: str, count: int = 1) -> list[str]:
        return until(lambda: re.findall(pattern, self.text()), count, self)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)


def until(look: Callable[[], list[str]], count: int, program: Program | None = None) -> list[str]:
    """What `look` finds, as soon as there is so much of it."""
    deadline = time.monotonic() + PATIENCE
    while len(found := look()) < count:
        assert time.monotonic() < deadline, f"{found}; {'' if program is None else program.text()}"
        assert program is None or program.process.poll() is None, program.text()
        time.sleep(0.02)
    return found


@pytest.fixture
def start(program: Path, ours: Cluster) -> Iterator[Callable[..., Program]]:
    started: list[Program] = []

    def run(*arguments: str) -> Program:
        started.append(Program(program, ours, *arguments))
        return started[-1]

    yield run
    for each in started:
        if each.process.poll() is None:
            each.process.terminate()
            each.process.wait(PATIENCE)


def send(ours: Cluster, topic: str, *numbers: int) -> None:
    with Producer("tests", name_servers=ours.name_servers) as producer:
        for number in numbers:
            producer.send(Message(topic, b'{"id": %d}' % number))


def get(address: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}", timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def done(folder: Path, step: str = "done") -> list[str]:
    return sorted(path.name.split("-")[0] for path in (folder / "out").glob(f"*-{step}"))


def test_an_application_runs_shows_its_health_and_stops_gracefully(
    ours: Cluster, topic: str, program: Path, start: Callable[..., Program]
) -> None:
    running = start("run", "shop.main:app", "--health-port", "0", "--log-format", "json")
    [health] = running.find(r"http://(\S+)/health")
    running.find("Running")
    assert re.search(rf"listener reserve\s+topic {topic}, group {topic}, tags \*, concurrent", running.text())
    send(ours, topic, 1, 7)
    until(lambda: done(program), 1)
    running.find('"level": "WARNING"')
    [line] = [json.loads(line) for line in running.text().splitlines() if '"level": "WARNING"' in line]
    assert (line["listener"], line["topic"], line["reconsume_times"]) == ("reserve", topic, 0)
    assert line["message_id"]
    assert "unlucky" in line["exception"]
    assert get(f"{health}/health")[0] == 200
    status, text = get(f"{health}/ready")
    reserve = json.loads(text)["listeners"]["reserve"]
    assert (status, reserve["handled"], reserve["queues"]) == (200, 1, 4)
    metrics = get(f"{health}/metrics")[1]
    labels = f'{{application="shop",group="{topic}",listener="reserve"}}'
    for sample in ("handled_total", "failed_total", "retried_total"):
        assert f"ariane_listener_{sample}{labels} 1.0" in metrics
    assert f"ariane_listener_duration_seconds_count{labels} 2.0" in metrics
    assert f"ariane_listener_in_flight{labels} 0.0" in metrics
    assert f"ariane_listener_lag{labels} " in metrics
    assert get(f"{health}/nothing")[0] == 404
    send(ours, topic, 9)
    until(lambda: [name for name in done(program, "begun") if name == "9"], 1)
    running.process.send_signal(signal.SIGTERM)
    until(lambda: re.findall("Stopping", running.text()), 1)
    assert get(f"{health}/ready")[0] == 503
    (program / "out" / "go").touch()
    assert running.process.wait(PATIENCE) == 0
    assert "9" in done(program)
    assert "handlers have finished" in running.text()


def test_workers_share_the_messages_and_are_started_again(
    ours: Cluster, topic: str, program: Path, start: Callable[..., Program]
) -> None:
    running = start("run", "shop.main", "--workers", "2", "--health-port", "0")
    running.find("Running", 2)
    numbers = iter(range(100, 10_000))

    def workers() -> list[str]:
        send(ours, topic, *(next(numbers) for _ in range(8)))
        return sorted({path.name.split("-")[1] for path in (program / "out").glob("*-done")})

    first, second = until(workers, 2)[:2]
    os.kill(int(first), signal.SIGKILL)
    running.find("starting it again")
    running.find("Running", 3)
    assert len(until(workers, 3)) >= 3
    assert running.end() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(second), 0)


def test_a_changed_program_is_started_again(program: Path, start: Callable[..., Program]) -> None:
    running = start("run", "shop.main:app", "--reload", "--health-port", "0")
    running.find("Running")
    path = program / "shop" / "main.py"
    path.write_text(path.read_text().replace('"shop"', '"changed-shop"'))
    running.find("The program has changed")
    running.find(r"application\s+changed-shop")
    running.find("Running", 2)
    assert running.end() == 0


def test_documents_are_written_as_json_and_as_a_page(program: Path, ours: Cluster, topic: str) -> None:
    for arguments in (["docs", "shop.main"], ["docs", "shop.main:app", "-o", "shop.html"]):
        ran = subprocess.run(
            [sys.executable, "-c", MAIN, "app", *arguments],
            cwd=program, env=environment(ours), capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr
        if arguments[-1] == "shop.main":
            assert json.loads(ran.stdout)["operations"]["reserve"]["x-group"] == topic
    page = (program / "shop.html").read_text()
    assert "Reserve an order&#x27;s items." in page
    assert not re.search(r"https?://|<script|<link|@import", page)


@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("shop.nothing:app", "there is no module 'shop.nothing' here"),
        ("shop.main:application", "shop.main has no application 'application'; it has app"),
        ("nowhere:app", "there is no module 'nowhere' here"),
    ],
)
def test_a_wrong_target_is_told_in_one_sentence(program: Path, ours: Cluster, target: str, told: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", MAIN, "app", "run", target],
        cwd=program, env=environment(ours), capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert ran.returncode == 1
    assert told in ran.stderr
    assert "Traceback" not in ran.stderr
