"""Message units to Arrow record batches: each column of the schema is one function over all units of a batch."""

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ariane.errors import StoreError
from ariane.message import KEYS, TAGS, UNIQUE_KEY
from ariane.protocol.ids import host_text, offset_id
from ariane.spark.arrow.arrays import Ints, from_numpy, strings, to_numpy
from ariane.spark.arrow.bodies import open_bodies
from ariane.spark.arrow.property_columns import MAP_TYPE, PropertyTable, text
from ariane.spark.arrow.unit_table import UnitTable

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
    return text(batch.table.topics)


def _broker_name(batch: Batch) -> pa.Array:
    if batch.broker_name is None:
        return pa.nulls(len(batch.table), pa.string())
    return pa.repeat(strings([batch.broker_name])[0], len(batch.table))


def _host_bytes(host: bytes | int) -> bytes:
    return host if isinstance(host, bytes) else host.to_bytes(8, "big")


def _hosts(hosts: pa.Array) -> pa.Array:
    """Format each distinct host once: a batch often has only one."""
    if len(hosts) and pa.types.is_uint64(hosts.type):
        numbers = to_numpy(hosts)
        if (numbers == numbers[0]).all():
            return pa.repeat(_in_words(hosts[:1])[0], len(hosts))
    encoded = hosts.dictionary_encode()
    return _in_words(encoded.dictionary).take(encoded.indices)


def _in_words(hosts: pa.Array) -> pa.StringArray:
    return strings([host_text(_host_bytes(host)) for host in hosts.to_pylist()])


def _message_ids(batch: Batch) -> pa.Array:
    """The id its sender gave to the message; the broker's offset id where there is none, as Java's client shows it."""
    unique = text(batch.properties.column(UNIQUE_KEY))
    if not unique.null_count:
        return unique
    missing = UnitTable(batch.table.buffer, batch.table.starts[to_numpy(unique.is_null())])
    hosts = missing.store_hosts().to_pylist()
    places = missing.physical_offsets.tolist()
    ids = [offset_id(_host_bytes(host), place) for host, place in zip(hosts, places, strict=True)]
    return pc.replace_with_mask(unique, unique.is_null(), strings(ids))


def _timestamps(milliseconds: Ints) -> pa.Array:
    return from_numpy(milliseconds * 1000, TIMESTAMP)


Build = Callable[[Batch], pa.Array]

COLUMNS: Final[Mapping[str, Mapping[pa.DataType, Build]]] = {
    "topic": {pa.string(): _topic},
    "brokerName": {pa.string(): _broker_name},
    "queueId": {pa.int32(): lambda b: from_numpy(b.table.queue_ids)},
    "queueOffset": {pa.int64(): lambda b: from_numpy(b.table.queue_offsets)},
    "physicalOffset": {pa.int64(): lambda b: from_numpy(b.table.physical_offsets)},
    "msgId": {pa.string(): _message_ids},
    "keys": {pa.string(): lambda b: text(b.properties.column(KEYS))},
    "tags": {pa.string(): lambda b: text(b.properties.column(TAGS))},
    "body": {pa.binary(): lambda b: b.bodies, pa.string(): lambda b: text(b.bodies)},
    "properties": {pa.string(): lambda b: text(b.raw_properties), MAP_TYPE: lambda b: b.properties.maps()},
    "bornTimestamp": {
        TIMESTAMP: lambda b: _timestamps(b.table.born_times),
        pa.int64(): lambda b: from_numpy(b.table.born_times),
    },
    "storeTimestamp": {
        TIMESTAMP: lambda b: _timestamps(b.table.store_times),
        pa.int64(): lambda b: from_numpy(b.table.store_times),
    },
    "bornHost": {pa.string(): lambda b: _hosts(b.table.born_hosts())},
    "storeHost": {pa.string(): lambda b: _hosts(b.table.store_hosts())},
    "reconsumeTimes": {pa.int32(): lambda b: from_numpy(b.table.reconsume_times)},
    "sysFlag": {pa.int32(): lambda b: from_numpy(b.table.sys_flags)},
    "flag": {pa.int32(): lambda b: from_numpy(b.table.flags)},
    "storeSize": {pa.int32(): lambda b: from_numpy(b.table.sizes)},
    "preparedTransactionOffset": {pa.int64(): lambda b: from_numpy(b.table.prepared_offsets)},
}


def to_batch(batch: Batch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns of `schema`, each by its name and type."""
    return pa.RecordBatch.from_arrays([_build(batch, field) for field in schema], schema=schema)


def _build(batch: Batch, field: pa.Field) -> pa.Array:
    built = COLUMNS[field.name][type_key(field.type)](batch)
    if not field.nullable and built.null_count:  # Spark would read it without a null check
        raise StoreError(f"column {field.name!r} is declared NOT NULL, but a message has none")
    return built if built.type == field.type else built.cast(field.type)


def type_key(kind: pa.DataType) -> pa.DataType:
    """Under which type a column is looked up: maps differ only in the names and nullability inside them."""
    is_text_map = pa.types.is_map(kind) and kind.key_type == pa.string() and kind.item_type == pa.string()
    return MAP_TYPE if is_text_map else kind
