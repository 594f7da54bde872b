"""Spark looks for modules of this kind of name and registers their `DefaultSource`: no call in user code is needed."""

from ariane.spark.source import RocketmqSource

__all__ = ["DefaultSource"]

DefaultSource = RocketmqSource
