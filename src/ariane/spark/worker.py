"""What a task does for the Python worker it runs in: the worker outlives it, and runs the next ones too."""

import gc
from functools import cache

from pyspark import TaskContext


def spare_collector() -> None:
    """Leave what the worker has imported out of every later search for garbage.

    Spark collects garbage after each task, and with Arrow, numpy and PySpark itself loaded that takes longer than a
    small task: the next one waits for it.
    """
    if TaskContext.get() is not None:
        _freeze()


@cache
def _freeze() -> None:
    """Once in a process: what comes later is garbage when it is done with."""
    gc.collect()
    gc.freeze()
