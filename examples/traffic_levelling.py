"""Level a burst: callers are done at once, and a slow service works off the backlog at its own pace."""

import threading
import time
from collections.abc import Sequence

from ariane import ConsumeFrom, ConsumeStatus, Message, Producer, PushConsumer, ReceivedMessage

BURST = 300
WORKERS = 4  # what the service bears

running = most = done = 0
lock = threading.Lock()
finished = threading.Event()


def work(messages: Sequence[ReceivedMessage]) -> ConsumeStatus:
    """Serve one order; never more than WORKERS of these run at a time, however many wait."""
    global running, most, done
    with lock:
        running += 1
        most = max(most, running)
    time.sleep(0.005)  # the slow database
    with lock:
        running -= 1
        done += len(messages)
        if done == BURST:
            finished.set()
    return ConsumeStatus.CONSUME_SUCCESS


with Producer("shop") as producer:
    for future in [producer.submit(Message("flash-sale", b"order %d" % number)) for number in range(BURST)]:
        future.result()
print(f"{BURST} orders accepted, none served yet")
options = {"consume_from": ConsumeFrom.FIRST, "threads": WORKERS, "max_cached_messages": 64, "rebalance_interval": 1}
with PushConsumer("warehouse", "flash-sale", work, **options):
    if not finished.wait(120):
        raise SystemExit(f"only {done} of {BURST} orders were served")
print(f"{done} orders served, at most {most} at a time")
