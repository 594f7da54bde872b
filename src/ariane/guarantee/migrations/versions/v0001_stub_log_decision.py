"""Stub, log and decisions."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

ID = sa.String(64).with_variant(mysql.VARCHAR(64, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
NAME = sa.String(127).with_variant(mysql.VARCHAR(127, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
TABLE: dict[str, Any] = {"mysql_charset": "utf8mb4", "mysql_engine": "InnoDB"}


def upgrade() -> None:
    """Create the tables."""
    op.create_table(
        "message_stub",
        sa.Column("message_id", ID, primary_key=True),
        sa.Column("consumer_group", NAME, primary_key=True),
        sa.Column("topic", NAME, nullable=False),
        sa.Column("tag", sa.Text),
        sa.Column("keys", sa.Text),
        sa.Column("properties", sa.Text),
        sa.Column("hash_key", sa.Text),
        sa.Column("content", sa.LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb"), nullable=False),
        sa.Column("count", sa.Integer, nullable=False),
        sa.Column("status", sa.SmallInteger, nullable=False),
        sa.Column("broker_name", NAME),
        sa.Column("queue_id", sa.Integer),
        sa.Column("queue_offset", sa.BigInteger),
        sa.Column("resend_time", sa.BigInteger),
        sa.Column("created", sa.BigInteger, nullable=False),
        sa.Column("settled", sa.BigInteger),
        sa.Column("lease_owner", ID),
        sa.Column("lease_until", sa.BigInteger),
        sa.Column("attention", sa.String(1000)),
        sa.Column("notify_time", sa.BigInteger),
        sa.Column("notified", sa.BigInteger),
        sa.Column("last_error", sa.String(1000)),
        **TABLE,
    )
    op.create_index("ix_message_stub_due", "message_stub", ["status", "resend_time"])
    op.create_index("ix_message_stub_age", "message_stub", ["status", "created"])
    op.create_index("ix_message_stub_notify", "message_stub", ["notify_time"])
    op.create_table(
        "message_log",
        sa.Column("message_id", ID, primary_key=True),
        sa.Column("consumer_group", NAME, primary_key=True),
        sa.Column("broker_name", NAME, nullable=False),
        sa.Column("queue_id", sa.Integer, nullable=False),
        sa.Column("queue_offset", sa.BigInteger, nullable=False),
        sa.Column("received", sa.BigInteger, nullable=False),
        **TABLE,
    )
    op.create_index("ix_message_log_received", "message_log", ["received", "message_id"])
    op.create_table(
        "message_decision",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), sa.Identity(), primary_key=True),
        sa.Column("message_id", ID, nullable=False),
        sa.Column("consumer_group", NAME, nullable=False),
        sa.Column("action", sa.String(20), nullable=False),
        sa.Column("who", sa.String(200), nullable=False),
        sa.Column("reason", sa.String(1000), nullable=False),
        sa.Column("decided", sa.BigInteger, nullable=False),
        **TABLE,
    )
    op.create_index("ix_message_decision_message", "message_decision", ["message_id", "consumer_group"])


def downgrade() -> None:
    """Drop the tables."""
    for table in ("message_decision", "message_log", "message_stub"):
        op.drop_table(table)
