"""`df.write` and `df.writeStream.format("rocketmq")`."""

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from ariane.message import PRODUCER_GROUP, TRANSACTION_PREPARED
from ariane.protocol.headers import SendMessageResponse
from ariane.protocol.ids import parse_offset_id
from ariane.spark.cluster import Cluster
from ariane.spark.sink.checks import ANSWERS, TRY
from ariane.spark.sink.committing import Committer
from ariane.spark.sink.decisions import Decision, Decisions, Halves, Try, name_of_write
from ariane.spark.sink.end_transactions import Settlement
from ariane.spark.sink.options import Delivery, SinkOptions
from ariane.spark.sink.rows import RowKeys, check_columns, rows_of
from ariane.spark.sink.sender import Request, SinkSender
from ariane.spark.worker import spare_collector


@dataclass
class Sent(WriterCommitMessage):
    """What a task reports: how much it sent, and for a transaction the half messages."""

    write: str
    group: str
    rows: int
    attempt: Try | None = None


@dataclass(frozen=True)
class Work:
    """Which rows a task has in hand."""

    write: str
    decision: str  # the name of the decision that is about them
    partition: int

    @classmethod
    def of_write(cls, write: str) -> "Work":
        """Of the running task of a batch write, which may be one in a stream's foreachBatch."""
        return cls(write, name_of_write(write), _task().partitionId())

    @classmethod
    def of_stream(cls) -> "Work":
        """Of the running task of a stream; its id and the number of the batch come from Spark."""
        task = _task()
        query, batch = task.getLocalProperty("sql.streaming.queryId"), task.getLocalProperty("streaming.sql.batchId")
        assert query is not None
        assert batch is not None
        return cls(query, batch, task.partitionId())

    @property
    def group(self) -> str:
        """A producer group for the write: of letters that brokers allow, and another for each write."""
        readable = re.sub(r"[^%|\w-]", "_", self.write, flags=re.ASCII)[:64]
        return f"spark_{readable}_{blake2b(self.write.encode(), digest_size=4).hexdigest()}"


def _task() -> TaskContext:
    context = TaskContext.get()
    assert context is not None
    return context


class Sink:
    """Both kinds of write do the same: tasks send, the driver decides."""

    def __init__(self, options: SinkOptions, schema: StructType) -> None:
        self.options = options
        self.exactly_once = options.delivery is Delivery.EXACTLY_ONCE
        check_columns(schema, topic=options.topic, transactional=self.exactly_once)
        self.ordered = "hashKey" in schema.fieldNames()
        self.write_id = options.write_id or secrets.token_hex(8)

    def send(self, batches: Iterator[pa.RecordBatch], work: Work) -> Sent:
        """What one task does."""
        spare_collector()
        group = self.options.group or work.group
        token = f"{work.decision}/{work.partition}/{secrets.token_hex(8)}"
        halves = _HalfLog(lambda topic: ANSWERS.begin(self.options, group, topic))
        with Cluster(self.options.access) as cluster:
            sender = SinkSender(self.options, group, cluster, halves.note, turn=work.partition, half=self.exactly_once)
            try:
                count = self._send_all(sender, batches, work, token, group)
            finally:
                sender.close()
        return Sent(
            work.write, group, count, Try(token, halves.found(), halves.topics()) if self.exactly_once else None
        )

    def _send_all(
        self, sender: SinkSender, batches: Iterator[pa.RecordBatch], work: Work, token: str, group: str
    ) -> int:
        """Keys are the same in every try; in a transaction they are the try's own, for tries must not be mixed up."""
        more: dict[str, str] = {}
        write = work.write
        if self.exactly_once:
            more = {TRANSACTION_PREPARED: "true", PRODUCER_GROUP: group, TRY: token}
            write += token
        keys = RowKeys(write, work.decision, work.partition)
        count = 0
        for batch in batches:
            count += batch.num_rows
            for row in rows_of(batch, keys, self.options.topic, more):
                sender.add(row)
        sender.flush()
        return count

    def decide(self, messages: Sequence[WriterCommitMessage | None], name: str) -> None:
        """What the driver does when all tasks are done: make the batch visible, whole and once."""
        if self.exactly_once:
            with Cluster(self.options.access) as cluster:
                self.committer(cluster).commit(self._decision(messages, name), name)

    def committer(self, cluster: Cluster) -> Committer:
        """What decides."""
        assert self.options.checkpoint is not None
        settlement = Settlement(cluster, self.options)
        return Committer(settlement, Decisions(self.options.checkpoint), cluster, self.options.commit_timeout)

    def take_back(self, messages: Sequence[WriterCommitMessage | None], name: str) -> None:
        """What the driver does when a task failed for good, or the commit."""
        tried = self._decision(messages, name)
        if tried is not None:
            with Cluster(self.options.access) as cluster:
                self.committer(cluster).take_back(tried)

    def _decision(self, messages: Sequence[WriterCommitMessage | None], name: str) -> Decision | None:
        sent = [message for message in messages if isinstance(message, Sent) and message.attempt is not None]
        tries = [message.attempt for message in sent if message.attempt is not None and message.rows]
        return Decision(name, sent[0].write, sent[0].group, tries, {}, self.ordered) if tries else None


class _HalfLog:
    """The half messages of a task, as brokers confirm them; `on_topic` hears of each topic once."""

    def __init__(self, on_topic: Callable[[str], None]) -> None:
        self._on_topic = on_topic
        self._halves: dict[str, Halves] = {}
        self._topics: set[str] = set()

    def note(self, request: Request, answer: SendMessageResponse) -> None:
        if not request.half or request.where is None:
            return
        if request.topic not in self._topics:
            self._topics.add(request.topic)
            self._on_topic(request.topic)
        _, log_offset = parse_offset_id(answer.msg_id)
        halves = self._halves.setdefault(request.where.broker_name, Halves(request.where.broker_name, [], [], []))
        halves.queue_offsets.append(answer.queue_offset)
        halves.log_offsets.append(log_offset)
        halves.unique_keys.append(request.rows[0].unique_key)

    def topics(self) -> list[str]:
        return sorted(self._topics)

    def found(self) -> list[Halves]:
        return list(self._halves.values())


class BatchSink(DataSourceArrowWriter):
    """`df.write.format("rocketmq")`."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.sink.send(iterator, Work.of_write(self.sink.write_id))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.sink.decide(messages, name_of_write(self.sink.write_id))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.sink.take_back(messages, name_of_write(self.sink.write_id))


class StreamSink(DataSourceStreamArrowWriter):
    """`df.writeStream.format("rocketmq")`."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self.sink.send(iterator, Work.of_stream())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.sink.decide(messages, str(batchId))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.sink.take_back(messages, str(batchId))
