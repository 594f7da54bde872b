"""`ariane pipeline`: data pipelines over topics and stores, on Spark."""

import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from ariane.cli.pipelines.display import display, follow
from ariane.cli.pipelines.errors import PipelineGroup
from ariane.cli.pipelines.tables import print_answers, print_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from ariane.spark.access import Access
    from ariane.spark.pipelines.origin import Origin
    from ariane.spark.pipelines.status import FileStatus

app = typer.Typer(
    add_completion=False,
    cls=PipelineGroup,
    help="Data pipelines over topics and stores, on Spark.",
    no_args_is_help=True,
)
out = Console(soft_wrap=True, highlight=False)
err = Console(stderr=True, soft_wrap=True)

NameServer = Annotated[str, typer.Option("--namesrv", "-n", envvar="NAMESRV_ADDR", help="name servers, a:9876;b:9876")]
Topic = Annotated[str, typer.Option("--topic", "-t", help="topics, by comma")]
Pattern = Annotated[str, typer.Option("--pattern", help="topics, by a regular expression")]
Store = Annotated[str, typer.Option("--store", help="store folders, by comma, instead of a cluster")]
Master = Annotated[str, typer.Option("--master", help="Spark's master; without it spark-submit's, or local[*]")]
Conf = Annotated[list[str], typer.Option("--conf", help="a setting of Spark, name=value; more than once")]
Option = Annotated[list[str], typer.Option("--option", help="a further option of the source or sink, name=value")]

LATE = 3  # exit code when an archive is about to lose messages
SIGNALLED = 128  # and the number of the signal: exit code of what was stopped before its end


def session(master: str, conf: list[str]) -> "SparkSession":
    """The session of this run."""
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        err.print("Spark is not installed; the pipelines need: pip install 'ariane\\[spark]' and Java 17")
        raise typer.Exit(2) from None
    if not master or master.startswith("local"):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the first Python on the path may not have Ariane
    builder: Any = SparkSession.builder.appName("ariane pipeline").config("spark.ui.showConsoleProgress", "false")
    if master:
        builder = builder.master(master)
    for name, value in _pairs(conf).items():
        builder = builder.config(name, value)
    spark: SparkSession = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = dict(item.partition("=")[::2] for item in given)
    if "" in pairs.values():
        raise typer.BadParameter("must be name=value")
    return pairs


def _origin(namesrv: str, topic: str, pattern: str, store: str, option: list[str]) -> "Origin":
    from ariane.spark.pipelines.origin import Stores, Topics

    if store:
        return Stores(store, topic, pattern, _pairs(option))
    if not namesrv:
        raise typer.BadParameter("--namesrv or --store is needed")
    return Topics(namesrv, topic, pattern, _pairs(option))


def _access(namesrv: str, option: list[str]) -> "Access":
    from ariane.spark.access import ACCESS_OPTIONS, Access
    from ariane.spark.options import SparkOptions

    known = {name.lower() for name in ACCESS_OPTIONS}
    given = {name: value for name, value in _pairs(option).items() if name.lower() in known}
    return Access.parse(SparkOptions.check({"nameServer": namesrv, **given}, ACCESS_OPTIONS, "the pipeline"))


def _print(frame: "DataFrame", what: str) -> None:
    """A small frame as a table."""
    with display(err, what, frame.sparkSession):
        rows = frame.collect()
    print_table(out, frame.columns, rows)


@app.command()
def archive(
    path: Annotated[str, typer.Argument(help="the archive: a folder on any file system that Spark knows")],
    namesrv: NameServer = "",
    topic: Topic = "",
    pattern: Pattern = "",
    store: Store = "",
    continuous: Annotated[bool, typer.Option("--continuous", help="go on until SIGINT or SIGTERM")] = False,
    delta: Annotated[bool, typer.Option("--delta", help="a Delta table instead of Parquet")] = False,
    compact: Annotated[bool, typer.Option("--compact", help="put small files together afterwards")] = False,
    before_expiry: Annotated[
        float | None, typer.Option(help="only look: exit with 3 if messages not archived expire within so many hours")
    ] = None,
    retention: Annotated[
        float | None, typer.Option(help="hours that brokers keep messages; without it they are asked")
    ] = None,
    master: Master = "",
    conf: Conf = [],
    option: Option = [],
) -> None:
    """Topics or store folders to Parquet, by topic and hour, each message once; goes on where it ended."""
    from ariane.spark.pipelines import archive as archiving
    from ariane.spark.pipelines.compaction import compact as compact_files

    spark = session(master, conf)
    origin = _origin(namesrv, topic, pattern, store, option)
    if before_expiry is not None:
        _expiry(spark, path, origin, before_expiry, retention)
        return
    form = archiving.Archive(path, "delta" if delta else "parquet")
    seen = follow(err, archiving.start_archive(spark, origin, form, continuous=continuous), "archive", spark)
    out.print(f"{seen.count:,} messages archived to {path}")
    if seen.stopped and not continuous:
        raise typer.Exit(SIGNALLED + seen.stopped)
    if store:
        _archived_files(spark, path, store)
    if compact:
        out.print(f"{compact_files(spark, path):,} small files put together")


def _archived_files(spark: "SparkSession", path: str, store: str) -> None:
    from ariane.spark.pipelines.status import file_status

    for status in file_status(spark, path, store):
        out.print(f"  {status.file}  {_archived(status)}")


def _archived(status: "FileStatus") -> str:
    if status.archived:
        return "archived"
    if status.filters:
        return f"not archived: messages were left out by {', '.join(status.filters)}"
    return f"not archived, {status.missing:,} bytes missing"


def _expiry(spark: "SparkSession", path: str, origin: "Origin", hours: float, retention: float | None) -> None:
    from ariane.spark.pipelines.archive import archived_offsets
    from ariane.spark.pipelines.expiry import DEFAULT_HOURS, behind
    from ariane.spark.pipelines.origin import Stores

    if isinstance(origin, Stores):
        raise typer.BadParameter("--before-expiry asks brokers: with --namesrv, not --store")
    late = behind(origin, archived_offsets(spark, path), retention)
    for broker, reason in late.silent.items():
        err.print(f"{broker} does not say how long it keeps messages, {DEFAULT_HOURS:g} h are taken: {reason}")
    for queue in late.queues:
        left = f"{queue.lost:,} lost already" if queue.lost else f"{queue.hours_left:.1f} h left"
        out.print(f"{queue.queue}: {queue.missing:,} messages not archived, {left}")
    if any(queue.hours_left < hours for queue in late.queues):
        err.print(f"[red]the archive lags: messages expire within {hours:g} h[/red]")
        raise typer.Exit(LATE)
    out.print(f"nothing expires within {hours:g} h that is not archived")


@app.command()
def replay(
    archive: Annotated[str, typer.Argument(help="the archive")],
    topic: Annotated[str, typer.Argument(help="the archived topic")],
    target: Annotated[str, typer.Argument(help="the topic to send to")],
    namesrv: NameServer = "",
    state: Annotated[str, typer.Option(help="a folder that remembers what is done, to go on after a crash")] = "",
    start: Annotated[str, typer.Option(help="from this time of storing on, as 2026-01-31T12:00:00 (UTC)")] = "",
    end: Annotated[str, typer.Option(help="before this time of storing")] = "",
    rate: Annotated[int, typer.Option(help="messages a second; 0 without a limit")] = 0,
    exactly_once: Annotated[bool, typer.Option("--exactly-once", help="each hour in a transaction")] = False,
    master: Master = "",
    conf: Conf = [],
    option: Option = [],
) -> None:
    """An archive, or a time range of it, back into a topic, in order per queue."""
    from ariane.spark.pipelines.replay import Replay, run_replay

    delivery = "exactly-once" if exactly_once else "at-least-once"
    plan = Replay(
        archive, topic, target, namesrv, state or f"{archive.rstrip('/')}/_ariane/replay", start, end,
        rate or None, delivery, tuple(_pairs(option).items()),
    )  # fmt: skip
    total = 0
    spark = session(master, conf)
    with display(err, "replay", spark) as show:
        for hour, count in run_replay(spark, plan):
            total += count
            show(f"{hour} done, {total:,} messages")
    out.print(f"{total:,} messages replayed to {target}")


@app.command()
def analyse(
    namesrv: NameServer = "",
    topic: Topic = "",
    pattern: Pattern = "",
    store: Store = "",
    archive: Annotated[str, typer.Option(help="an archive, instead of a cluster or a store")] = "",
    window: Annotated[str, typer.Option(help="the length of a window")] = "1 minute",
    watermark: Annotated[str, typer.Option(help="a message stored so long after its birth is late")] = "10 minutes",
    body_schema: Annotated[str, typer.Option(help="of JSON bodies: 'amount double, city string'")] = "",
    html: Annotated[Path | None, typer.Option(help="write a page with plots")] = None,
    parquet: Annotated[str, typer.Option(help="write the windows as Parquet, with --body-schema also the fields")] = "",
    to_topic: Annotated[str, typer.Option(help="send the same to a topic, as JSON")] = "",
    checkpoint: Annotated[
        str, typer.Option(help="count on from the last run into --parquet, and remember here how far it came")
    ] = "",
    master: Master = "",
    conf: Conf = [],
    option: Option = [],
) -> None:
    """Counts, bytes, latencies, top keys, tags and producers, late messages, fields of JSON bodies."""
    from ariane.spark.pipelines import analyse as analysing
    from ariane.spark.pipelines.archive import archived_rows
    from ariane.spark.pipelines.origin import batch
    from ariane.spark.pipelines.output import windows_to_topic
    from ariane.spark.pipelines.report import page

    spark = session(master, conf)
    questions = analysing.Questions(window, watermark, body_schema=body_schema)
    if checkpoint:
        if html or to_topic or archive:
            raise typer.BadParameter("--checkpoint goes on counting windows: only with --parquet")
        origin = _origin(namesrv, topic, pattern, store, option)
        query = analysing.start_windows(spark, origin, questions, parquet, checkpoint)
        seen = follow(err, query, "analyse", spark)
        if seen.stopped:
            raise typer.Exit(SIGNALLED + seen.stopped)
        late = seen.observed["late"]
        out.print(f"{seen.count:,} messages counted, {late:,} of them late; windows that are over are in {parquet}")
        return
    with display(err, "analyse", spark):
        if archive:
            rows = archived_rows(spark, archive, topic, pattern)
        else:
            rows = batch(spark, _origin(namesrv, topic, pattern, store, option))
        answers = analysing.analyse(rows, questions)
    print_answers(out, answers)
    if html is not None:
        html.write_text(page(answers, f"Topics {topic or pattern or archive or store}"))
        out.print(f"report: {html}")
    if parquet:
        analysing.windowed(rows, questions).write.mode("overwrite").parquet(parquet)
    if to_topic:
        windows_to_topic(analysing.windowed(rows, questions), namesrv, to_topic, _pairs(option))


@app.command()
def lag(
    group: Annotated[str, typer.Option("--group", "-g", help="groups, by comma")],
    topic: Topic,
    namesrv: NameServer,
    every: Annotated[float, typer.Option(help="seconds between samples; 0 for one sample")] = 0,
    samples: Annotated[int, typer.Option(help="how many")] = 60,
    parquet: Annotated[str, typer.Option(help="append the samples to this folder")] = "",
    master: Master = "",
    conf: Conf = [],
    option: Option = [],
) -> None:
    """How far groups are behind, per queue, in messages and in time; once or over time."""
    from ariane.spark.cluster import Cluster
    from ariane.spark.pipelines.lag import LAG_SCHEMA, rows_of, sample

    access = _access(namesrv, option)
    spark = session(master, conf)
    groups, topics = ([name.strip() for name in text.split(",")] for text in (group, topic))
    with Cluster(access) as cluster:
        for number in range(samples if every else 1):
            with display(err, f"lag, sample {number + 1} of {samples if every else 1}", spark):
                if number:
                    time.sleep(every)
                rows = rows_of(sample(cluster, access, groups, topics))
            frame = spark.createDataFrame(rows, LAG_SCHEMA)
            if parquet:
                frame.coalesce(1).write.mode("append").parquet(parquet)
            _print(frame, "lag")


@app.command()
def dlq(
    namesrv: NameServer = "",
    group: Annotated[str, typer.Option("--group", "-g", help="groups, by comma; all without it")] = "",
    store: Store = "",
    samples: Annotated[int, typer.Option(help="of each kind of failure")] = 3,
    master: Master = "",
    conf: Conf = [],
    option: Option = [],
) -> None:
    """Summarise dead letters: what fails, since when, from which topic, with samples."""
    from ariane.message import dead_letter_topic
    from ariane.spark.pipelines.dlq import summary
    from ariane.spark.pipelines.origin import batch

    names = "|".join(re.escape(name.strip()) for name in group.split(",") if name.strip())
    topics = dead_letter_topic(
        f"(?:{names or '.*'})"
    )  # a pattern, for a group of which nothing failed has no such topic
    origin = _origin(namesrv, "", topics, store, option)
    spark = session(master, conf)
    _print(summary(batch(spark, origin), samples), "dlq")


@app.command()
def trace(
    namesrv: NameServer = "",
    topic: Topic = "RMQ_SYS_TRACE_TOPIC",
    store: Store = "",
    parquet: Annotated[str, typer.Option(help="write every delivery as Parquet")] = "",
    master: Master = "",
    conf: Conf = [],
    option: Option = [],
) -> None:
    """The trace topic: send-to-consume latencies, retries and success rates."""
    from ariane.spark.pipelines.origin import batch
    from ariane.spark.pipelines.trace import deliveries, summary

    spark = session(master, conf)
    rows = batch(spark, _origin(namesrv, topic, "", store, option))
    _print(summary(rows), "trace")
    if parquet:
        with display(err, "trace to Parquet", spark):
            deliveries(rows).write.mode("overwrite").parquet(parquet)


@app.command()
def settle(
    checkpoint: Annotated[str, typer.Argument(help="the checkpoint of a query with delivery=exactly-once")],
    namesrv: NameServer,
    option: Option = [],
) -> None:
    """Finish the committed batches of a driver that does not come back."""
    from ariane.spark.sink.checks import finish
    from ariane.spark.sink.decisions import Decisions
    from ariane.spark.sink.options import SinkOptions

    given = {"nameServer": namesrv, "delivery": "exactly-once", "checkpointLocation": checkpoint, **_pairs(option)}
    options, decisions = SinkOptions.parse(given), Decisions(checkpoint)
    unsettled = [decision for decision in decisions.all() if not decision.settled]
    for decision in unsettled:
        finish(decision.name, options, decisions)
    out.print(json.dumps({"finished": [decision.name for decision in unsettled]}))
