"""`pip install` of what is released, in fresh environments: pure wheel, platform wheel, sdist without a compiler.

`pipx run` and `uvx` start a whole cluster from the wheel, so the extra `broker` brings all that it needs.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ariane.testing.cluster import Cluster
from tests.deploy.tools import tool
from tests.peers import unique
from tests.wheel import run

PROGRAM = """
import sys
from ariane import ConsumeFrom, LitePullConsumer, Message, Producer
ns, topic = sys.argv[1:]
with Producer("pure", name_servers=ns) as producer:
    producer.send(Message(topic, b"from a fresh environment"))
with LitePullConsumer("pure", topic, name_servers=ns, consume_from=ConsumeFrom.FIRST) as consumer:
    found = []
    while not found:
        found = consumer.poll(timeout=30)
print(found[0].body.decode())
beyond = ("broker", "store", "namesrv", "spark", "console", "admin", "app", "guarantee", "ha", "dledger", "raft")
print([name for name in sys.modules if name.startswith(tuple(f"ariane.{part}" for part in beyond))])
print([name for name in ("uvloop", "pyarrow", "pyspark", "lark", "starlette") if name in sys.modules])
from ariane.version import describe
print(describe())
from importlib.resources import files
print("typed", (files("ariane") / "py.typed").is_file())
"""

FORMS = {
    "pure wheel": "plain Python, no compiled hot path",
    "sdist, no compiler": "plain Python, no compiled hot path",
    "platform wheel": "hot path compiled",
}


@pytest.fixture(scope="module", params=FORMS)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A fresh environment that has the base package, without extras; and what its version must say."""
    folder = tmp_path_factory.mktemp("install")
    python = folder / "venv" / "bin" / "python"
    run(sys.executable, "-m", "venv", str(python.parents[1]))
    pip = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    if request.param == "pure wheel":
        run(*pip, str(request.getfixturevalue("pure_wheel")))
    elif request.param == "sdist, no compiler":
        run(*pip, str(request.getfixturevalue("sdist")), PATH=str(python.parent))
    else:
        run(*pip, str(request.getfixturevalue("platform_wheel")))
    return FORMS[request.param], python


def test_the_client_sends_and_receives_and_needs_nothing_else(
    installed: tuple[str, Path], ariane_cluster: Cluster, tmp_path: Path
) -> None:
    form, python = installed
    topic = unique("topic")
    ariane_cluster.create_topic(topic, queues=1)
    home = tmp_path / "home"
    home.mkdir(mode=0o500)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    printed = run(str(python), "-I", str(program), ariane_cluster.name_servers, topic, HOME=str(home), PYTHONPATH="")
    assert printed.splitlines()[:3] == ["from a fresh environment", "[]", "[]"]
    assert form in printed
    assert "typed True" in printed
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["ariane", "up"], "broker"),
        (["ariane", "send", "orders", "paid"], "broker"),
        (["ariane", "pipeline", "lag"], "spark"),
        (["ariane", "app", "run", "shop:app"], "app"),
        (["python", "-c", "import ariane.app"], "app"),
        (["mqbroker"], "broker"),
        (["mqnamesrv"], "broker"),
        (["python", "-c", "import ariane.filter.expression"], "broker"),
        (["python", "-c", "from ariane.spark import register; register(None)"], "spark"),
    ],
)
def test_a_missing_extra_is_told_in_one_sentence(installed: tuple[str, Path], arguments: list[str], extra: str) -> None:
    command = [str(installed[1].parent / arguments[0]), *arguments[1:]]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={"PYTHONPATH": ""})
    assert ended.returncode != 0
    last = ended.stderr.strip().splitlines()[-1]
    assert f"is not installed: pip install 'ariane[{extra}]'" in last, ended.stderr
    if arguments[0] != "python":
        assert ended.stderr.strip() == last, "one sentence, no traceback"


def test_the_version_needs_no_extra(installed: tuple[str, Path]) -> None:
    assert installed[0] in run(str(installed[1].parent / "ariane"), "--version", PYTHONPATH="")


def test_a_cluster_for_tests_says_what_it_needs(installed: tuple[str, Path]) -> None:
    form, python = installed
    program = "from ariane.testing.cluster import Cluster"
    ended = subprocess.run([str(python), "-I", "-c", program], capture_output=True, text=True, timeout=120, check=False)
    if form.startswith("plain"):  # compiled modules bring all that the broker cannot start without
        assert "pip install 'ariane[broker]'" in ended.stderr.strip().splitlines()[-1]


@pytest.mark.slow
@pytest.mark.parametrize("runner", ["pipx", "uvx"])
def test_a_cluster_runs_from_the_wheel_without_an_installation(runner: str, pure_wheel: Path, tmp_path: Path) -> None:
    """`ariane up` shows its first message and stops at SIGINT; nothing is installed outside the folder."""
    world = {**os.environ, "PIPX_HOME": str(tmp_path / "pipx"), "HOME": str(tmp_path), "PYTHONPATH": ""}
    ports = ["--namesrv-port", "0", "--broker-port", "0", "--metrics-port", "0"]
    if runner == "pipx":
        command = [sys.executable, "-m", "pipx", "run", "--spec", f"{pure_wheel}[broker]", "ariane", "up"]
    else:  # the client alone; the command gets its extra
        command = [tool("uvx", "pip install uv"), "--from", str(pure_wheel), "ariane", "up"]
        if index := os.environ.get("PIP_INDEX_URL"):
            world["UV_DEFAULT_INDEX"] = index
    process = subprocess.Popen(
        [*command, *ports, "--store", str(tmp_path / "store")], env=world, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        for line in process.stdout:
            if line.startswith("consumed"):
                break
        else:
            pytest.fail("no message was consumed")
        process.send_signal(signal.SIGINT)
        assert "every message is on the disk" in process.stdout.read()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
