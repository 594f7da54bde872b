"""Which log files of a store are archived to their last message, and may be deleted."""

from dataclasses import dataclass

from pyspark.sql import SparkSession

from ariane.spark.commitlog.log_files import commitlog_folder, log_files
from ariane.spark.commitlog.log_reader import log_end
from ariane.spark.pipelines.archive import archived_offsets, filters_of
from ariane.spark.pipelines.folders import Folder


@dataclass(frozen=True)
class FileStatus:
    """One log file.

    A file that is still written to is not archived, however much of it is; nor is one after any filter was set, for
    it may hold messages that no run will look at again.
    """

    file: str
    archived: bool
    missing: int  # bytes that are written and not archived
    filters: tuple[str, ...] = ()  # options with which messages of it may have been left out


def file_status(spark: SparkSession, archive: str, stores: str) -> list[FileStatus]:
    """Every log file of the stores, by what finished batches of the archive say."""
    have = archived_offsets(spark, archive)
    filters = tuple(filters_of(Folder(spark, archive)))
    return [
        status
        for store in (part.strip() for part in stores.split(","))
        for status in _of_store(store, int(have.get(store, 0)), filters)
    ]


def _of_store(store: str, have: int, filters: tuple[str, ...]) -> list[FileStatus]:
    files = log_files(commitlog_folder(store))
    end = log_end(files, have, fail=False)
    return [
        FileStatus(
            file.path,
            file.end <= have and not filters,
            max(0, min(file.end, end) - max(file.base, have)),
            filters,
        )
        for file in files
        if file.base < end
    ]
