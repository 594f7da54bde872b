"""The Python on the pages runs. Which test runs which page:

- start, send, consume, transactions, testing, admin: `tests/client/test_docs.py`
- app: `tests/app/test_docs.py`; guarantee: `tests/guarantee/test_docs.py`; spark: `tests/spark/test_docs.py`
- the README, the front page, tutorial, filters, migrate, security: here
- the Chinese pages have the code of the English ones (`test_translation.py`), apart from comments

Not run: blocks marked `py` (code for Kafka and for Celery over Redis, which a page shows beside ours), Java, and Spark
in the README and on the front page, which `docs/spark.md` has too. Commands are looked up, not run: `test_commands.py`.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ariane.testing.cluster import Cluster
from tests.docs.pages import DOCS, ROOT, blocks
from tests.peers.fixtures import QUICK

pytestmark = pytest.mark.slow  # a process for each page

HERE = ["../README.md", "index.md", "tutorial.md", "filters.md", "migrate.md", "security.md"]
ELSEWHERE = ["start", "send", "consume", "transactions", "testing", "admin", "app", "guarantee", "spark"]
RUN = """
import sys, types
for path in sys.argv[1:]:
    print("running", path, flush=True)
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    exec(compile(open(path).read(), path, "exec"), module.__dict__)
    for name, test in list(vars(module).items()):
        if name.startswith("test_"):
            test()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("docs"), config=QUICK) as cluster:
        for topic in ("orders", "refunds", "order-steps", "payment-checks", "bills", "tutorial-orders"):
            cluster.create_topic(topic)
        yield cluster


def run(files: list[Path], cluster: Cluster, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run programs one after the other in one process, each as `__main__`."""
    world = {**os.environ, "NAMESRV_ADDR": cluster.name_servers, "HOME": str(folder)}
    command = [sys.executable, "-c", RUN, *map(str, files)]
    return subprocess.run(command, capture_output=True, text=True, env=world, cwd=folder, timeout=200, check=False)


def programs(page: Path, cluster: Cluster, folder: Path) -> list[Path]:
    files = []
    for number, code in enumerate(blocks(page, "python"), 1):
        if "spark.read" in code:
            continue
        files.append(folder / f"block_{number}.py")
        files[-1].write_text(code.replace("127.0.0.1:9876", cluster.name_servers))
    return files


@pytest.mark.parametrize("name", HERE)
def test_the_code_of_a_page_runs(name: str, cluster: Cluster, tmp_path: Path) -> None:
    ran = run(programs(DOCS / name, cluster, tmp_path), cluster, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    noise = [line for line in ran.stderr.splitlines() if "goes to the dead letters" not in line]
    assert noise == []


def test_the_application_of_the_tutorial_handles_its_orders(cluster: Cluster, tmp_path: Path) -> None:
    """Steps 1 and 2: the listener runs while the orders of `order.py` come."""
    listener, sender = programs(DOCS / "tutorial.md", cluster, tmp_path)[:2]
    for program in (listener, sender):  # other pages send to this topic too
        program.write_text(program.read_text().replace('"orders"', '"tutorial-orders"'))
    both = tmp_path / "both.py"
    both.write_text(
        f"import runpy, time\n{listener.read_text()}\n"
        f"with app.sync:\n    runpy.run_path({str(sender)!r})\n"
        "    deadline = time.monotonic() + 60\n"
        "    while (stock['tea'], stock['cup']) != (8, 1) and time.monotonic() < deadline:\n        time.sleep(0.05)\n"
        "assert (stock['tea'], stock['cup']) == (8, 1), stock\n"
    )
    ran = run([both], cluster, tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert ran.stdout.count("reserved; left:") == 3


def test_every_page_with_python_is_run_by_a_test() -> None:
    with_python = {page.name for page in DOCS.glob("*.md") if blocks(page, "python")}
    assert with_python <= {*HERE, *(f"{name}.md" for name in ELSEWHERE)}
    assert blocks(ROOT / "README.md", "python")
