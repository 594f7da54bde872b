"""The tables' history, run by Alembic: `ariane guarantee migrate`, or `migrate` here.

The version is kept in a table of its own, so that it does not meet that of your application.
"""

from pathlib import Path

from sqlalchemy import Connection

VERSION_TABLE = "ariane_guarantee_version"


def migrate(connection: Connection, revision: str = "head") -> None:
    """Bring the tables to a revision."""
    from alembic import command  # only who migrates pays for it
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    config.attributes["connection"] = connection
    command.upgrade(config, revision)
