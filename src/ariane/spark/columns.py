"""Message units to Arrow record batches: each column of the schema is one function over all units of a batch."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ariane.message import KEYS, TAGS, UNIQUE_KEY
from ariane.protocol.ids import host_text, offset_id
from ariane.spark.bodies import open_bodies
from ariane.spark.property_columns import MAP_TYPE, PropertyTable, text
from ariane.spark.unit_table import Ints, UnitTable

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


class Batch:
    """Units of one batch and what several columns share: the broker they came from, and the split properties."""

    def __init__(self, table: UnitTable, broker_name: str | None = None, *, fail: bool = True) -> None:
        self.table = table
        self.broker_name = broker_name
        self.fail = fail

    @cached_property
    def properties(self) -> PropertyTable:
        return PropertyTable(self.raw_properties)

    @cached_property
    def raw_properties(self) -> pa.BinaryArray:
        return self.table.properties()

    @cached_property
    def bodies(self) -> pa.BinaryArray:
        return open_bodies(self.table, fail=self.fail)


def _topic(batch: Batch) -> pa.Array:
    return text(batch.table.topics())


def _broker_name(batch: Batch) -> pa.Array:
    return pa.repeat(pa.scalar(batch.broker_name, type=pa.string()), len(batch.table))


def _hosts(hosts: pa.BinaryArray) -> pa.Array:
    """A store sees few hosts: each is put into words once."""
    encoded = hosts.dictionary_encode()
    words = pa.array([host_text(host) for host in encoded.dictionary.to_pylist()], type=pa.string())
    return words.take(encoded.indices)


def _message_ids(batch: Batch) -> pa.Array:
    """The id its sender gave to the message; the broker's offset id where there is none, as Java's client shows it."""
    unique = text(batch.properties.column(UNIQUE_KEY))
    if not unique.null_count:
        return unique
    missing = UnitTable(batch.table.buffer, batch.table.starts[np.asarray(unique.is_null())])
    hosts = missing.store_hosts().to_pylist()
    ids = [offset_id(host, place) for host, place in zip(hosts, missing.physical_offsets.tolist(), strict=True)]
    return pc.replace_with_mask(unique, unique.is_null(), pa.array(ids, type=pa.string()))


def _timestamps(milliseconds: Ints) -> pa.Array:
    return pa.array(milliseconds * 1000).cast(TIMESTAMP)


Build = Callable[[Batch], pa.Array]

COLUMNS: Final[Mapping[str, Mapping[pa.DataType, Build]]] = {
    "topic": {pa.string(): _topic},
    "brokerName": {pa.string(): _broker_name},
    "queueId": {pa.int32(): lambda b: pa.array(b.table.queue_ids)},
    "queueOffset": {pa.int64(): lambda b: pa.array(b.table.queue_offsets)},
    "physicalOffset": {pa.int64(): lambda b: pa.array(b.table.physical_offsets)},
    "msgId": {pa.string(): _message_ids},
    "keys": {pa.string(): lambda b: text(b.properties.column(KEYS))},
    "tags": {pa.string(): lambda b: text(b.properties.column(TAGS))},
    "body": {pa.binary(): lambda b: b.bodies, pa.string(): lambda b: text(b.bodies)},
    "properties": {pa.string(): lambda b: text(b.raw_properties), MAP_TYPE: lambda b: b.properties.maps()},
    "bornTimestamp": {
        TIMESTAMP: lambda b: _timestamps(b.table.born_times),
        pa.int64(): lambda b: pa.array(b.table.born_times),
    },
    "storeTimestamp": {
        TIMESTAMP: lambda b: _timestamps(b.table.store_times),
        pa.int64(): lambda b: pa.array(b.table.store_times),
    },
    "bornHost": {pa.string(): lambda b: _hosts(b.table.born_hosts())},
    "storeHost": {pa.string(): lambda b: _hosts(b.table.store_hosts())},
    "reconsumeTimes": {pa.int32(): lambda b: pa.array(b.table.reconsume_times)},
    "sysFlag": {pa.int32(): lambda b: pa.array(b.table.sys_flags)},
    "flag": {pa.int32(): lambda b: pa.array(b.table.flags)},
    "storeSize": {pa.int32(): lambda b: pa.array(b.table.sizes)},
    "preparedTransactionOffset": {pa.int64(): lambda b: pa.array(b.table.prepared_offsets)},
}


def to_batch(batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, each by its name and type."""
    return pa.RecordBatch.from_arrays([_build(batch, field) for field in schema], schema=schema)


def _build(batch: Batch, field: pa.Field) -> pa.Array:
    built = COLUMNS[field.name][type_key(field.type)](batch)
    return built if built.type == field.type else built.cast(field.type)


def type_key(kind: pa.DataType) -> pa.DataType:
    """Under which type a column is looked up: maps differ only in the names and nullability inside them."""
    is_text_map = pa.types.is_map(kind) and kind.key_type == pa.string() and kind.item_type == pa.string()
    return MAP_TYPE if is_text_map else kind
