"""Settings of the Python worker process, which outlives a task and runs later ones."""

import gc
from functools import cache

from pyspark import TaskContext


def spare_collector() -> None:
    """Exclude what the worker has imported from garbage collection.

    Spark collects garbage after each task, and with Arrow, numpy and PySpark itself loaded that takes longer than a
    small task: the next one waits for it.
    """
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    """Freeze once per process: objects made later must stay collectable."""
    gc.collect()
    gc.freeze()
