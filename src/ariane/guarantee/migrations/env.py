"""Alembic's entry: runs the migrations in the connection that `migrate` gives."""

from alembic import context

from ariane.guarantee.migrations import VERSION_TABLE
from ariane.guarantee.tables import metadata

context.configure(
    connection=context.config.attributes["connection"], target_metadata=metadata, version_table=VERSION_TABLE
)
with context.begin_transaction():
    context.run_migrations()
