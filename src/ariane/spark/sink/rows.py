"""Rows of a DataFrame to messages: which columns there are, and a key for each row that is the same in every try."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from ariane.client.producer.outgoing import checked_properties
from ariane.errors import ConfigError, InvalidMessage
from ariane.message import DELAY, DELIVER_TIME, KEYS, TAGS, TIMER_DELIVER_MS, UNIQUE_KEY, is_valid_name
from ariane.protocol.properties import decode_properties

_COLUMNS: Final[dict[str, tuple[type[DataType], ...]]] = {
    "body": (BinaryType, StringType),
    "topic": (StringType,),
    "tags": (StringType,),
    "keys": (StringType,),
    "properties": (MapType, StringType),
    "delayLevel": (IntegerType, LongType),
    "deliverTime": (TimestampType, LongType),
    "hashKey": (StringType, IntegerType, LongType),
}


def check_columns(schema: StructType, *, topic: str | None, transactional: bool) -> None:
    """ConfigError names a column that is missing, unknown, of a wrong type, or cannot be in a transaction."""
    names = schema.fieldNames()
    if "body" not in names:
        raise ConfigError("column 'body' is required")
    if topic is None and "topic" not in names:
        raise ConfigError("a column 'topic' or option topic is required")
    for field in schema.fields:
        kinds = _COLUMNS.get(field.name)
        if kinds is None:
            raise ConfigError(f"column {field.name!r} is none of the sink's: {', '.join(_COLUMNS)}")
        if not isinstance(field.dataType, kinds):
            offered = " or ".join(kind.typeName() for kind in kinds)
            raise ConfigError(f"column {field.name!r} must be {offered}, not {field.dataType.simpleString()}")
        if transactional and field.name in ("delayLevel", "deliverTime"):
            raise ConfigError(f"column {field.name!r}: a delayed message cannot be part of a transaction")


@dataclass(slots=True)
class Row:
    """One message to send."""

    topic: str
    body: bytes
    encoded: bytes  # the property string
    hash_key: str | int | None
    unique_key: str
    is_delayed: bool


class RowKeys:
    """Unique keys: the same row of the same batch has the same key, whoever sends it, however often.

    They have the 32 hex digits that RocketMQ's tools expect of a message id.
    """

    def __init__(self, write: str, batch: str, partition: int) -> None:
        self._seed = f"{write}/{batch}/{partition}/".encode()
        self._count = 0

    def next(self) -> str:
        self._count += 1
        return blake2b(self._seed + str(self._count).encode(), digest_size=16).hexdigest().upper()


def rows_of(
    batch: pa.RecordBatch, keys: RowKeys, topic: str | None, more: Mapping[str, str] | None = None
) -> Iterator[Row]:
    """The messages of a record batch, in order; `more` properties go into each."""
    columns: dict[str, Sequence[Any]] = {name: _values(name, batch.column(name)) for name in batch.schema.names}
    nothing: Sequence[Any] = (None,) * batch.num_rows
    picked = [columns.get(name, nothing) for name in _COLUMNS]
    for values in zip(*picked, strict=True):
        yield _row(*values, more={UNIQUE_KEY: keys.next(), **(more or {})}, default_topic=topic)


def _values(name: str, column: pa.Array) -> Sequence[Any]:
    if name == "body":
        return column.cast(pa.binary()).to_pylist()
    if name == "deliverTime" and pa.types.is_timestamp(column.type):
        return [None if micros is None else micros // 1000 for micros in column.cast(pa.int64()).to_pylist()]
    return column.to_pylist()


def _row(
    body: bytes | None,
    topic: str | None,
    tags: str | None,
    keys: str | None,
    given: Any,
    delay: int | None,
    deliver: int | None,
    hash_key: str | int | None,
    *,
    more: dict[str, str],
    default_topic: str | None,
) -> Row:
    topic = topic or default_topic
    if body is None or topic is None:
        raise InvalidMessage(f"a row has no {'body' if body is None else 'topic'}: every message needs one")
    if not is_valid_name(topic):
        raise InvalidMessage(f"a row has topic {topic!r}, which is not a valid name")
    properties = decode_properties(given) if isinstance(given, str) else dict(given or ())
    properties |= more
    given_apart = (tags, keys, delay or None, deliver, deliver)
    for name, value in zip((TAGS, KEYS, DELAY, DELIVER_TIME, TIMER_DELIVER_MS), given_apart, strict=True):
        if value is not None:
            properties[name] = str(value)
    is_delayed = DELAY in properties or DELIVER_TIME in properties
    return Row(topic, body, checked_properties(properties).encode(), hash_key, more[UNIQUE_KEY], is_delayed)
