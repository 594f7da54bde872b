"""`pip install ariane` on a machine without a compiler: the wheel is for any platform, and the client is all of it."""

import sys
from pathlib import Path

import pytest

from ariane.testing.cluster import Cluster
from tests.peers import unique
from tests.wheel import run

PROGRAM = """
import sys
from ariane import ConsumeFrom, LitePullConsumer, Message, Producer
ns, topic = sys.argv[1:]
with Producer("pure", name_servers=ns) as producer:
    producer.send(Message(topic, b"from a pure wheel"))
with LitePullConsumer("pure", topic, name_servers=ns, consume_from=ConsumeFrom.FIRST) as consumer:
    found = []
    while not found:
        found = consumer.poll(timeout=30)
print(found[0].body.decode())
beyond = ("broker", "store", "namesrv", "spark", "console", "admin", "app", "guarantee", "ha", "dledger", "raft")
print([name for name in sys.modules if name.startswith(tuple(f"ariane.{part}" for part in beyond))])
print([name for name in ("uvloop", "pyarrow", "pyspark", "lark", "starlette") if name in sys.modules])
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory, pure_wheel: Path) -> Path:
    """An interpreter of its own that has the pure wheel, without extras."""
    assert pure_wheel.name.endswith("-py3-none-any.whl")
    environment = tmp_path_factory.mktemp("pure") / "venv"
    run(sys.executable, "-m", "venv", str(environment))
    python = environment / "bin" / "python"
    run(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", str(pure_wheel))
    return python


def test_the_client_of_a_pure_wheel_sends_and_receives_and_needs_nothing_else(
    python: Path, ours: Cluster, tmp_path: Path
) -> None:
    topic = unique("topic")
    ours.create_topic(topic, queues=1)
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    printed = run(str(python), "-I", str(program), ours.name_servers, topic, HOME=str(home), PYTHONPATH="")
    assert printed.splitlines() == ["from a pure wheel", "[]", "[]"]
    assert list(home.iterdir()) == []
