"""Register the sources by hand: where Spark does not find them, and where streams share a session.

Spark looks for sources where packages are installed, not among `--py-files`. And Spark 4.2 and 4.3 keep one map of
environment variables for all streams of a source, into which each stream puts the same four names as it starts, from
its own thread and without a lock. Two streams that start together may so leave a map that counts one entry more than
it has, and from then on no task of that source can be sent: "Illegal size 5 of collection, expected 6". A source
that is registered with these names in its map has nothing put in that is not there.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from weakref import WeakSet

from pyspark import SparkContext
from pyspark.sql import SparkSession

from ariane.spark.commitlog.source import CommitlogSource
from ariane.spark.source import RocketmqSource

PUT_BY_STREAMS: Final = ("SPARK_LOCAL_DIRS", "SPARK_AUTH_SOCKET_TIMEOUT", "SPARK_BUFFER_SIZE", "SPARK_PYTHON_RUNTIME")

_done: WeakSet[SparkSession] = WeakSet()


def register(spark: SparkSession) -> None:
    """Make the formats `rocketmq` and `rocketmq-commitlog` known to a session, for any number of streams at once."""
    if spark in _done:
        return
    with _environment(getattr(spark, "sparkContext", None)):  # Spark Connect has none
        spark.dataSource.register(RocketmqSource)
        spark.dataSource.register(CommitlogSource)
    _done.add(spark)


@contextmanager
def _environment(context: SparkContext | None) -> Iterator[None]:
    """Set the variables that the Python workers of the sources need while these are registered."""
    environment = {} if context is None else context.environment
    before = dict(environment)
    for name in PUT_BY_STREAMS:
        environment.setdefault(name, "")  # Spark sets the value whenever it starts a worker
    if context is not None and (shipped := _shipped(context)):
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, (shipped, environment.get("PYTHONPATH", ""))))
    try:
        yield
    finally:
        environment.clear()
        environment.update(before)


def _shipped(context: SparkContext) -> str | None:
    """The archive of `--py-files` that this package was loaded from, if it was.

    Spark puts these archives on the path of tasks, but not of the process that plans a stream on the driver.
    """
    names = {Path(file).name for file in context.getConf().get("spark.submit.pyFiles", "").split(",") if file}
    archive = Path(__file__).parents[2]
    return str(archive) if archive.name in names else None
