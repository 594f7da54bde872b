"""A client in a process of its own, driven by JSON lines."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.peers import unique

Answer = dict[str, Any]
WAIT = 60


class PeerRefused(Exception):
    """The client reported an error; the message is its own."""


class Peer:
    """One process with a client library, and the clients started in it."""

    def __init__(self, command: Sequence[str], folder: Path) -> None:
        self._log = (folder / "stderr").open("wb")
        self._process = subprocess.Popen(
            command,
            cwd=folder,
            env={"HOME": str(folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )

    def call(self, operation: str, **fields: Any) -> Answer:
        """Send one request and wait for its answer."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": operation, **fields}).encode() + b"\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise PeerRefused(f"the client ended with {self._process.wait()} at {operation!r}")
        answer: Answer = json.loads(line)
        if "error" in answer:
            raise PeerRefused(answer["error"])
        return answer

    def producer(self, namesrv: str, **fields: Any) -> "Producer":
        """Start a producer; `kind="transaction"` for transactions."""
        return Producer(self, "producer", namesrv=namesrv, **fields)

    def consumer(self, namesrv: str, topic: str, **fields: Any) -> "Consumer":
        """Start a consumer from the first offset; `kind` is push, orderly, broadcast or pull."""
        return Consumer(self, "consumer", namesrv=namesrv, topic=topic, **fields)

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
        self._log.close()


class Client:
    """A producer or consumer inside a peer's process."""

    def __init__(self, peer: Peer, operation: str, **fields: Any) -> None:
        self._peer = peer
        self.handle = unique(operation)
        self.group: str = fields.setdefault("group", unique("group"))
        self.call(operation, instance=self.handle, **fields)

    def call(self, operation: str, **fields: Any) -> Answer:
        return self._peer.call(operation, handle=self.handle, **fields)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.call("close")


class Producer(Client):
    """Sends messages."""

    def send(self, topic: str, *bodies: str, mode: str = "sync", **fields: Any) -> Answer:
        """Send; several bodies go as one batch."""
        messages = [{"topic": topic, "body": body, **fields} for body in bodies]
        return self.call("send", mode=mode, messages=messages)

    def send_in_transaction(self, topic: str, body: str, local: str, checks: Sequence[str] = ()) -> Answer:
        """Send a half message; `local` and `checks` are what the listener says: commit, rollback or unknown."""
        return self.call("transaction", messages=[{"topic": topic, "body": body}], local=local, checks=checks)

    def await_checks(self, count: int) -> list[str]:
        """The bodies that the broker asked about."""
        checked: list[str] = self.call("checks", count=count, seconds=WAIT)["checked"]
        assert len(checked) >= count, checked
        return checked

    def request(self, topic: str, body: str) -> str:
        """Send a request; the body of its reply."""
        reply: str = self.call("request", messages=[{"topic": topic, "body": body}], seconds=WAIT)["body"]
        return reply


class Consumer(Client):
    """Receives messages."""

    def __init__(self, peer: Peer, operation: str, **fields: Any) -> None:
        self._topic = fields["topic"]
        super().__init__(peer, operation, **fields)

    def await_messages(self, count: int) -> list[Answer]:
        """Everything received so far, at least `count` messages."""
        messages: list[Answer] = self.call("await", count=count, seconds=WAIT)["messages"]
        assert len(messages) >= count, messages
        return messages

    def poll(self, count: int) -> list[Answer]:
        """Pull consumers: at least `count` messages, acknowledged."""
        messages: list[Answer] = self.call("poll", topic=self._topic, count=count, seconds=WAIT)["messages"]
        assert len(messages) >= count, messages
        return messages
