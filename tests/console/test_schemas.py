"""Bodies in Avro and Protobuf: read as their own libraries write them, and hostile ones refused."""

import io
import json
from pathlib import Path
from typing import Any

import fastavro
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from ariane.console.avro import AvroError, AvroReader
from ariane.console.config_file import ConfigFile, SchemaOptions
from ariane.console.schemas import Schemas
from ariane.errors import ConfigError

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "customer", "type": ["null", "string"]},
        {"name": "price", "type": "double"},
        {"name": "paid", "type": "boolean"},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "SENT"]}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "mark", "type": {"type": "fixed", "name": "Mark", "size": 2}},
        {"name": "next", "type": ["null", "shop.Order"]},
    ],
}
VALUE: dict[str, Any] = {
    "id": -(2**62), "customer": "Ännchen", "price": 1.5, "paid": True, "state": "SENT", "tags": ["a", "b"],
    "counts": {"x": 1, "y": -1}, "mark": b"\x01\xff", "next": None,
}  # fmt: skip


def encoded(value: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(ORDER), value)
    return out.getvalue()


def test_avro_is_read_as_its_library_writes_it() -> None:
    value = VALUE | {"next": VALUE}
    want = VALUE | {"mark": "01ff", "next": VALUE | {"mark": "01ff"}}
    assert AvroReader(ORDER).read(encoded(value)) == want


def test_every_piece_of_an_avro_body_is_refused() -> None:
    body, reader = encoded(VALUE), AvroReader(ORDER)
    for end in range(len(body)):
        with pytest.raises(AvroError):
            reader.read(body[:end])
    with pytest.raises(AvroError, match="left over"):
        reader.read(body + b"\0")


@pytest.mark.parametrize(
    ("schema", "body"),
    [
        ({"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}, b"\x02" * 65_000),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01\x00"),
        ({"type": "array", "items": {"type": "record", "name": "E", "fields": []}}, b"\xfe\xff\xff\xff\x0f\x00"),
        ("string", b"\xfe\xff\xff\xff\x0f"),
        ("string", b"\x01"),
        ("long", b"\xff" * 11),
        (["null", "int"], b"\x08"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x05"),
        ("unknown", b""),
        ({"type": "record", "name": "R", "fields": [{}]}, b""),
    ],
)  # fmt: skip
def test_a_hostile_avro_body_is_refused(schema: Any, body: bytes) -> None:
    with pytest.raises((AvroError, AttributeError)):
        AvroReader(schema).read(body)


def protobuf_file(path: Path) -> Any:
    """Write the descriptors of `shop.Payment`, and return its class."""
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    message = file.message_type.add(name="Payment")
    message.field.add(name="order_id", number=1, type=3, label=1)
    message.field.add(name="note", number=2, type=9, label=1)
    path.write_bytes(descriptor_pb2.FileDescriptorSet(file=[file]).SerializeToString())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("shop.Payment"))


def test_topics_are_decoded_by_their_schema(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text(json.dumps(ORDER))
    payment = protobuf_file(tmp_path / "shop.desc")
    schemas = Schemas(
        ConfigFile(
            schemas={
                "orders": SchemaOptions(avro="order.avsc", skip=5),
                "payments": SchemaOptions(protobuf="shop.desc", message="shop.Payment"),
            },
            folder=tmp_path,
        )
    )
    found = schemas.decode("orders", b"\0\0\0\0\x07" + encoded(VALUE))
    assert found is not None
    assert (found[0], json.loads(found[1])["customer"]) == ("avro", "Ännchen")
    found = schemas.decode("payments", payment(order_id=7, note="hi").SerializeToString())
    assert found is not None
    assert (found[0], json.loads(found[1])) == ("protobuf", {"order_id": "7", "note": "hi"})
    for topic in ("orders", "payments"):
        broken = schemas.decode(topic, b"\xff" * 40)
        assert broken is not None
        assert "does not fit the schema" in broken[1]
    assert schemas.decode("others", b"x") is None


def test_a_schema_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "bad.avsc").write_text("{")
    (tmp_path / "bad.desc").write_bytes(b"\xff\xff")
    for options in (
        SchemaOptions(avro="bad.avsc"),
        SchemaOptions(avro="none.avsc"),
        SchemaOptions(protobuf="bad.desc", message="a.B"),
    ):
        with pytest.raises(ConfigError, match=r"schemas\.orders"):
            Schemas(ConfigFile(schemas={"orders": options}, folder=tmp_path))
