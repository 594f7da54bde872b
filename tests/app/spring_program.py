"""A Spring Boot application with Apache's starter, fetched by Maven and compiled once, driven by lines of JSON."""

import hashlib
import json
import queue
import shutil
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from tests.peers.build import CACHE, COPY, _need_tools, locked, run_tool
from tests.peers.jvm import EXPORTS, OPENS, SMALL

SOURCES = Path(__file__).parent / "spring"
PATIENCE = 120.0


def build_spring() -> str:
    """The class path of the finished build: found in the cache, or made now."""
    _need_tools()
    files = [SOURCES / "pom.xml", *sorted(SOURCES.rglob("*.java"))]
    jars = CACHE / "spring" / f"jars-{_digest(files[:1])}"
    classes = CACHE / "spring" / f"classes-{_digest(files)}"
    with locked(CACHE / "spring.lock"):
        if not jars.exists():
            part = jars.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            places = [f"-Dmaven.repo.local={CACHE / 'm2'}", f"-DoutputDirectory={part}"]
            run_tool(["mvn", "-B", "-q", "-ntp", "-f", str(files[0]), COPY, "-DincludeScope=runtime", *places])
            part.rename(jars)
        if not classes.exists():
            part = classes.with_suffix(".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            run_tool(["javac", "--release", "17", "-nowarn", "-cp", f"{jars}/*", "-d", str(part), *map(str, files[1:])])
            part.rename(classes)
    return f"{classes}:{jars}/*"


def _digest(files: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


class SpringShop:
    """The application in a JVM of its own; it ends with its stdin."""

    def __init__(self, class_path: str, folder: Path, name_servers: str, topics: dict[str, str]) -> None:
        self._log = folder / "spring.log"
        self._events: dict[str, queue.Queue[Any]] = {}
        self._lock = threading.Lock()
        options = {
            "rocketmq.name-server": name_servers,
            "rocketmq.producer.group": f"{topics['orders']}-spring-producer",
            "rocketmq.producer.send-message-timeout": "20000",
            "spring.main.banner-mode": "off",
            "logging.level.root": "WARN",
            **{f"shop.{name}": topic for name, topic in topics.items()},
        }
        command = [
            "java", "-Xmx256m", *SMALL, *OPENS, *EXPORTS, f"-Duser.home={folder}",
            "-Drocketmq.client.logUseSlf4j=false", f"-Drocketmq.client.logRoot={folder}",
            "-cp", class_path, "shop.Application", *(f"--{name}={value}" for name, value in options.items()),
        ]  # fmt: skip
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.take("ready")

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("@"):
                event = json.loads(line[1:])
                self._queue(event["event"]).put(event["value"])
            else:
                with self._log.open("a") as log:
                    log.write(line)

    def _queue(self, event: str) -> "queue.Queue[Any]":
        with self._lock:
            return self._events.setdefault(event, queue.Queue())

    def take(self, event: str) -> Any:
        """The next event of a kind."""
        deadline = time.monotonic() + PATIENCE
        while True:
            try:
                return self._queue(event).get(timeout=1)
            except queue.Empty:
                assert self._process.poll() is None, self._log.read_text()[-4000:]
                assert time.monotonic() < deadline, f"no {event}: {self._log.read_text()[-4000:]}"

    def call(self, op: str, to: str, order: Any, **more: Any) -> Any:
        """Have the application do something; what it gives back."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": op, "to": to, "order": order, **more}) + "\n")
        self._process.stdin.flush()
        assert self._queue("failed").empty()
        return self.take("done")

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
