"""Spark looks for modules of this kind of name and registers their `DefaultSource`: no call in user code is needed."""

from ariane.spark.commitlog.source import CommitlogSource

__all__ = ["DefaultSource"]

DefaultSource = CommitlogSource
