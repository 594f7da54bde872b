"""The code in docs/spark.md runs as it stands; only addresses and paths are put in."""

import re
import shlex
from pathlib import Path
from typing import Any

import typer

from ariane.cli.pipelines.command import app
from ariane.spark.access import ACCESS_OPTIONS
from ariane.spark.commitlog.options import OPTIONS
from ariane.spark.sink.options import SINK_OPTIONS
from ariane.spark.topic.options import SOURCE_OPTIONS
from tests.spark.clusters import Target, numbered
from tests.spark.conftest import RecordedStore

PAGE = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_example_runs(spark: Any, ours: Target, clean_store: RecordedStore) -> None:
    ours.topic(name="orders")
    ours.send("orders", numbered("orders", 20))
    names = {"spark": spark, "frame": spark.createDataFrame([("paid",)], "body string")}
    places = {"127.0.0.1:9876": ours.namesrv, "/data/store": str(clean_store.path)}
    try:
        for block in BLOCKS:
            for shown, real in places.items():
                block = block.replace(shown, real)
            exec(compile(block, "docs/spark.md", "exec"), names)
        assert spark.streams.active, "the page shows a live query"
    finally:
        for query in spark.streams.active:
            query.stop()
    assert [message.body for message in ours.received("orders") if message.body == b"paid"] == [b"paid"]


def test_every_option_is_in_the_tables() -> None:
    rows = {name for line in PAGE.splitlines() if line.startswith("| `") for name in re.findall(r"`(\w+)`", line)}
    assert {*ACCESS_OPTIONS, *SOURCE_OPTIONS, *SINK_OPTIONS, *OPTIONS} - rows == set()


def test_every_pipeline_command_on_the_page_exists_with_its_options() -> None:
    commands: Any = typer.main.get_command(app)
    for shown in re.findall(r"`ariane pipeline ([^`]+)`", PAGE):
        name, *words = shlex.split(shown)
        command = commands.commands.get(name)
        if name == "…":
            continue
        assert command is not None, shown
        known = {flag for parameter in command.params for flag in parameter.opts} | {"--help"}
        assert [word for word in words if word.startswith("-") and word not in known] == [], shown
