"""Real processes: clients append to and read from queues while the leader is killed, paused and cut off.

    python -m tests.dledger.linearizability.recorder --rounds 30

An append is a send: it returns the offset of its message, or nothing is known of it. In the end the queues are read as
a whole: they tell which of the latter were stored, and where (to try all possibilities would take too long). A read
asks the leader for the length of a queue and its last message, and then the members for their term: if a majority still
has the leader's, no other can have led, so that what was read was the newest. (Consumers do not ask that: RocketMQ lets
them read from followers, and a deposed leader may serve old messages until it learns of its successor.)
"""

import argparse
import asyncio
import itertools
import json
import random
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from ariane.errors import ArianeError, ConnectFailed
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.units import decode_units
from tests.broker.talk import pull_fields, send_fields
from tests.dledger.chaos import FAULTS, Processes, begin_fault, end_fault
from tests.interop.other_clients.go_client import go_environment

TOPIC = "registers"
QUEUES = 2
HERE = Path(__file__).parent

Operation = dict[str, Any]


class History:
    """What clients have asked and were answered."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.unknown = 0
        """Appends of unknown outcome."""

    def add(self, client: int, queue: int, op: str, value: str, offset: int, call: int, end: int) -> None:
        self.operations.append(
            {"client": client, "queue": queue, "op": op, "value": value, "offset": offset, "call": call, "return": end}
        )

    def write(self, path: Path) -> None:
        path.write_text("".join(json.dumps(operation) + "\n" for operation in self.operations))

    def resolve(self, queues: list[list[str]]) -> None:
        """Give appends of unknown outcome the offset that they have in the end, or drop them."""
        offsets = {value: offset for values in queues for offset, value in enumerate(values)}
        unknown = [one for one in self.operations if one["return"] < 0]
        self.unknown = len(unknown)
        self.operations = [one for one in self.operations if one["return"] >= 0]
        end = time.monotonic_ns()
        for one in unknown:
            if one["value"] in offsets:
                self.operations.append({**one, "offset": offsets[one["value"]], "return": end})

    def count(self, op: str) -> int:
        """Operations that returned."""
        return sum(one["op"] == op and one["return"] >= 0 for one in self.operations)


class Recorder:
    """Clients of a group that record a history."""

    def __init__(self, group: Processes) -> None:
        self.group = group
        self.history = History()
        self.ending = False
        self._leader = ""

    async def append(self, client: int) -> None:
        """Append values of its own until the end."""
        for number in itertools.count():
            if self.ending:
                return
            queue, value = random.randrange(QUEUES), f"{client}-{number}"
            call = time.monotonic_ns()
            try:
                fields = send_fields(TOPIC, queue_id=queue)
                answer = await self._ask(self._leader, RequestCode.SEND_MESSAGE_V2, fields, value.encode())
            except ConnectFailed:
                await self._look()  # nothing was sent
                continue
            except ArianeError:
                self.history.add(client, queue, "append", value, -1, call, -1)
                await self._look()
                continue
            if answer.code == ResponseCode.SUCCESS:
                offset = int(answer.fields["queueOffset"])
                self.history.add(client, queue, "append", value, offset, call, time.monotonic_ns())
            else:
                if answer.code != ResponseCode.SERVICE_NOT_AVAILABLE:
                    self.history.add(client, queue, "append", value, -1, call, -1)
                await self._look()
            await asyncio.sleep(0.01)

    async def read(self, client: int) -> None:
        """Read the ends of the queues until the end."""
        while not self.ending:
            queue, call = random.randrange(QUEUES), time.monotonic_ns()
            try:
                found = await self._read(queue)
            except (ArianeError, ValueError):
                found = None
            if found is None:
                await self._look()
            else:
                self.history.add(client, queue, "read", found[1], found[0], call, time.monotonic_ns())
            await asyncio.sleep(0.01)

    async def _read(self, queue: int) -> tuple[int, str] | None:
        """Length and last message; None when it is not sure that they are the newest."""
        leader = self._leader
        fields = {"topic": TOPIC, "queueId": str(queue)}
        length = int((await self._ask(leader, RequestCode.GET_MAX_OFFSET, fields)).fields["offset"])
        last = ""
        if length:
            fields = pull_fields(TOPIC, queue, length - 1, max_msg_nums=1)
            answer = await self._ask(leader, RequestCode.PULL_MESSAGE, fields)
            if answer.code != ResponseCode.SUCCESS:
                return None
            last = decode_units(answer.body)[0].body.decode()
        own = await self.group.status(leader)
        if own is None or own.ariane is None or not own.ariane.serving:
            return None
        others = [await self.group.status(id) for id in self.group.peers if id != leader]
        return (length, last) if any(other is not None and other.term == own.term for other in others) else None

    async def _ask(self, leader: str, code: int, fields: dict[str, str], body: bytes = b"") -> Command:
        if not leader:
            raise ConnectFailed("no leader is known")
        address = f"127.0.0.1:{self.group.ports[leader]}"
        return await self.group.client.request(address, Command(code, fields, body), 1)

    async def _look(self) -> None:
        """Look for a member that serves, whatever others say."""
        for id in random.sample(sorted(self.group.peers), 3):
            status = await self.group.status(id)
            if status is not None and status.ariane is not None and status.ariane.serving:
                self._leader = id
                return
        await asyncio.sleep(0.05)


async def record(root: Path, rounds: int, seed: int, *, clients: int = 4) -> History:
    """Record a history of so many faults, and of a read of each queue after the last one."""
    chance, group = random.Random(seed), Processes(root)
    recorder = Recorder(group)
    tasks: list[asyncio.Task[None]] = []
    try:
        await group.start_links()
        group.start_name_server()
        for id in group.peers:
            group.start(id)
        await group.leader()
        for number in range(clients):
            tasks.append(asyncio.create_task(recorder.append(number)))
            tasks.append(asyncio.create_task(recorder.read(clients + number)))
        for _ in range(rounds):
            await _progress(recorder)
            id, fault = await group.leader(), chance.choice(FAULTS)
            begin_fault(group, id, fault)
            await _progress(recorder)
            end_fault(group, id, fault)
            await group.back(id)
        await _progress(recorder)
        recorder.ending = True
        await asyncio.gather(*tasks)
        await group.in_sync()
        leader = await group.leader()
        messages = [await group.messages(leader, queue, TOPIC) for queue in range(QUEUES)]
        recorder.history.resolve([[body for _, body in queue] for queue in messages])
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await group.stop()
    return recorder.history


async def _progress(recorder: Recorder) -> None:
    """Wait for more appends and reads that were answered."""
    for op in ("append", "read"):
        least = recorder.history.count(op) + 20
        async with asyncio.timeout(120):
            while recorder.history.count(op) < least:  # noqa: ASYNC110 (it happens in other tasks)
                await asyncio.sleep(0.02)


def missing() -> str:
    """Why histories cannot be checked here; empty when they can."""
    return "" if shutil.which("go") else "Go is not installed"


def build_checker(folder: Path) -> Path:
    """Compile the checker. Its dependency comes from the Go proxy, or from Go's cache."""
    program = folder / "check"
    build = ["go", "build", "-o", str(program), "."]
    subprocess.run(build, cwd=HERE, env=go_environment(), check=True, capture_output=True, timeout=300)
    return program


def check(checker: Path, history: History, path: Path) -> tuple[int, str]:
    """The checker's verdict (0 linearizable, 1 not) and what it says."""
    history.write(path)
    done = subprocess.run([str(checker), str(path)], capture_output=True, text=True, timeout=300, check=False)
    return done.returncode, done.stdout.strip()


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--keep", type=Path, help="where to write the history")
    arguments = parser.parse_args()
    if reason := missing():
        raise SystemExit(reason)
    with tempfile.TemporaryDirectory(prefix="dledger-history-") as folder:
        print(f"seed {arguments.seed}", flush=True)
        checker = build_checker(Path(folder))
        history = asyncio.run(record(Path(folder), arguments.rounds, arguments.seed))
        code, text = check(checker, history, arguments.keep or Path(folder) / "history")
    appends, reads = history.count("append"), history.count("read")
    print(f"{arguments.rounds} faults, {appends} appends, {reads} reads, {history.unknown} unknown outcomes; {text}")
    raise SystemExit(code)


if __name__ == "__main__":
    main()
