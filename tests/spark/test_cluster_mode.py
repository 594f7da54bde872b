"""On a cluster: executors in processes of their own that have Ariane only because it was shipped to them."""

import os
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import pyspark

from ariane.spark.pipelines.archive import read_archive
from tests.peers import free_port
from tests.peers.jvm import listening
from tests.spark.clusters import Target, await_that, numbered
from tests.spark.conftest import require_spark
from tests.spark.quick_jvm import quick_jvm

ROOT = Path(__file__).parent.parent.parent
LIMIT = 280.0


def bare_python(folder: Path) -> Path:
    """A Python with the libraries that Ariane needs, but without Ariane: what is installed by reference is left out."""
    libraries = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH="$PYTHONPATH:{libraries}" exec {sys.executable} -S "$@"\n')
    python.chmod(0o755)
    return python


def test_a_submitted_job_runs_on_executors_that_got_the_wheel(ours: Target, pure_wheel: Path, tmp_path: Path) -> None:
    require_spark()
    shipped = shutil.copy(pure_wheel, tmp_path / "ariane.zip")
    topic, target = ours.topic(), ours.topic()
    ours.send(topic, numbered(topic, 1000))
    home, python, result = Path(pyspark.__file__).parent, bare_python(tmp_path), tmp_path / "result"
    command = [
        str(home / "bin" / "spark-submit"), "--master", "local-cluster[2,1,1024]", "--driver-memory", "512m",
        "--py-files", str(shipped), "--conf", "spark.ui.enabled=false",
        "--conf", "spark.driver.host=127.0.0.1", "--conf", f"spark.local.dir={tmp_path}/local",
        str(Path(__file__).parent / "submitted.py"), ours.namesrv, topic, target, str(result),
        str(tmp_path / "checkpoint"),
    ]  # fmt: skip
    names = {
        "SPARK_HOME": str(home),
        "JAVA_TOOL_OPTIONS": quick_jvm(),
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
    }
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | names
    done = subprocess.run(command, cwd=tmp_path, env=environment, timeout=LIMIT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    total, *places = result.read_text().splitlines()
    assert int(total) == sum(range(1000))
    written = Counter(int(message.body) for message in ours.received(target))
    assert written == Counter(dict.fromkeys(range(1000), 2)), "once by the batch write, once by the stream"
    processes = {place.split()[0] for place in places}
    assert len(processes) == 2
    assert [place for place in places if "ariane.zip" not in place] == []


def test_a_pipeline_runs_on_a_cluster_and_goes_on_there(spark: Any, ours: Target, tmp_path: Path) -> None:
    topic, path = ours.topic(), tmp_path / "archive"
    messages = numbered(topic, 600)
    for done, part in ((400, messages[:400]), (200, messages[400:])):
        ours.send(topic, part)
        command = [
            str(Path(sys.executable).parent / "ariane"), "pipeline", "archive", str(path), "-n", ours.namesrv,
            "-t", topic, "--master", "local-cluster[2,1,1024]", "--option", "minPartitions=2",
        ]  # fmt: skip
        for conf in ("ui.enabled=false", "driver.host=127.0.0.1", "driver.memory=512m", f"local.dir={tmp_path}/local"):
            command += ["--conf", f"spark.{conf}"]
        names = {"SPARK_HOME": str(Path(pyspark.__file__).parent), "JAVA_TOOL_OPTIONS": quick_jvm()}
        run = subprocess.run(
            command, cwd=tmp_path, env=os.environ | names, timeout=LIMIT, capture_output=True, text=True
        )
        assert run.returncode == 0, run.stderr[-3000:]
        assert f"{done} messages archived" in run.stdout
    keys = [row.keys for row in read_archive(spark, str(path)).select("keys").collect()]
    assert sorted(keys) == sorted(f"k{i}" for i in range(600))


def test_the_wheel_has_the_modules_by_which_spark_finds_the_sources(pure_wheel: Path) -> None:
    with zipfile.ZipFile(pure_wheel) as wheel:
        top = {name for name in wheel.namelist() if "/" not in name}
    assert top == {"pyspark_rocketmq.py", "pyspark_rocketmq_commitlog.py"}


def test_the_example_goes_from_ariane_up_to_a_live_count(tmp_path: Path) -> None:
    require_spark()
    script, ports = ROOT / "examples" / "live_count.py", (free_port(), free_port(-2, 1))
    paths = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        [sys.executable, str(script), *map(str, ports)],
        cwd=tmp_path,
        env={**os.environ, "JAVA_TOOL_OPTIONS": quick_jvm(), "PATH": paths},
        timeout=LIMIT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    counts = [_paid(batch) for batch in done.stdout.split("Batch: ")[1:]]
    assert counts == sorted(counts)
    assert (len(set(counts)) >= 4, counts[-1]) == (True, 800)  # one more each time that orders came
    await_that("the end of the cluster", lambda: not any(map(listening, ports)))
    others = ("import", "from", "#", '"""')
    code = [line for line in script.read_text().splitlines() if line.strip() and not line.startswith(others)]
    assert len(code) <= 20


def _paid(batch: str) -> int:
    """Of all windows that one batch shows."""
    rows = [line.split("|") for line in batch.replace(" ", "").splitlines() if line.startswith("|{")]
    return sum(int(row[3]) for row in rows if row[2] == "paid")
