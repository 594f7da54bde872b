"""What is done of a replay, and what a part of it is."""

import json
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ariane.spark.pipelines.folders import Folder

Ends = dict[str, int]
"""The last offset of each queue."""


def queue() -> Column:
    """A queue's name; a store folder may not tell its broker, then the address does."""
    return F.concat_ws("/", F.coalesce("brokerName", "storeHost"), F.col("queueId").cast("string"))


def last_offsets(rows: DataFrame) -> Ends:
    found = rows.groupBy(queue().alias("queue")).agg(F.max("queueOffset").alias("end")).collect()
    return {row.queue: row.end for row in found}


def offset_in(ends: Ends) -> Column:
    """The offset that is noted for a row's queue; -1 if none is."""
    noted = F.from_json(F.lit(json.dumps(ends)), "map<string,bigint>")
    return F.coalesce(F.element_at(noted, queue()), F.lit(-1))


@dataclass(frozen=True)
class Part:
    """Messages of an hour behind some offsets and up to others."""

    hour: str
    number: int
    behind: Ends
    upto: Ends

    def of(self, rows: DataFrame) -> DataFrame:
        """Its messages among all."""
        at = F.col("queueOffset")
        inside = (at > offset_in(self.behind)) & (at <= offset_in(self.upto))
        return rows.where((F.col("hour") == self.hour) & inside)


class State:
    """What is done of a replay, in parts: what the archive had of an hour when the replay came to it.

    A part is noted before it is sent. So one that was interrupted is sent again with the same messages, however much
    the archive has got since; and what it has got since is the next part.
    """

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder = folder
        self._file = f"replay-{name}.json"
        noted = folder.read_json(self._file) or {"hours": {}, "begun": None}
        self._parts: dict[str, list[Ends]] = noted["hours"]
        self.begun: str | None = noted["begun"]  # the hour whose last part may not have been sent

    def ends(self, hour: str) -> Ends:
        """Up to where the hour was taken."""
        return self._parts[hour][-1] if self._parts.get(hour) else {}

    def last_part(self, hour: str) -> Part:
        parts = self._parts[hour]
        return Part(hour, len(parts), parts[-2] if len(parts) > 1 else {}, parts[-1])

    def begin(self, hour: str, found: Ends) -> Part:
        """Note a part that goes to the ends that were found."""
        self._parts.setdefault(hour, []).append(self.ends(hour) | found)
        self._note(hour)
        return self.last_part(hour)

    def done(self) -> None:
        """The part that was begun is sent."""
        self._note(None)

    def _note(self, begun: str | None) -> None:
        self.begun = begun
        self._folder.write_json(self._file, {"hours": self._parts, "begun": begun})
