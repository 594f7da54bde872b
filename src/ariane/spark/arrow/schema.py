"""The columns that the sources offer, and how a user's `.schema(…)` chooses among them."""

from typing import Final

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from ariane.errors import ConfigError
from ariane.spark.arrow.columns import COLUMNS, type_key

_DEFAULT: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "brokerName": StringType(),
    "queueId": IntegerType(),
    "queueOffset": LongType(),
    "physicalOffset": LongType(),
    "msgId": StringType(),
    "keys": StringType(),
    "tags": StringType(),
    "body": BinaryType(),
    "properties": StringType(),
    "bornTimestamp": TimestampType(),
    "storeTimestamp": TimestampType(),
    "bornHost": StringType(),
    "storeHost": StringType(),
    "reconsumeTimes": IntegerType(),
    "sysFlag": IntegerType(),
    "flag": IntegerType(),
}

_MAY_MISS: Final = frozenset(("keys", "tags", "body"))  # a body that does not open, with failOnDataLoss=false


def default_schema(*, broker_known: bool) -> StructType:
    """All columns. Those that every message has are not nullable, which saves Spark a look at each value.

    A store folder does not tell of which broker it is.
    """
    may_miss = _MAY_MISS if broker_known else _MAY_MISS | {"brokerName"}
    return StructType([StructField(name, kind, name in may_miss) for name, kind in _DEFAULT.items()])


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow form of a user's schema, which must be made of columns that the sources have.

    ConfigError names a column that is unknown or of a type it cannot have.
    """
    wanted = to_arrow_schema(schema, timezone="UTC")
    for column in wanted:
        _check(column)
    return wanted


def _check(column: pa.Field) -> None:
    kinds = COLUMNS.get(column.name)
    if kinds is None:
        raise ConfigError(f"column {column.name!r}: there is none; the columns are {', '.join(COLUMNS)}")
    if type_key(column.type) not in kinds:
        offered = " or ".join(str(kind) for kind in kinds)
        raise ConfigError(f"column {column.name!r}: cannot be {column.type}; it is {offered}")
