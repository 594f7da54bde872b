"""A broker process that stored messages full of NUL bytes is killed and started again: nothing acknowledged is lost."""

import signal
from pathlib import Path

import pytest

from ariane import Message, MessageQueue, aio
from tests.cli.programs import program
from tests.cli.test_kills import configure, start
from tests.peers.jvm import free_port, listening, until

pytestmark = pytest.mark.slow  # starts programs

QUEUES = 2
AFTER = 60  # messages after the one with the NUL bytes


@pytest.mark.timeout(600)  # three starts of a broker, on a machine that may be busy
@pytest.mark.parametrize("flush", ["SYNC_FLUSH", "ASYNC_FLUSH"])
async def test_messages_with_nul_bytes_survive_kills_and_clean_stops(flush: str, tmp_path: Path) -> None:
    names, port = free_port(), free_port(-2, 1)
    configure(tmp_path, names, port, flush)
    sent: list[list[tuple[bytes, str | None]]] = [[] for _ in range(QUEUES)]
    with program(tmp_path, "ariane", "namesrv", "--listen-port", str(names)):
        until(lambda: listening(names), 120, "the name server's port")
        broker = start(tmp_path, port)
        try:
            async with aio.Admin(name_servers=f"127.0.0.1:{names}") as admin:
                await admin.create_topic("nul", queues=QUEUES)
            for number, stop in enumerate((signal.SIGKILL, signal.SIGTERM, signal.SIGKILL)):
                async with aio.Producer("nul", name_servers=f"127.0.0.1:{names}") as producer:
                    for n in range(AFTER):
                        pad = "\0" * (1100 if n in (0, AFTER - 1) else n)
                        message = Message("nul", b"\0" * n + b"%d" % number, properties={"pad": pad} if pad else {})
                        await producer.send(message, queue=MessageQueue("nul", "a", n % QUEUES))
                        sent[n % QUEUES].append((message.body, pad or None))
                broker.process.send_signal(stop)
                broker.process.wait(120)
                broker = start(tmp_path, port)
            async with aio.PullClient("nul", name_servers=f"127.0.0.1:{names}") as client:
                for queue in range(QUEUES):
                    found: list[tuple[bytes, str | None]] = []
                    while messages := await client.pull_messages(MessageQueue("nul", "a", queue), len(found)):
                        found += [(message.body, message.properties.get("pad")) for message in messages]
                    assert found == sent[queue]
        finally:
            broker.process.kill()
            broker.process.wait()
