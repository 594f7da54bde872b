"""Sources registered by hand, for sessions with several streams."""

from pathlib import Path
from typing import Any

from ariane.spark import register
from tests.spark.clusters import Target, numbered
from tests.spark.test_topic_stream import available, numbers, once, stream


def worker_environment(session: Any, source: str) -> Any:
    """The map in the JVM that all streams of a source share."""
    manager = session._jsparkSession.sessionState().dataSourceManager()
    return manager.lookupDataSource(source).dataSourceCls().envVars()


def test_a_stream_of_a_registered_source_adds_no_name_to_the_environment_that_streams_share(
    spark: Any, ours: Target, tmp_path: Path
) -> None:
    session = spark.newSession()
    register(session)
    shared = worker_environment(session, "rocketmq")
    before = shared.keySet().toString()
    topic = ours.topic()
    ours.send(topic, numbered(topic, 8))
    available(stream(session, ours, topic, startingOffsets="earliest"), tmp_path / "table")
    assert shared.keySet().toString() == before
    assert shared.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER", "streams put nothing into this map any more"
    assert numbers(spark, tmp_path / "table") == once(8)


def test_registering_leaves_the_environment_of_other_functions_as_it_was_and_happens_once(spark: Any) -> None:
    session = spark.newSession()
    before = dict(spark.sparkContext.environment)
    register(session)
    identity = spark._jvm.System.identityHashCode
    first = identity(worker_environment(session, "rocketmq-commitlog"))
    register(session)
    assert identity(worker_environment(session, "rocketmq-commitlog")) == first
    assert spark.sparkContext.environment == before
