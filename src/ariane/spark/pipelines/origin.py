"""The origin of a pipeline: topics of a cluster, or store folders."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from ariane.errors import ConfigError
from ariane.spark.commitlog.options import CommitlogOptions
from ariane.spark.registration import register

_LEAVE_OUT: Final = ("topic", "topicpattern", "startingtimestamp", "endingtimestamp", "failondataloss")


@dataclass(frozen=True)
class Topics:
    """Topics of a cluster; `options` are further options of the `rocketmq` source, such as keys and TLS."""

    name_server: str
    topic: str = ""
    pattern: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return "rocketmq"

    def settings(self) -> dict[str, Any]:
        """The options that name them."""
        if bool(self.topic) == bool(self.pattern):
            raise ConfigError("a topic or a pattern of topics is needed, and not both")
        which = {"topic": self.topic} if self.topic else {"topicPattern": self.pattern}
        return {"nameServer": self.name_server, **which, **self.options}


@dataclass(frozen=True)
class Stores:
    """Store folders, by comma; `options` are further options of the `rocketmq-commitlog` source."""

    path: str
    topic: str = ""
    pattern: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> str:
        return "rocketmq-commitlog"

    def settings(self) -> dict[str, Any]:
        """The options that name them."""
        which = {"topic": self.topic, "topicPattern": self.pattern}
        return {"path": self.path, **{name: value for name, value in which.items() if value}, **self.options}

    def filters(self) -> list[str]:
        """The options with which messages in the files may be left out."""
        given = {name.lower(): f"{name}={value}" for name, value in self.settings().items()}
        if CommitlogOptions.parse(self.settings()).fail:
            given.pop("failondataloss", None)
        return [given[name] for name in _LEAVE_OUT if name in given]


Origin = Topics | Stores


def batch(spark: SparkSession, origin: Origin, **more: Any) -> DataFrame:
    """Read what is stored now."""
    return spark.read.format(origin.source).options(**origin.settings(), **more).load()


def stream(spark: SparkSession, origin: Origin, **more: Any) -> DataFrame:
    """Read what is stored, and what arrives."""
    register(spark)  # a session may run several pipelines
    return spark.readStream.format(origin.source).options(**origin.settings(), **more).load()
