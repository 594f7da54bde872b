"""Celery over RocketMQ: a worker in this process runs two tasks, one of them after a retry."""

import os
import threading
from typing import Any

from celery import Celery
from celery.contrib.testing.worker import start_worker

import ariane.app.kombu  # noqa: F401  makes rocketmq:// known to Celery

app = Celery("tasks", broker="rocketmq://" + os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
app.conf.task_acks_late = True  # the task of a worker that dies is run by another
app.conf.task_default_queue = "celery-example"
results: list[str] = []
finished = threading.Event()


@app.task
def invoice(order: int) -> None:
    """Write an invoice."""
    note(f"invoice {order}")


@app.task(bind=True, max_retries=1)
def ship(self: Any, order: int) -> None:
    """Ship an order; the first try fails."""
    if self.request.retries == 0:
        raise self.retry(countdown=1)
    note(f"shipped {order} at try {self.request.retries + 1}")


def note(text: str) -> None:
    """Remember what was done."""
    results.append(text)
    if len(results) == 2:
        finished.set()


if __name__ == "__main__":
    with start_worker(app, pool="solo", perform_ping_check=False, shutdown_timeout=60):
        invoice.delay(7)
        ship.delay(7)
        if not finished.wait(120):
            raise SystemExit(f"only {results} was done")
    print(*sorted(results), sep="\n")
