"""What a newcomer does wrong, and what the command line says then."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ariane import Message, Producer
from ariane.testing.cluster import Cluster

pytestmark = pytest.mark.slow  # starts programs

WITHOUT_SPARK = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("pyspark", "pyarrow", "numpy", "pandas"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Missing())
from ariane.cli import main
main()
"""


def run(*words: str, program: str = "from ariane.cli import main; main()", **env: str) -> tuple[str, int]:
    done = subprocess.run(
        [sys.executable, "-c", program, *words], env=os.environ | env, capture_output=True, text=True, timeout=120
    )
    return done.stdout + done.stderr, done.returncode


def test_looking_for_a_database_does_not_create_one(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    text, code = run("guarantee", "list", "-d", f"sqlite:///{file}")
    assert (code, f"there is no database {file}" in text) == (1, True)
    assert not file.exists()
    assert run("guarantee", "migrate", "-d", f"sqlite:///{file}")[1] == 0
    assert run("guarantee", "list", "-d", f"sqlite:///{file}")[1] == 0


@pytest.mark.parametrize("words", [("analyse", "-n", "127.0.0.1:1", "-t", "x"), ("trace", "-n", "127.0.0.1:1")])
def test_a_pipeline_without_spark_says_what_to_install(words: tuple[str, ...]) -> None:
    text, code = run("pipeline", *words, program=WITHOUT_SPARK)
    assert code != 0
    assert "Traceback" not in text
    assert "ariane[spark]" in text


def test_the_queues_of_a_store_are_shown_whole_and_without_a_warning(tmp_path: Path) -> None:
    topic = "orders_of_a_shop_with_a_very_long_name_that_a_narrow_terminal_must_not_cut"
    with Cluster(tmp_path, config={"maxHashSlotNum": 500, "maxIndexNum": 2000}) as cluster:
        cluster.create_topic(topic, queues=1)
        with Producer("shop", name_servers=cluster.name_servers) as producer:
            producer.send(Message(topic, b"x", keys=["k"]))
    [store] = [path.parent for path in tmp_path.rglob("commitlog")]
    text, code = run("store", "inspect", str(store), COLUMNS="60")
    assert (code, topic in text) == (0, True)
    text, code = run("store", "verify", str(store))
    assert "configuration" not in text
