"""A broker process under fire: mutated frames over sockets, while a client sends and receives."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from struct import pack

from ariane.env import SystemClock
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.frame import encode
from ariane.protocol.headers import PullMessageRequest, SendMessageRequestV2
from ariane.protocol.units import decode_units
from ariane.remoting.blocking import BlockingConnection
from tests.fuzz.mutate import Mutator
from tests.fuzz.runner import MEMORY, Finding, resident_bytes
from tests.protocol.wire import everything

FAULT = re.compile(r"^.*request \d+ of \S+ failed$|Traceback \(most recent call last\)", re.MULTILINE)
CONNECTIONS = 8
DEADLINE = 60.0
NOT_SENT = (  # they change the whole broker, as an administrator may
    RequestCode.UPDATE_BROKER_CONFIG,
    RequestCode.DELETE_EXPIRED_COMMITLOG,
)


@contextmanager
def broker_process() -> Iterator[tuple[int, int, Path]]:
    """A broker of its own process with any free port: port, process id and log."""
    with tempfile.TemporaryDirectory(prefix="ariane-fuzz-") as folder:
        conf, log = Path(folder, "broker.conf"), Path(folder, "log")
        options = {
            "listenPort": 0, "bindAddress": "127.0.0.1", "brokerIP1": "127.0.0.1",
            "storePathRootDir": f"{folder}/store",
            "storePathCommitLog": f"{folder}/store/commitlog", "mappedFileSizeCommitLog": 16 << 20, "maxIndexNum": 1000,
            "mappedFileSizeConsumeQueue": 20000, "maxHashSlotNum": 400, "enablePropertyFilter": "true",
            "diskMaxUsedSpaceRatio": 95, "rocketmq.broker.diskSpaceWarningLevelRatio": 0.99,
            "rocketmq.broker.diskSpaceCleanForciblyRatio": 0.97, "autoCreateTopicMax": 300, "autoCreateGroupMax": 300,
        }  # fmt: skip
        conf.write_text("\n".join(f"{key} = {value}" for key, value in options.items()))
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-c", START, str(conf)], stdout=subprocess.PIPE, stderr=out, env=os.environ.copy()
            )
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.strip().isdigit():
                raise Finding(f"the broker did not start: {log.read_text()[-2000:]}")
            yield int(line), process.pid, log
            if process.poll() is not None:
                raise Finding(f"the broker died: {log.read_text()[-2000:]}")
        finally:
            process.terminate()
            process.wait(60)
            if process.stdout is not None:
                process.stdout.close()


START = """
import asyncio, logging, signal, sys
import uvloop
from ariane.broker.config import BrokerOptions
from ariane.broker.server import Broker

logging.basicConfig(level=logging.WARNING)

async def main():
    text = open(sys.argv[1]).read()
    broker = Broker(BrokerOptions.load(text))
    await broker.start()
    end = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end.set)
    print(broker.port, flush=True)
    await end.wait()
    await broker.stop()

uvloop.run(main())
"""


def attack(frames: int, seed: int) -> str:
    """Send mutated frames to a broker; Finding when it dies, logs a fault, grows, or does not serve a client."""
    random = Random(f"live {seed}")
    recorded = [f for f in everything() if f.to_server and f.kind == "request" and f.code not in NOT_SENT]
    mutator = Mutator([f.frame for f in recorded], random)
    served = 0
    with broker_process() as (port, process, log):
        client = _NormalClient(port)
        attackers: list[socket.socket | None] = [None] * CONNECTIONS
        before = 0
        for number in range(frames):
            place = random.randrange(CONNECTIONS)
            frame = mutator.next()
            if random.random() < 0.7 and len(frame) > 8:  # most with a right length, so that handlers see them
                frame = pack(">i", len(frame) - 4) + frame[4:]
            attackers[place] = _send(attackers[place], port, frame)
            if number % 200 == 0:
                client.send_and_pull(f"message {number}".encode())
                served += 1
            if number == frames // 4:
                before = resident_bytes(process)
        client.send_and_pull(b"the last one")
        grown = resident_bytes(process) - before
        for sock in attackers:
            if sock is not None:
                sock.close()
        client.close()
        if before and grown > MEMORY:
            raise Finding(f"the broker has {grown >> 20} MiB more memory after {frames} frames (seed {seed})")
        text = log.read_text(errors="replace")
    if fault := FAULT.search(text):
        raise Finding(f"a handler failed (seed {seed}):\n{text[fault.start() : fault.start() + 3000]}")
    return f"{frames} frames, {served} messages of a client meanwhile, {grown >> 20} MiB more memory"


def _send(sock: socket.socket | None, port: int, frame: bytes) -> socket.socket | None:
    """Write a frame and take what has come back; a new connection when the broker closed the last one."""
    try:
        if sock is None:
            sock = socket.create_connection(("127.0.0.1", port), DEADLINE)
        sock.settimeout(DEADLINE)
        sock.sendall(frame)
        sock.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while sock.recv(1 << 18):
                pass
            raise ConnectionError("closed")
    except OSError:
        if sock is not None:
            sock.close()
        return None
    return sock


class _NormalClient:
    """Sends one message and pulls it back, and fails when that is not possible."""

    def __init__(self, port: int) -> None:
        self._address = f"127.0.0.1:{port}"
        self._connection = BlockingConnection(self._address, SystemClock(), DEADLINE)
        self._next = 0

    def send_and_pull(self, body: bytes) -> None:
        fields = SendMessageRequestV2(
            producer_group="normal", topic="normal", default_topic="TBW102", default_topic_queue_nums=1, queue_id=0,
            sys_flag=0, born_timestamp=1, flag=0,
        ).fields()  # fmt: skip
        sent = self._ask(Command(RequestCode.SEND_MESSAGE_V2, fields, body))
        if sent.code != 0:
            raise Finding(f"a normal client is refused: {sent.remark}")
        pull = PullMessageRequest(
            consumer_group="normal", topic="normal", queue_id=0, queue_offset=self._next, max_msg_nums=1, sys_flag=4,
            commit_offset=0, suspend_timeout_millis=0, subscription="*", sub_version=0,
        ).fields()  # fmt: skip
        pulled = self._ask(Command(RequestCode.PULL_MESSAGE, pull))
        if pulled.code != 0 or decode_units(pulled.body)[0].body != body:
            raise Finding(f"a normal client does not get its message: {pulled.code} {pulled.remark}")
        self._next += 1

    def _ask(self, request: Command) -> Command:
        self._connection.send(encode(request), DEADLINE)
        command, body = self._connection.receive(DEADLINE)
        command.body = bytes(body)
        return command

    def close(self) -> None:
        self._connection.close()
