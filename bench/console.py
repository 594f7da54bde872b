"""The console with many topics and groups: when each page can be used, what it costs the broker and the console.

    python -m bench.console --topics 1000 --groups 2000

Starts a broker, fills it, starts `ariane console` over it, and opens pages in Chromium. A page can be used when its
table has rows. The lag of the broker's event loop is sampled every 10 ms in the broker's process.
"""

import argparse
import asyncio
import os
import shutil
import statistics
import tempfile
import threading
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from ariane import Admin, Message, Producer
from tests.cluster import Cluster, running_cluster
from tests.console.site import PASSWORD, start_site, write_users

PAGES = {
    "cluster": ".broker-card",
    "topics": "tbody tr",
    "groups": "tbody tr",
    "topic?name=topic-7": "tbody tr",
    "group?name=group-7": "tbody tr",
    "messages?topic=topic-7": "tbody tr",
    "history": "svg",
    "alarms": ".tile-value",
}


class LoopLag:
    """Measures how late the loop of a cluster wakes up, and the processor time of its callbacks.

    On a machine that others use, a late loop may have waited for a core; the processor time of a callback has no part
    of that.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._loop = cluster.call(asyncio.get_running_loop)
        self._steps: list[float] = []
        self._stop = threading.Event()
        self.late_ms: list[float] = []
        self._thread = threading.Thread(target=lambda: cluster.run(self._measure()))

    async def _measure(self) -> None:
        while not self._stop.is_set():
            begun = time.perf_counter()
            await asyncio.sleep(0.01)
            self.late_ms.append((time.perf_counter() - begun - 0.01) * 1000)

    def start(self) -> None:
        """Begin."""
        run, loop, steps = asyncio.Handle._run, self._loop, self._steps
        self._run = run

        def timed(handle: asyncio.Handle) -> None:
            begun = time.thread_time()
            run(handle)
            if handle._loop is loop:
                steps.append((time.thread_time() - begun) * 1000)

        asyncio.Handle._run = timed  # type: ignore[method-assign]
        self._thread.start()

    def stop(self) -> str:
        """The figures since the start."""
        self._stop.set()
        self._thread.join()
        asyncio.Handle._run = self._run  # type: ignore[method-assign]
        late, steps = sorted(self.late_ms), sorted(self._steps)
        long = sum(step > 10 for step in steps)
        return (
            f"late by {statistics.median(late):.1f} ms (median), {late[int(len(late) * 0.99)]:.1f} ms (p99), "
            f"{late[-1]:.1f} ms (max); longest callback {steps[-1]:.1f} ms of processor time, {long} over 10 ms"
        )


def fill(cluster: Cluster, topics: int, groups: int) -> None:
    """Create topics with a message each, and groups that have offsets."""
    with Admin(name_servers=cluster.namesrv) as admin, Producer("fill", name_servers=cluster.namesrv) as producer:
        address = admin.masters()[0]
        for number in range(topics):
            admin.create_topic(f"topic-{number}", queues=2, address=address)
        for number in range(topics):
            producer.send(Message(f"topic-{number}", b'{"a": 1}'))
        for number in range(groups):
            admin.create_group(f"group-{number}", address=address)
            queue = admin.queues(f"topic-{number % topics}")[0]
            admin.commit(f"group-{number}", queue, 0)


def main() -> None:
    """Run it and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--groups", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    with tempfile.TemporaryDirectory() as folder, running_cluster(Path(folder)) as cluster:
        cluster.start_broker()
        begun = time.perf_counter()
        fill(cluster, asked.topics, asked.groups)
        print(f"{asked.topics} topics and {asked.groups} groups made in {time.perf_counter() - begun:.0f} s")
        idle = LoopLag(cluster)
        idle.start()
        time.sleep(5)
        print(f"broker loop, idle: {idle.stop()}")
        files = Path(folder) / "files"
        write_users(files)
        lag = LoopLag(cluster)
        lag.start()  # before the console, which asks for all groups at once
        site = start_site(files, cluster.namesrv)
        try:
            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
                page = browser.new_page(viewport={"width": 1280, "height": 800})
                page.goto(site.url)
                page.fill("[name=user]", "admin")
                page.fill("[name=password]", PASSWORD)
                page.click("button")
                page.wait_for_selector("h1.page-title")
                for path, ready in PAGES.items():
                    took = []
                    for _ in range(asked.rounds):
                        begun = time.perf_counter()
                        page.goto(f"{site.url}c/main/{path}", wait_until="commit")
                        page.wait_for_selector(f"main {ready}")
                        took.append(time.perf_counter() - begun)
                    print(f"{path:26} first {took[0]:.2f} s, then {min(took[1:]):.2f} to {max(took[1:]):.2f} s")
                browser.close()
            status = Path(f"/proc/{site.process.pid}/status").read_text()
            memory = next(line.split()[1] for line in status.splitlines() if line.startswith("VmRSS"))
            print(f"console memory: {int(memory) / 1024:.0f} MiB; load of the machine: {os.getloadavg()[0]:.1f}")
        finally:
            print(f"broker loop, console in use: {lag.stop()}")
            site.stop()


if __name__ == "__main__":
    main()
