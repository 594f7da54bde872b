"""Files of a table on any file system of Spark, through Hadoop's classes on the driver."""

import json
from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import SparkSession

NOTES: Final = "_ariane"  # Ariane's notes beside the data; Spark ignores names with an underscore
_DRAFT: Final = ".tmp"


class Folder:
    """A folder that holds a table and Ariane's notes about it."""

    def __init__(self, spark: SparkSession, path: str) -> None:
        jvm: Any = spark._jvm
        self._path_of = jvm.org.apache.hadoop.fs.Path
        self._root = self._path_of(path)
        self._files = self._root.getFileSystem(spark._jsc.hadoopConfiguration())
        self._io = jvm.org.apache.commons.io.IOUtils
        self.path = path

    def at(self, *names: str) -> str:
        """The path of something inside."""
        return "/".join((self.path.rstrip("/"), *names))

    def _inside(self, name: str) -> Any:
        return self._path_of(self.at(name))

    def exists(self, name: str) -> bool:
        return bool(self._files.exists(self._inside(name)))

    def names(self, name: str) -> list[str]:
        """What is in a folder below; none when it is not there. Others may be writing there."""
        if not self.exists(name):
            return []
        return [status.getPath().getName() for status in self._files.listStatus(self._inside(name))]

    def walk(self, name: str = "") -> Iterator[tuple[str, int]]:
        """Every file below, by its path inside the folder, with its size; hidden ones are Ariane's or Spark's own."""
        start = self._inside(name) if name else self._root
        if not self._files.exists(start):
            return
        root = self._files.makeQualified(self._root).toString().rstrip("/") + "/"
        found = self._files.listFiles(start, True)
        while found.hasNext():
            status = found.next()
            yield status.getPath().toString().removeprefix(root), int(status.getLen())

    def move(self, name: str, target: str) -> None:
        """Rename a file, making the folders above its new place."""
        goal = self._inside(target)
        self._files.mkdirs(goal.getParent())
        if not self._files.rename(self._inside(name), goal):
            raise OSError(f"{self.at(name)} could not be renamed to {self.at(target)}")

    def remove(self, name: str) -> None:
        """Remove a file, or a folder with all in it."""
        self._files.delete(self._inside(name), True)

    def write_json(self, name: str, value: Any) -> None:
        """Replace a small file: whenever the power goes, readers see the old one or the new one.

        Not every file system can rename over a file. So the old one goes first, and a draft without it is the new one.
        """
        draft, goal = self._inside(name + _DRAFT), self._inside(name)
        self._files.mkdirs(goal.getParent())
        stream = self._files.create(draft, True)
        try:
            stream.write(bytearray(json.dumps(value, indent=1).encode()))
        finally:
            stream.close()
        self._files.delete(goal, False)
        if not self._files.rename(draft, goal):
            raise OSError(f"{self.at(name)} could not be written")

    def read_json(self, name: str) -> Any:
        """A small file, or None."""
        if self.exists(name):
            return json.loads(self._read(name))
        try:
            return json.loads(self._read(name + _DRAFT)) if self.exists(name + _DRAFT) else None
        except ValueError:  # the very first one was not written to its end
            return None

    def _read(self, name: str) -> bytes:
        stream = self._files.open(self._inside(name))
        try:
            return bytes(self._io.toByteArray(stream))
        finally:
            stream.close()
