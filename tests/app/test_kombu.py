"""The kombu transport: its own promises, and a real Celery worker over it."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("celery")

from celery import Celery
from kombu import Connection, Consumer, Exchange, Queue

import ariane.app.kombu
from ariane import Admin
from ariane.app.kombu import seconds_left
from ariane.app.task_queues import DelayLevels, topic_for
from ariane.errors import NameServersUnreachable
from tests.app.conftest import Site
from tests.peers import free_port, unique, until

PATIENCE = 120.0
assert ariane.app.kombu.Transport  # importing it makes rocketmq:// known


@pytest.fixture
def url(site: Site) -> str:
    return f"rocketmq://{site.name_servers}"


@pytest.fixture
def queue(site: Site) -> Queue:
    name = unique("queue")
    with Admin(name_servers=site.name_servers) as admin:
        admin.create_topic(name, queues=2)
    return Queue(name, Exchange(name), routing_key=name)


def drain(connection: Connection, received: list[Any], count: int) -> None:
    deadline = time.monotonic() + PATIENCE
    while len(received) < count:
        assert time.monotonic() < deadline, received
        try:
            connection.drain_events(timeout=1)
        except TimeoutError:
            continue


def test_messages_are_sent_consumed_and_acknowledged(url: str, queue: Queue) -> None:
    received: list[Any] = []

    def done(body: Any, message: Any) -> None:
        received.append(body)
        message.ack()

    with Connection(url) as connection:
        producer = connection.Producer()
        for number in range(20):
            producer.publish({"n": number}, exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue])
        with Consumer(connection, [queue], callbacks=[done]):
            drain(connection, received, 20)
    assert sorted(item["n"] for item in received) == list(range(20))
    with Connection(url) as again, Consumer(again, [queue], callbacks=[done]), pytest.raises(TimeoutError):
        again.drain_events(timeout=3)


def test_what_is_not_acknowledged_or_is_requeued_comes_again(url: str, queue: Queue) -> None:
    seen: list[tuple[str, bool]] = []

    def hold(body: Any, message: Any) -> None:
        seen.append((body, message.delivery_info["redelivered"]))

    def requeue(body: Any, message: Any) -> None:
        seen.append((body, message.delivery_info["redelivered"]))
        if len(seen) == 2:
            message.requeue()
        else:
            message.ack()

    with Connection(url) as connection:
        connection.Producer().publish("job", exchange=queue.exchange, routing_key=queue.routing_key, declare=[queue])
        with Consumer(connection, [queue], callbacks=[hold]):
            drain(connection, seen, 1)
    with Connection(url) as connection, Consumer(connection, [queue], callbacks=[requeue]):
        drain(connection, seen, 3)
    assert seen == [("job", False), ("job", False), ("job", True)]


def test_no_more_than_the_prefetch_count_is_delivered(url: str, queue: Queue) -> None:
    held: list[Any] = []
    with Connection(url) as connection:
        for number in range(5):
            connection.Producer().publish(number, exchange=queue.exchange, routing_key=queue.name, declare=[queue])
        consumer = Consumer(connection, [queue], callbacks=[lambda body, message: held.append(message)])
        consumer.qos(prefetch_count=2)
        with consumer:
            drain(connection, held, 2)
            with pytest.raises(TimeoutError):
                connection.drain_events(timeout=1)
            held[0].ack()
            drain(connection, held, 3)


def test_the_backlog_is_counted_and_purged(url: str, queue: Queue) -> None:
    with Connection(url) as connection:
        bound = queue(connection.default_channel)
        bound.declare()
        for number in range(3):
            connection.Producer().publish(number, exchange=queue.exchange, routing_key=queue.name)
        until(lambda: bound.queue_declare(passive=True).message_count == 3, PATIENCE, "three messages in the queue")
        assert bound.purge() == 3
        assert bound.queue_declare(passive=True).message_count == 0


def test_an_unreachable_cluster_is_an_error_of_the_connection() -> None:
    connection = Connection(f"rocketmq://127.0.0.1:{free_port()}")
    with pytest.raises(connection.connection_errors) as caught:
        connection.connect()
    assert isinstance(caught.value, NameServersUnreachable)
    connection.release()
    assert not [thread for thread in threading.enumerate() if thread.name == "ariane-kombu"]


def test_names_and_delays_are_translated() -> None:
    assert topic_for("celery@host.pidbox") == "celery_host_pidbox"
    levels = DelayLevels()
    assert [levels.level_for(seconds) for seconds in (0, 0.9, 1, 29, 30, 7200, 1e6)] == [0, 0, 1, 3, 4, 18, 18]
    assert DelayLevels("2s 1m").level_for(61) == 2
    with pytest.raises(ValueError, match="no delay level"):
        DelayLevels("soon")
    assert seconds_left({"headers": {"eta": "2000-01-01T00:00:00"}}) == 0
    assert seconds_left({"headers": {"eta": "2999-01-01T00:00:00+00:00"}}) > 1e9


TASKS = """
import os, pathlib, time
import ariane.app.kombu
from celery import Celery
from kombu import Queue

app = Celery("tasks", broker={url!r})
app.conf.task_default_queue = {first!r}
app.conf.task_queues = [Queue({first!r}), Queue({second!r})]
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1
app.conf.broker_connection_retry_on_startup = True
out = pathlib.Path({out!r})

def note(name):
    (out / f"{{name}}-{{os.getpid()}}-{{time.time_ns()}}").touch()

@app.task
def add(name, a, b):
    note(f"{{name}}={{a + b}}")

@app.task(bind=True, max_retries=3)
def moody(self, name):
    note(f"{{name}}-try{{self.request.retries}}")
    if self.request.retries < 2:
        raise self.retry(countdown=1)

@app.task
def slow(name):
    note(f"{{name}}-begun")
    while not (out / "go").exists():
        time.sleep(0.05)
    note(f"{{name}}-done")

@app.task
def chained(name):
    add.delay(name, 20, 22)
"""


class Workers:
    """Celery workers in processes of their own."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder = folder
        self.out = folder / "out"
        self.out.mkdir()
        self.first, self.second = unique("celery"), unique("celery.second")
        (folder / "tasks.py").write_text(TASKS.format(url=url, first=self.first, second=self.second, out=str(self.out)))
        self.processes: list[subprocess.Popen[bytes]] = []
        self.app = Celery("tasks", broker=url)
        self.app.conf.task_default_queue = self.first

    def start(self, name: str, *options: str) -> subprocess.Popen[bytes]:
        log = (self.folder / f"{name}.log").open("wb")
        command = [
            sys.executable,
            "-m",
            "celery",
            "-A",
            "tasks",
            "worker",
            "-n",
            f"{name}@here",
            "-l",
            "INFO",
            *options,
        ]
        process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, start_new_session=True)
        log.close()
        self.processes.append(process)
        self.until(lambda: "ready." in (self.folder / f"{name}.log").read_text())
        return process

    def send(self, task: str, *arguments: Any, **options: Any) -> None:
        self.app.send_task(f"tasks.{task}", arguments, **options)

    def notes(self, prefix: str) -> list[str]:
        return sorted(path.name for path in self.out.glob(f"{prefix}*"))

    def until(self, ready: Callable[[], object]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not ready():
            logs = "\n".join(path.read_text() for path in self.folder.glob("*.log"))
            assert time.monotonic() < deadline, f"{self.notes('')}\n{logs[-6000:]}"
            time.sleep(0.05)

    def close(self) -> None:
        for process in self.processes:  # a worker that is asked to stop takes 8 s; tests ask the one that it is about
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self.app.close()


@pytest.fixture
def workers(tmp_path: Path, url: str) -> Iterator[Workers]:
    made = Workers(tmp_path, url)
    yield made
    made.close()


@pytest.mark.slow
def test_a_celery_worker_runs_retries_and_delays_tasks_of_several_queues(workers: Workers) -> None:
    workers.start("one", "-c", "2")
    workers.send("add", "plain", 1, 2)
    workers.send("add", "other", 3, 4, queue=workers.second)
    workers.send("moody", "moody")
    workers.send("chained", "chained")
    sent = time.time_ns()
    workers.send("add", "later", 5, 6, countdown=2)
    for note in ("plain=3", "other=7", "moody-try2", "chained=42", "later=11"):
        workers.until(lambda note=note: workers.notes(note))
    assert len(workers.notes("moody")) == 3
    [later] = workers.notes("later=11")
    assert int(later.rsplit("-", 1)[1]) - sent > 1.9e9


@pytest.mark.slow
def test_the_task_of_a_killed_worker_is_run_by_another(workers: Workers) -> None:
    first = workers.start("one", "-c", "1")
    workers.send("slow", "job")
    workers.until(lambda: workers.notes("job-begun"))
    os.killpg(first.pid, signal.SIGKILL)
    first.wait()
    workers.start("two", "-c", "1")
    workers.until(lambda: len(workers.notes("job-begun")) == 2)
    assert not workers.notes("job-done")
    (workers.out / "go").touch()
    workers.until(lambda: workers.notes("job-done"))


@pytest.mark.slow
def test_a_worker_that_is_stopped_finishes_its_task_once(workers: Workers) -> None:
    first = workers.start("one", "-c", "1")
    workers.send("slow", "job")
    workers.until(lambda: workers.notes("job-begun"))
    first.terminate()
    (workers.out / "go").touch()
    first.wait(PATIENCE)
    workers.until(lambda: workers.notes("job-done"))
    workers.start("two", "-c", "1")
    workers.send("add", "after", 1, 1)
    workers.until(lambda: workers.notes("after=2"))
    assert len(workers.notes("job-begun")) == 1
