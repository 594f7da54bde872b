"""The tables of the guarantee. Times are milliseconds since 1970, as in RocketMQ's own records."""

from enum import IntEnum

from sqlalchemy import (
    BigInteger,
    Column,
    Identity,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects import mysql


class StubStatus(IntEnum):
    """Whether a consumer group has done a message."""

    UNCONFIRMED = 0
    CONFIRMED = 1
    VOID = 2
    """A person decided that it is not to be done."""


metadata = MetaData()
"""Add it to the `target_metadata` of your own Alembic environment to manage the tables there."""

MAX_ID = 64
# MySQL compares text without case unless told otherwise: two ids must not become one.
ID = String(MAX_ID).with_variant(mysql.VARCHAR(MAX_ID, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
NAME = String(127).with_variant(mysql.VARCHAR(127, charset="ascii", collation="ascii_bin"), "mysql", "mariadb")
CONTENT = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")
REASON = String(1000)

message_stub = Table(
    "message_stub",
    metadata,
    Column("message_id", ID, primary_key=True),
    Column("consumer_group", NAME, primary_key=True),
    Column("topic", NAME, nullable=False),
    Column("tag", Text),
    Column("keys", Text),
    Column("properties", Text),  # JSON
    Column("hash_key", Text),
    Column("content", CONTENT, nullable=False),
    Column("count", Integer, nullable=False),  # sends that a broker acknowledged
    Column("status", SmallInteger, nullable=False),
    Column("broker_name", NAME),  # queue and offset of the last send
    Column("queue_id", Integer),
    Column("queue_offset", BigInteger),
    Column("resend_time", BigInteger),  # null: never, because it is settled or waits for a person
    Column("created", BigInteger, nullable=False),
    Column("settled", BigInteger),
    Column("lease_owner", ID),
    Column("lease_until", BigInteger),
    Column("attention", REASON),  # why a person must decide
    Column("notify_time", BigInteger),  # when to notify that person; null: done, or no need
    Column("notified", BigInteger),
    Column("last_error", REASON),
    Index("ix_message_stub_due", "status", "resend_time"),
    Index("ix_message_stub_age", "status", "created"),
    Index("ix_message_stub_notify", "notify_time"),
    mysql_charset="utf8mb4",
    mysql_engine="InnoDB",
)

message_log = Table(
    "message_log",
    metadata,
    Column("message_id", ID, primary_key=True),
    Column("consumer_group", NAME, primary_key=True),
    Column("broker_name", NAME, nullable=False),
    Column("queue_id", Integer, nullable=False),
    Column("queue_offset", BigInteger, nullable=False),
    Column("received", BigInteger, nullable=False),
    Index("ix_message_log_received", "received", "message_id"),
    mysql_charset="utf8mb4",
    mysql_engine="InnoDB",
)

message_decision = Table(
    "message_decision",
    metadata,
    Column(
        "id", BigInteger().with_variant(Integer(), "sqlite"), Identity(), primary_key=True
    ),  # SQLite counts only INTEGER keys up
    Column("message_id", ID, nullable=False),
    Column("consumer_group", NAME, nullable=False),
    Column("action", String(20), nullable=False),
    Column("who", String(200), nullable=False),
    Column("reason", REASON, nullable=False),
    Column("decided", BigInteger, nullable=False),
    Index("ix_message_decision_message", "message_id", "consumer_group"),
    mysql_charset="utf8mb4",
    mysql_engine="InnoDB",
)
