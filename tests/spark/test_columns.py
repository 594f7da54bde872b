"""The vectorised decoder gives what the plain one gives, message by message."""

import subprocess
import sys
import zlib
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ariane.errors import ProtocolError, StoreError
from ariane.protocol.compression import LARGEST_BODY
from ariane.protocol.ids import host_text, offset_id, pack_host
from ariane.protocol.properties import decode_properties
from ariane.protocol.units import (
    COMPRESSED,
    COMPRESSION_LZ4,
    COMPRESSION_ZSTD,
    Unit,
    decode_unit,
    encode_unit,
)
from ariane.spark.arrow.bodies import decompress
from ariane.spark.arrow.columns import COLUMNS, TIMESTAMP, Batch, to_batch
from ariane.spark.arrow.property_columns import MAP_TYPE, PropertyTable
from ariane.spark.arrow.scan import End, find_sync, hop
from ariane.spark.arrow.schema import default_schema
from ariane.spark.arrow.unit_table import UnitTable

ALL = pa.schema([(name, next(iter(kinds))) for name, kinds in COLUMNS.items()]).set(9, pa.field("properties", MAP_TYPE))

HOST = pack_host("127.0.0.1", 10911)
hosts = st.sampled_from([HOST, pack_host("10.1.2.3", 5), pack_host("fd00::2", 10911)])
words = st.text(alphabet="abKEYSTAGUNIQ_\x01é", max_size=6)
pairs = st.lists(st.tuples(words | st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY"]), words), max_size=5)


def joined(properties: list[tuple[str, str]]) -> bytes:
    return "\x02".join(f"{name}\x01{value}" for name, value in properties).encode()


units = st.builds(
    Unit,
    st.sampled_from([b"orders", b"%RETRY%g", b"t" * 127]),
    st.binary(max_size=40),
    st.one_of(pairs.map(joined), st.binary(max_size=20).filter(lambda b: b"\x00" not in b)),
    queue_id=st.integers(0, 7),
    flag=st.integers(-(2**31), 2**31 - 1),
    queue_offset=st.integers(0, 2**62),
    sys_flag=st.sampled_from([0, 4, 8]),
    born_time=st.integers(0, 2**42),
    born_host=hosts,
    store_time=st.integers(0, 2**42),
    store_host=hosts,
    reconsume_times=st.integers(0, 16),
    prepared_offset=st.integers(0, 2**62),
)


def laid_out(messages: list[Unit], base: int = 0) -> bytes:
    log = b""
    for unit in messages:
        unit.physical_offset = base + len(log)
        log += encode_unit(unit)
    return log


def table_of(log: bytes) -> UnitTable:
    return UnitTable(memoryview(log), hop(memoryview(log), 0, len(log)).starts)


def plain(unit: Unit) -> dict[str, Any]:
    """One message by the plain decoder, in the words of the schema."""
    properties = decode_properties(unit.properties.decode(errors="replace"))
    return {
        "topic": unit.topic.decode(),
        "brokerName": "broker-a",
        "queueId": unit.queue_id,
        "queueOffset": unit.queue_offset,
        "physicalOffset": unit.physical_offset,
        "msgId": properties.get("UNIQ_KEY") or offset_id(unit.store_host, unit.physical_offset),
        "keys": properties.get("KEYS"),
        "tags": properties.get("TAGS"),
        "body": unit.body,
        "properties": properties,
        "bornTimestamp": unit.born_time,
        "storeTimestamp": unit.store_time,
        "bornHost": host_text(unit.born_host),
        "storeHost": host_text(unit.store_host),
        "reconsumeTimes": unit.reconsume_times,
        "sysFlag": unit.sys_flag,
        "flag": unit.flag,
        "storeSize": unit.size,
        "preparedTransactionOffset": unit.prepared_offset,
    }


def vectorised(log: bytes) -> list[dict[str, Any]]:
    rows = to_batch(Batch(table_of(log), "broker-a"), ALL).to_pylist()
    for row in rows:
        row["properties"] = dict(row["properties"])
        for name in ("bornTimestamp", "storeTimestamp"):
            row[name] = pa.scalar(row[name], TIMESTAMP).value // 1000
    return rows


@given(st.lists(units, min_size=1, max_size=12))
@settings(max_examples=150, deadline=None)
def test_every_column_equals_the_plain_decoders(messages: list[Unit]) -> None:
    log = laid_out(messages)
    decoded = [decode_unit(log, unit.physical_offset) for unit in messages]
    assert vectorised(log) == [plain(unit) for unit in decoded]


names = st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "KEY", "xKEYS", "TAGs"])
values = st.text(alphabet="abKEYS\x01", max_size=6)


@given(st.data(), st.integers(0, 4), st.sampled_from(["", "\x02", "\x02rest"]))
@settings(max_examples=300, deadline=None)
def test_strings_with_as_many_pairs_give_what_the_plain_decoder_gives(
    data: st.DataObject, count: int, tail: str
) -> None:
    pair = st.tuples(names, values if data.draw(st.booleans()) else st.text(alphabet="abKEYS", max_size=6))
    rows = data.draw(st.lists(st.lists(pair, min_size=count, max_size=count), min_size=1, max_size=8))
    texts = [joined(row).decode() + tail for row in rows]
    table = PropertyTable(pa.array([text.encode() for text in texts], type=pa.binary()))
    for name in ("KEYS", "TAGS", "UNIQ_KEY"):
        wanted = [decode_properties(text).get(name) or None for text in texts]
        assert [value and value.decode() for value in table.column(name).to_pylist()] == wanted


def test_columns_are_made_without_pandas() -> None:
    unit = laid_out([Unit(b"orders", b"x", b"KEYS\x01k", born_host=HOST, store_host=HOST)])
    code = (
        "import sys; from ariane.spark.arrow.columns import *; from ariane.spark.arrow.scan import hop; "
        "from ariane.spark.arrow.schema import *; "
        f"view = memoryview({unit!r}); table = UnitTable(view, hop(view, 0, len(view)).starts); "
        "rows = to_batch(Batch(table, 'broker-a'), arrow_schema(default_schema(broker_known=True))); "
        "print(len(rows), 'pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]


def test_a_name_that_crosses_two_strings_is_no_name() -> None:
    table = PropertyTable(pa.array([b"a\x01b\x02KE", b"YS\x01v\x02", b"", b"KEYS\x01w"], type=pa.binary()))
    assert table.column("KEYS").to_pylist() == [None, None, None, b"w"]


def test_the_last_of_two_equal_names_wins() -> None:
    table = PropertyTable(pa.array([b"K\x01a\x02K\x01b\x02K\x01\x02", b"K\x01c"], type=pa.binary()))
    assert table.column("K").to_pylist() == [b"b", b"c"]
    assert table.maps().to_pylist() == [[("K", "b")], [("K", "c")]]


def compressed(codec: str, body: bytes = b"body" * 100) -> bytes:
    if codec == "zlib":
        return zlib.compress(body)
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, codec) as stream:
        stream.write(body)
    return sink.getvalue().to_pybytes()


@pytest.mark.parametrize(
    ("codec", "bits"), [("zlib", 0), ("zlib", 0x300), ("lz4", COMPRESSION_LZ4), ("zstd", COMPRESSION_ZSTD)]
)
def test_compressed_bodies_are_opened_among_plain_ones(codec: str, bits: int) -> None:
    messages = [Unit(b"t", b"plain"), Unit(b"t", compressed(codec), sys_flag=COMPRESSED | bits), Unit(b"t", b"")]
    bodies = to_batch(Batch(table_of(laid_out(messages))), pa.schema([("body", pa.binary())]))
    assert bodies.column(0).to_pylist() == [b"plain", b"body" * 100, b""]


@pytest.mark.parametrize(("codec", "bits"), [("zlib", 0), ("lz4", COMPRESSION_LZ4), ("zstd", COMPRESSION_ZSTD)])
def test_a_body_that_grows_beyond_the_limit_of_all_codecs_is_refused(codec: str, bits: int) -> None:
    with pytest.raises(ProtocolError, match=f"over {LARGEST_BODY} bytes"):
        decompress(compressed(codec, bytes(LARGEST_BODY + 1)), COMPRESSED | bits)


def test_a_body_that_does_not_open_is_an_error_or_null() -> None:
    log = laid_out([Unit(b"t", b"no zlib", sys_flag=COMPRESSED, queue_id=3, queue_offset=17)])
    schema = pa.schema([("body", pa.binary())])
    with pytest.raises(ProtocolError, match="queue 3, offset 17"):
        to_batch(Batch(table_of(log)), schema)
    assert to_batch(Batch(table_of(log), fail=False), schema).column(0).to_pylist() == [None]


@given(st.lists(units, min_size=1, max_size=6), st.data())
@settings(max_examples=100, deadline=None)
def test_a_log_torn_anywhere_gives_the_whole_units_before(messages: list[Unit], data: st.DataObject) -> None:
    log = laid_out(messages)
    cut = data.draw(st.integers(0, len(log)))
    found = hop(memoryview(log[:cut]), 0, cut)
    sizes = [decode_unit(log, unit.physical_offset).size for unit in messages]
    whole = [at for at, size in zip([u.physical_offset for u in messages], sizes, strict=True) if at + size <= cut]
    assert found.starts.tolist() == whole
    assert found.why is (End.ENOUGH if cut in (0, *np.cumsum(sizes).tolist()) else End.TORN)


@given(st.lists(units, min_size=1, max_size=4), st.data())
@settings(max_examples=200, deadline=None)
def test_flipped_bytes_never_crash_the_check(messages: list[Unit], data: st.DataObject) -> None:
    log = bytearray(laid_out(messages))
    for _ in range(data.draw(st.integers(1, 4))):
        log[data.draw(st.integers(0, len(log) - 1))] = data.draw(st.integers(0, 255))
    table = table_of(bytes(log))
    good = table.well_formed()
    to_batch(Batch(UnitTable(table.buffer, table.starts[:good]), fail=False), ALL)


def test_the_sync_marker_is_found_from_anywhere_and_not_in_a_body() -> None:
    inner = laid_out([Unit(b"t", b"inner")])
    messages = [Unit(b"t", inner), Unit(b"t", inner * 2), Unit(b"t", b"")]
    log = laid_out(messages, base=1 << 20)
    places = [unit.physical_offset - (1 << 20) for unit in messages]
    for at in range(len(log)):
        later = [place for place in places if place >= at]
        assert find_sync(memoryview(log), 1 << 20, at, len(log)) == (later[0] if later else -1)


def test_long_runs_of_equal_units_are_found_by_stride_and_end_where_they_end() -> None:
    messages = [Unit(b"t", b"12345") for _ in range(5000)] + [Unit(b"t", b"123")] + [Unit(b"t", b"12345")] * 3
    log = laid_out(messages[:5001])
    found = hop(memoryview(log), 0, len(log))
    assert found.starts.tolist() == [unit.physical_offset for unit in messages[:5001]]
    assert len(hop(memoryview(log), 0, 100 * 97).starts) == 100


def test_a_column_declared_not_null_that_a_message_lacks_is_an_error() -> None:
    table = table_of(laid_out([Unit(b"orders", b"x", b"TAGS\x01t", born_host=HOST, store_host=HOST)]))
    schema = pa.schema([pa.field(name, pa.string(), nullable=False) for name in ("tags", "keys")])
    assert to_batch(Batch(table), schema.remove(1)).to_pylist() == [{"tags": "t"}]
    with pytest.raises(StoreError, match="'keys' is declared NOT NULL"):
        to_batch(Batch(table), schema)


def test_only_what_a_message_may_lack_is_nullable_by_default() -> None:
    assert {field.name for field in default_schema(broker_known=True) if field.nullable} == {"keys", "tags", "body"}
    of_a_store = {field.name for field in default_schema(broker_known=False) if field.nullable}
    assert of_a_store == {"keys", "tags", "body", "brokerName"}
