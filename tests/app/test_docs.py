"""Every Python and YAML example of the page runs, and its table names all of RocketMQTemplate's methods."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ariane.app import Ariane, load_settings
from ariane.testing.cluster import Cluster

PAGE = (Path(__file__).parents[2] / "docs" / "app.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
TEMPLATE_METHODS = {  # public methods of RocketMQTemplate 2.2.3, and how many of each there are
    "RocketMQTemplate": 1, "getProducer": 1, "setProducer": 1, "getConsumer": 1, "setConsumer": 1, "getCharset": 1,
    "setCharset": 1, "getMessageQueueSelector": 1, "setMessageQueueSelector": 1, "setAsyncSenderExecutor": 1,
    "sendAndReceive": 24, "syncSend": 7, "syncSendDelayTimeSeconds": 2, "syncSendDelayTimeMills": 2,
    "syncSendDeliverTimeMills": 2, "syncSendOrderly": 7, "asyncSend": 7, "asyncSendOrderly": 5, "sendOneWay": 2,
    "sendOneWayOrderly": 2, "afterPropertiesSet": 1, "destroy": 1, "sendMessageInTransaction": 1, "receive": 2,
}  # fmt: skip


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("docs")) as cluster:
        for topic in ("orders", "bookings", "price-requests", "invoices"):
            cluster.create_topic(topic)
        yield cluster


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_the_example_runs(number: int, cluster: Cluster, tmp_path: Path) -> None:
    code = BLOCKS[number]
    name = "test_example.py" if "def test_" in code else "example.py"
    (tmp_path / name).write_text(code.replace("127.0.0.1:9876", cluster.name_servers))
    command = [sys.executable, name]
    if "def test_" in code:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", name]
    world = {**os.environ, "HOME": str(tmp_path), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    ran = subprocess.run(command, capture_output=True, text=True, env=world, cwd=tmp_path, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stderr == ""


def test_the_settings_of_the_page_are_settings(tmp_path: Path) -> None:
    [text] = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    path = tmp_path / "shop.yaml"
    path.write_text(text)
    assert load_settings(path).listeners["reserve"].group == "stock-2"
    for name in re.findall(r"^(ARIANE_\w+)=", PAGE, re.MULTILINE):
        assert name.removeprefix("ARIANE_").split("__")[0].lower() in type(load_settings(path)).model_fields


def test_every_method_of_rocketmqtemplate_has_its_counterpart() -> None:
    table = PAGE[PAGE.index("| RocketMQTemplate |") : PAGE.index("| Spring | here |")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:] if line]
    counted: dict[str, int] = {}
    for methods, overloads, counterpart in rows:
        names = re.findall(r"`(\w+)", methods)
        for name in names:
            assert name in TEMPLATE_METHODS or "inherited" in methods, name
        if overloads:
            together = sum(TEMPLATE_METHODS[name] for name in names)
            if len(names) > 1:
                assert int(overloads) == together, methods
                counted |= {name: TEMPLATE_METHODS[name] for name in names}
            else:
                counted[names[0]] = counted.get(names[0], 0) + int(overloads)
        for attribute in re.findall(r"`(?:asyncio\.create_task\()?app\.(\w+)", counterpart):
            assert hasattr(Ariane, attribute), attribute
    assert counted == TEMPLATE_METHODS
    assert sum(counted.values()) == 75
