"""The long-lived JVM that runs Apache's client for the tests, spoken to in JSON lines (see README.md)."""

import asyncio
import itertools
import json
import re
import subprocess
import threading
from collections import defaultdict
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from queue import Queue
from typing import IO, Any

from tests.peers.build import Build
from tests.peers.clients import (
    Admin,
    LiteConsumer,
    Producer,
    PullConsumer,
    PushConsumer,
    TransactionProducer,
    selectors,
    start_args,
    unique,
)
from tests.peers.jvm import java, write_logback

# Apache's client rebalances every 20 s; a test would rather see a new member's share, or a retry topic, at once.
QUICK = {"rocketmq.client.rebalance.waitInterval": "1000"}
PATIENT = {"com.rocketmq.remoting.client.connect.timeout": "20000"}  # a busy machine is no failure
TRIES = 3
MARGIN = 20.0  # seconds beyond an operation's own limit before the JVM itself is held to be stuck


class PeerError(Exception):
    """What Apache's client threw: `kind` is the simple class name, `code` the response code if it has one."""

    def __init__(self, error: Mapping[str, Any]) -> None:
        self.kind = str(error["class"]).rpartition(".")[2]
        self.code: int | None = error["code"]
        self.remark = str(error["message"])
        super().__init__(f"{self.kind}({self.code}): {self.remark} {error.get('cause') or ''}")


class Driver:
    """One JVM; `call(op, ...)` runs an operation in it, `events(name)` is the queue of what it reports unasked."""

    def __init__(self, build: Build, home: Path, props: Mapping[str, str] | None = None) -> None:
        self.home = home
        self._names = itertools.count(1)
        self._ids = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}
        self._events: defaultdict[str, Queue[dict[str, Any]]] = defaultdict(Queue)
        self._lock = threading.Lock()
        # From the start: until its first mqadmin, logback would write to stdout, in the middle of what that prints.
        logging = write_logback(home, "tools")
        command = java(
            build, home, ["-Xmx384m"], {**QUICK, **PATIENT, **logging, **(props or {})}, ["ariane.peers.Driver"]
        )
        with (home / "driver.console").open("wb") as console:
            self._process = subprocess.Popen(
                command, cwd=home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=console
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin: IO[bytes] = self._process.stdin
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), name="peer-driver", daemon=True
        )
        self._reader.start()
        self._events["ready"].get(timeout=120)

    def submit(self, op: str, **args: Any) -> "Future[Any]":
        """Starts an operation and returns at once; the future gives its result or raises `PeerError`."""
        answer: Future[Any] = Future()
        with self._lock:
            number = next(self._ids)
            self._waiting[number] = answer
            line = json.dumps({"id": number, "op": op, **{k: v for k, v in args.items() if v is not None}})
            self._stdin.write(line.encode() + b"\n")
            self._stdin.flush()
        return answer

    def call(self, op: str, *, limit: float = 120, **args: Any) -> Any:
        """Runs an operation and waits for its result, `limit` seconds at most."""
        return self.submit(op, **args).result(limit)

    async def acall(self, op: str, *, limit: float = 120, **args: Any) -> Any:
        """`call` for tests whose own event loop must go on meanwhile."""
        return await asyncio.wait_for(asyncio.wrap_future(self.submit(op, **args)), limit)

    def events(self, name: str) -> "Queue[dict[str, Any]]":
        """The queue of events of one name, e.g. `message` or `check`."""
        return self._events[name]

    def name(self, kind: str) -> str:
        """A handle name nobody has used in this JVM."""
        return f"{kind}{next(self._names)}"

    def mqadmin(
        self, *args: str, limit: float = 60, access_key: str | None = None, secret_key: str | None = None
    ) -> str:
        """Runs `mqadmin ARGS` and returns what it printed; it has no other way to say that it failed."""
        text = ""
        for _ in range(TRIES):  # its limit of 5 s cannot be changed, and a busy machine may stand still for so long
            text, finished = self._mqadmin(args, limit, access_key, secret_key)
            if not finished:
                raise TimeoutError(f"mqadmin {' '.join(args)} went on for {limit:g} s and printed:\n{text}")
            if "RemotingTimeoutException" not in text:
                break
        return text

    def mqadmin_until(self, wanted: str, *args: str) -> str:
        """What `mqadmin ARGS` prints, a subcommand that repeats itself for ever and is cut off then."""
        text = ""
        for seconds in (3, 10, 30):
            text = self._mqadmin(args, seconds, None, None)[0]
            if re.search(wanted, text):
                return text
        raise TimeoutError(f"mqadmin {' '.join(args)} did not print {wanted!r} but:\n{text}")

    def _mqadmin(
        self, args: Sequence[str], seconds: float, access_key: str | None, secret_key: str | None
    ) -> tuple[str, bool]:
        keys = {"accessKey": access_key, "secretKey": secret_key}
        # Calls queue up in the JVM, one mqadmin at a time: its own limit counts from its turn.
        done = self.call("mqadmin", args=[*args], timeout=int(seconds * 1000), limit=10 * seconds + MARGIN, **keys)
        return str(done["text"]), bool(done["finished"])

    def producer(self, namesrv: str, group: str | None = None, **settings: Any) -> Producer:
        """A started producer; `settings` are those of `clients.start_args`, e.g. `trace=True, sendMsgTimeout=500`."""
        return Producer(self, "producer", start_args(namesrv, group or unique("group"), settings))

    def transaction_producer(
        self, namesrv: str, group: str | None = None, answers: Sequence[str] = (), **settings: Any
    ) -> TransactionProducer:
        """A started transactional producer; `answers` is what checks get whose message brought none of its own."""
        args = start_args(namesrv, group or unique("group"), settings)
        return TransactionProducer(self, "transaction", {**args, "answers": list(answers)})

    def push_consumer(
        self,
        namesrv: str,
        subscriptions: str | Mapping[str, str | Mapping[str, str]],
        group: str | None = None,
        *,
        orderly: bool = False,
        script: Mapping[str, Any] | None = None,
        events: bool = False,
        **settings: Any,
    ) -> PushConsumer:
        """A started push consumer of a topic, or of `{topic: tags}`, or of `{topic: {"sql": ...}}`."""
        args = start_args(namesrv, group or unique("group"), settings)
        more = {"orderly": orderly, "script": dict(script or {}), "events": events}
        return PushConsumer(self, "consumer", {**args, **more, "subscriptions": selectors(subscriptions)})

    def lite_consumer(
        self,
        namesrv: str,
        subscriptions: str | Mapping[str, str | Mapping[str, str]] | None = None,
        group: str | None = None,
        **settings: Any,
    ) -> LiteConsumer:
        """A started lite pull consumer; without subscriptions it waits for `assign`."""
        args = start_args(namesrv, group or unique("group"), settings)
        return LiteConsumer(self, "lite", {**args, "subscriptions": selectors(subscriptions or {})})

    def pull_consumer(self, namesrv: str, group: str | None = None, **settings: Any) -> PullConsumer:
        """A started DefaultMQPullConsumer."""
        return PullConsumer(self, "pull", start_args(namesrv, group or unique("group"), settings))

    def admin(self, namesrv: str, *, timeout: float = 30, **settings: Any) -> Admin:
        """A started DefaultMQAdminExt; all its methods are there through `invoke`."""
        return Admin(self, "admin", {**start_args(namesrv, "", settings), "timeout": int(timeout * 1000)})

    def kill(self) -> None:
        """kill -9: its clients vanish without a word."""
        self._process.kill()
        self._process.wait()

    def close(self) -> None:
        """Ends the JVM."""
        self._stdin.close()
        try:
            self._process.wait(MARGIN)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()

    def _read(self, stdout: IO[bytes]) -> None:
        with stdout:
            for line in stdout:
                if line.endswith(b"\n"):  # else its writer was killed in the middle of it
                    self._take(json.loads(line))
        for answer in [waiting for waiting in list(self._waiting.values()) if not waiting.done()]:
            answer.set_exception(ConnectionError(f"the driver JVM ended; see {self.home / 'driver.console'}"))

    def _take(self, line: dict[str, Any]) -> None:
        if "event" in line:
            self._events[line["event"]].put(line)
            return
        answer = self._waiting.pop(line["id"])
        if answer.cancelled():
            return
        if line["ok"]:
            answer.set_result(line.get("result"))
        else:
            answer.set_exception(PeerError(line["error"]))
