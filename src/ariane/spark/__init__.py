"""RocketMQ in Spark through PySpark: topics and store folders as data sources, and the pipelines built on them.

Nothing that needs Spark is imported before it is asked for: executors and the planner import only what they use.
"""

from importlib import import_module
from typing import Any

from ariane.extras import extra

_FUNCTIONS = {
    "Archive": "pipelines.archive",
    "start_archive": "pipelines.archive",
    "read_archive": "pipelines.archive",
    "archived_offsets": "pipelines.archive",
    "compact": "pipelines.compaction",
    "file_status": "pipelines.status",
    "behind": "pipelines.expiry",
    "Replay": "pipelines.replay",
    "run_replay": "pipelines.replay",
    "Questions": "pipelines.analyse",
    "analyse": "pipelines.analyse",
    "windowed": "pipelines.analyse",
    "start_windows": "pipelines.analyse",
    "typed": "pipelines.analyse",
    "page": "pipelines.report",
    "sample": "pipelines.lag",
    "dead_letters": "pipelines.dlq",
    "deliveries": "pipelines.trace",
    "Topics": "pipelines.origin",
    "Stores": "pipelines.origin",
    "queue_lag": "progress",
    "register": "registration",
}

__all__ = list(_FUNCTIONS)


def __getattr__(name: str) -> Any:
    if name not in _FUNCTIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with extra("spark", "Ariane's Spark layer"):
        return getattr(import_module(f"{__name__}.{_FUNCTIONS[name]}"), name)
