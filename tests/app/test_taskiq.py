"""The taskiq broker: tasks run, fail over and are delayed; a real `taskiq worker` is killed in one."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("taskiq")

from taskiq import TaskiqMessage

from ariane.app.taskiq import RocketmqBroker
from ariane.errors import NotRunning
from tests.app.conftest import Site
from tests.peers import unique

PATIENCE = 120.0
PROGRAM = """
import pathlib, os, asyncio
from ariane.app.taskiq import RocketmqBroker

broker = RocketmqBroker({servers!r}, queue={queue!r})
out = pathlib.Path({out!r})

@broker.task
async def slow(name: str) -> None:
    (out / f"{{name}}-{{os.getpid()}}-begun").touch()
    while not (out / "go").exists():
        await asyncio.sleep(0.05)
    (out / f"{{name}}-{{os.getpid()}}-done").touch()
"""


async def test_tasks_arrive_and_are_acknowledged(site: Site) -> None:
    broker = RocketmqBroker(site.name_servers, queue=unique("tasks"))
    with pytest.raises(NotRunning, match="startup"):
        await broker.kick(broker.formatter.dumps(message("early")))
    await broker.startup()
    for number in range(3):
        await broker.kick(broker.formatter.dumps(message(str(number))))
    await broker.kick(broker.formatter.dumps(message("later", delay=1)))
    seen = []
    async with asyncio.timeout(PATIENCE):
        async for task in broker.listen():
            seen.append(broker.formatter.loads(task.data).args[0])
            await task.ack()  # type: ignore[misc]
            if len(seen) == 4:
                break
    assert sorted(seen) == ["0", "1", "2", "later"]
    await broker.shutdown()


def message(name: str, **labels: object) -> TaskiqMessage:
    return TaskiqMessage(task_id=name, task_name="tests:task", labels=labels, args=[name], kwargs={})


@pytest.mark.slow
async def test_the_task_of_a_killed_worker_is_run_by_another(site: Site, tmp_path: Path) -> None:
    out, queue = tmp_path / "out", unique("tasks")
    out.mkdir()
    (tmp_path / "program.py").write_text(PROGRAM.format(servers=site.name_servers, queue=queue, out=str(out)))
    workers = [start(tmp_path)]
    broker = RocketmqBroker(site.name_servers, queue=queue)
    await broker.startup()
    try:
        slow = broker.register_task(lambda name: None, task_name="program:slow")
        await slow.kiq("job")
        await until(lambda: len(list(out.glob("job-*-begun"))) == 1)
        os.killpg(workers[0].pid, signal.SIGKILL)
        workers[0].wait()
        workers.append(start(tmp_path))
        await until(lambda: len(list(out.glob("job-*-begun"))) == 2)
        (out / "go").touch()
        await until(lambda: len(list(out.glob("job-*-done"))) == 1)
    finally:
        (out / "go").touch()
        await broker.shutdown()
        for worker in workers:
            if worker.poll() is None:
                os.killpg(worker.pid, signal.SIGTERM)
                worker.wait(PATIENCE)


def start(folder: Path) -> "subprocess.Popen[bytes]":
    command = [sys.executable, "-m", "taskiq", "worker", "program:broker", "--workers", "1"]
    with (folder / "log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, stdout=log, stderr=log, start_new_session=True)


async def until(ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not ready():
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)
