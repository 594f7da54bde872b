"""Opens a SQLite file of the console's folder; what a broken one held can be sampled again."""

import logging
import sqlite3
from pathlib import Path

from ariane.errors import ConfigError

log = logging.getLogger(__name__)


def open_database(path: Path, script: str) -> sqlite3.Connection:
    """Open a file and run a script that creates what is missing; a file that is broken is set aside."""
    for again in (False, True):
        database = sqlite3.connect(path, timeout=5, check_same_thread=False)
        try:
            database.execute("pragma journal_mode = wal")
            database.execute("pragma synchronous = normal")
            database.executescript(script)
            return database
        except sqlite3.DatabaseError as error:
            database.close()
            if again or isinstance(error, sqlite3.OperationalError):  # locked, no room, not allowed
                raise ConfigError(f"{path}: {error}") from None
            aside = path.with_name(f"{path.name}.broken")
            log.warning("%s: %s; it is now %s, and a new one is begun", path, error, aside.name)
            path.replace(aside)
            for more in ("-wal", "-shm"):
                path.with_name(path.name + more).unlink(missing_ok=True)
    raise AssertionError
