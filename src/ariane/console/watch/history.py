"""Figures over time in SQLite: fine for some hours, coarse after that; bounded by age and by number of rows."""

import sqlite3
import threading
from pathlib import Path
from typing import Final

from ariane.console.watch.database import open_database

MOST: Final = 2_000_000  # rows, some 150 MB
POINTS: Final = 300  # of a series that a page shows
FINE_MS: Final = 2 * 3_600_000  # every sample is kept for so long
COARSE_MS: Final = 300_000  # then one sample in so many
TOTAL: Final = ("lag", "")  # a figure that every sample has: it tells when samples were taken

Series = list[tuple[int, float]]


class History:
    """Samples of figures: `(cluster, figure, name)` over time. Rows are written by one thread, read by the loop's."""

    def __init__(self, path: Path, days: float) -> None:
        self._keep_ms = int(days * 86_400_000)
        self._writer = open_database(
            path,
            """
            create table if not exists figure (cluster text, figure text, name text, time integer, value real,
              coarse integer, primary key (cluster, figure, name, time)) without rowid;
            create index if not exists figure_time on figure (coarse, time);
            """,
        )
        self._writing = threading.Lock()
        (self._count,) = self._writer.execute("select count(*) from figure").fetchone()
        self._reader = sqlite3.connect(path)
        self._newest_coarse: dict[str, int] = {}

    def add(self, cluster: str, time: int, values: dict[tuple[str, str], float]) -> None:
        """Keep the values of one moment by (figure, name), and drop what is too old. Call it in a thread."""
        bucket = time // COARSE_MS
        coarse = self._newest_coarse.get(cluster) != bucket
        self._newest_coarse[cluster] = bucket
        rows = [(cluster, figure, name, time, value, coarse) for (figure, name), value in values.items()]
        with self._writing, self._writer as database:
            database.executemany("insert or replace into figure values (?, ?, ?, ?, ?, ?)", rows)
            self._count += len(rows)
            for kind, oldest in ((0, time - FINE_MS), (1, time - self._keep_ms)):
                query = "delete from figure where coarse = ? and time < ?"
                self._count -= database.execute(query, (kind, oldest)).rowcount
            if self._count > MOST:
                (self._count,) = database.execute("select count(*) from figure").fetchone()
                beyond = (max(0, self._count - MOST + MOST // 50),)
                old = "select time from figure where coarse = 1 order by time limit 1 offset ?"
                any_row = "select time from figure order by time limit 1 offset ?"  # sorts all: for few coarse rows
                edge = database.execute(old, beyond).fetchone() or database.execute(any_row, beyond).fetchone()
                if edge is not None:
                    self._count -= database.execute("delete from figure where time < ?", edge).rowcount

    def series(self, cluster: str, figure: str, name: str, since: int, until: int) -> Series:
        """A figure in a range of time, oldest first: the highest value of each of at most POINTS steps.

        Samples hold no zeros of groups and topics; a step in which samples were taken and this has no value is 0.
        """
        step = max(1000, (until - since) // POINTS)
        query = (
            "select time / :step * :step, max(value) from figure "
            "where cluster = :cluster and figure = :figure and name = :name and time between :since and :until "
            "group by 1 order by 1"
        )
        asked = {"step": step, "cluster": cluster, "figure": figure, "name": name, "since": since, "until": until}
        found = dict(self._reader.execute(query, asked).fetchall())
        if not found or (figure, name) == TOTAL:
            return list(found.items())
        taken = self._reader.execute(query, asked | {"figure": TOTAL[0], "name": TOTAL[1]}).fetchall()
        return sorted({**dict.fromkeys((time for time, _ in taken), 0.0), **found}.items())

    def names(self, cluster: str, figure: str, since: int, most: int = 1000) -> list[str]:
        """The names that have a value of a figure since a time, the highest value first."""
        query = (
            "select name from figure where cluster = ? and figure = ? and name <> '' and time >= ? "
            "group by name order by max(value) desc, name limit ?"
        )
        return [name for (name,) in self._reader.execute(query, (cluster, figure, since, most))]

    def at(self, cluster: str, figure: str, name: str, since: int) -> float | None:
        """The first value of a figure since a time."""
        query = (
            "select value from figure where cluster = ? and figure = ? and name = ? and time >= ? order by time limit 1"
        )
        row = self._reader.execute(query, (cluster, figure, name, since)).fetchone()
        return None if row is None else float(row[0])

    def close(self) -> None:
        """Close the file."""
        with self._writing:
            self._writer.close()
        self._reader.close()
