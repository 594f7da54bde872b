"""The lag of a running query, from Spark's progress reports."""

import json
from typing import Any

from ariane.message import MessageQueue
from ariane.spark.offsets import Offsets, from_json


def queue_lag(progress: Any) -> dict[MessageQueue, int]:
    """Messages of each queue after the end of the reported batch.

    `progress` is `query.lastProgress`, or what a StreamingQueryListener gets. Rows per second are in it already.
    """
    lag: dict[MessageQueue, int] = {}
    for source in progress.sources:
        end, latest = _offsets(source.endOffset), _offsets(source.latestOffset)
        lag |= {queue: max(offset - end.get(queue, 0), 0) for queue, offset in latest.items()}
    return lag


def _offsets(report: Any) -> Offsets:
    tree = json.loads(report) if isinstance(report, str) else report
    return from_json(tree or {})
