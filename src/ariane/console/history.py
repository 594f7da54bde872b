"""Rates, lag and disk over time, in SQLite; bounded by age and by number of rows."""

import sqlite3
from pathlib import Path
from typing import Final

MOST: Final = 2_000_000  # rows, some 100 MB
POINTS: Final = 600  # of a series that a page shows


class History:
    """Samples of figures: `(cluster, figure, name)` over time. Used on the event loop: each call is one short query."""

    def __init__(self, path: Path, days: float) -> None:
        self._keep_ms = int(days * 86_400_000)
        self._database = sqlite3.connect(path)
        self._database.execute("pragma journal_mode = wal")
        self._database.execute("pragma synchronous = normal")
        self._database.execute(
            "create table if not exists sample (cluster text, figure text, name text, time integer, value real, "
            "primary key (cluster, figure, name, time)) without rowid"
        )
        self._database.execute("create index if not exists sample_time on sample (time)")
        self._database.commit()

    def add(self, cluster: str, time: int, values: dict[tuple[str, str], float]) -> None:
        """Keep the values of one moment by (figure, name), and drop what is too old."""
        with self._database:
            self._database.executemany(
                "insert or replace into sample values (?, ?, ?, ?, ?)",
                [(cluster, figure, name, time, value) for (figure, name), value in values.items()],
            )
            self._database.execute("delete from sample where time < ?", (time - self._keep_ms,))
            (count,) = self._database.execute("select count(*) from sample").fetchone()
            if count > MOST:
                rows = (count - MOST + MOST // 100,)
                (edge,) = self._database.execute(
                    "select time from sample order by time limit 1 offset ?", rows
                ).fetchone()
                self._database.execute("delete from sample where time < ?", (edge,))

    def series(self, cluster: str, figure: str, name: str) -> list[tuple[int, float]]:
        """The values of a figure, oldest first; the newest ones of a long series."""
        query = (
            "select time, value from sample where cluster = ? and figure = ? and name = ? order by time desc limit ?"
        )
        return self._database.execute(query, (cluster, figure, name, POINTS)).fetchall()[::-1]

    def names(self, cluster: str, figure: str) -> list[str]:
        """The names that have a value of a figure."""
        query = "select distinct name from sample where cluster = ? and figure = ? order by name limit 5000"
        return [name for (name,) in self._database.execute(query, (cluster, figure))]

    def close(self) -> None:
        """Close the file."""
        self._database.close()
