"""What is written is read back, for anything that may be written."""

import doctest
import importlib
import pkgutil
import string
import zlib
from ipaddress import ip_address
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ariane.protocol
from ariane.errors import ProtocolError
from ariane.protocol import fastjson
from ariane.protocol.batch import BatchItem, decode_batch, encode_batch
from ariane.protocol.bodies import DataVersion, RegisterBrokerBody, TopicConfig, TopicConfigTable
from ariane.protocol.codes import Language, RequestCode, ResponseCode, code_name
from ariane.protocol.command import BINARY, JSON, Command, decode_header, encode_header
from ariane.protocol.frame import FrameDecoder, encode, encode_head
from ariane.protocol.ids import host_text, offset_id, pack_host, parse_offset_id, unique_id, unpack_host
from ariane.protocol.java import bytes_hash, signed32, string_hash
from ariane.protocol.properties import decode_properties, encode_properties, find_property
from ariane.protocol.units import Unit, body_crc, decode_unit, decode_units, encode_unit, host_flags, unit_size

int32 = st.integers(-(1 << 31), (1 << 31) - 1)
int64 = st.integers(-(1 << 63), (1 << 63) - 1)
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
hosts = st.builds(pack_host, st.ip_addresses().map(str), st.integers(0, 65535))

commands = st.builds(
    Command,
    st.integers(-(1 << 15), (1 << 15) - 1),
    st.dictionaries(texts, texts, max_size=6),
    st.binary(max_size=300),
    opaque=int32,
    flag=st.integers(0, 3),
    remark=st.none() | texts.filter(bool),
    serialization=st.sampled_from([JSON, BINARY]),
    language=st.sampled_from([language.name for language in Language]),
    version=st.integers(0, (1 << 15) - 1),
)


@pytest.mark.parametrize(
    "module", [name for _, name, _ in pkgutil.walk_packages(ariane.protocol.__path__, "ariane.protocol.")]
)
def test_examples_in_the_documentation_hold(module: str) -> None:
    assert doctest.testmod(importlib.import_module(module)).failed == 0


def same(one: Any, other: Any) -> bool:
    names = [name for name in dir(one) if not name.startswith("_") and not callable(getattr(one, name))]
    return all(getattr(one, name) == getattr(other, name) for name in names)


@given(commands)
def test_commands(command: Command) -> None:
    assert same(decode_header(command.serialization, encode_header(command)), _without_body(command))


def _without_body(command: Command) -> Command:
    return Command(
        command.code,
        command.fields,
        opaque=command.opaque,
        flag=command.flag,
        remark=command.remark,
        serialization=command.serialization,
        language=command.language,
        version=command.version,
    )


@given(st.lists(commands, max_size=8), st.data())
def test_frames_in_pieces_of_any_size(sent: list[Command], data: st.DataObject) -> None:
    stream = b"".join(map(encode, sent))
    decoder = FrameDecoder()
    found: list[Command] = []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        decoder.feed(stream[:size])
        found += decoder.commands()
        stream = stream[size:]
    assert len(found) == len(sent)
    assert all(same(one, other) for one, other in zip(found, sent, strict=True))
    assert decoder.pending == 0


@given(commands)
def test_a_head_and_a_body_make_a_frame(command: Command) -> None:
    assert encode_head(command, len(command.body)) + command.body == encode(command)


@given(st.sampled_from([JSON, BINARY]), st.binary(max_size=200))
def test_a_header_is_read_or_refused(serialization: int, data: bytes) -> None:
    try:
        command = decode_header(serialization, data)
    except ProtocolError:
        return
    assert isinstance(command.fields, dict)


@given(commands, st.data())
def test_a_binary_header_cut_anywhere_is_refused(command: Command, data: st.DataObject) -> None:
    command.serialization = BINARY
    header = encode_header(command)
    cut = data.draw(st.integers(0, len(header) - 1))
    with pytest.raises(ProtocolError):
        decode_header(BINARY, header[:cut])


@pytest.mark.parametrize(
    "header",
    [
        b'{"code":10,"extFields":{"a":1,"b":null,"c":true,"d":1.5}}',
        b'{"code":10,"language":3,"extFields":{"a":"1"}}',
    ],
)
def test_json_headers_of_loose_clients_are_read(header: bytes) -> None:
    command = decode_header(JSON, header)
    assert (command.code, command.fields["a"]) == (10, "1")
    assert "b" not in command.fields


DEEP = b'{"code":1,"x":' + b"[" * 100_000


@pytest.mark.parametrize(
    "header", [b"", b"null", b"[]", b"1", b'"x"', b"{}", b'{"code":"x"}', b'{"code":1', b"\xff", DEEP]
)
def test_what_is_no_json_header_is_refused(header: bytes) -> None:
    with pytest.raises(ProtocolError):
        decode_header(JSON, header)


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 3, (16 << 20) + 1, (1 << 31) - 1])
def test_a_frame_of_impossible_length_is_refused_at_once(length: int) -> None:
    decoder = FrameDecoder()
    decoder.feed(length.to_bytes(4, signed=True) + b"\0\0\0\0")
    with pytest.raises(ProtocolError, match="bad frame"):
        decoder.take()
    with pytest.raises(ProtocolError):  # and for good
        decoder.take()


# Message units.

units = st.builds(
    Unit,
    st.binary(max_size=127),
    st.binary(max_size=300),
    st.binary(max_size=300),
    queue_id=int32,
    flag=int32,
    queue_offset=int64,
    physical_offset=int64,
    sys_flag=st.integers(0, 0x7FF),
    born_time=int64,
    born_host=hosts,
    store_time=int64,
    store_host=hosts,
    reconsume_times=int32,
    prepared_offset=int64,
)


@given(st.lists(units, max_size=5))
def test_units_with_hosts_of_either_family(many: list[Unit]) -> None:
    data = b"".join(map(encode_unit, many))
    found = decode_units(data)
    assert len(found) == len(many)
    for unit, again in zip(many, found, strict=True):
        unit.sys_flag = host_flags(unit.sys_flag, unit.born_host, unit.store_host)
        unit.size = unit_size(unit)
        assert same(again, unit)


@given(units)
def test_a_unit_cut_anywhere_is_refused(unit: Unit) -> None:
    data = encode_unit(unit)
    for cut in range(len(data)):
        with pytest.raises(ProtocolError):
            decode_unit(data[:cut])


@given(units, st.data())
def test_a_changed_body_is_noticed_by_its_checksum(unit: Unit, data: st.DataObject) -> None:
    unit.body = unit.body + b"x"
    unit.body_crc = body_crc(unit.body)
    encoded = bytearray(encode_unit(unit))
    at = len(encoded) - len(unit.properties) - 2 - len(unit.topic) - 1 - data.draw(st.integers(1, len(unit.body)))
    encoded[at] ^= 1 << data.draw(st.integers(0, 7))
    with pytest.raises(ProtocolError, match="checksum"):
        decode_unit(bytes(encoded), check_crc=True)


@given(st.binary(max_size=400))
def test_any_bytes_are_units_or_refused(data: bytes) -> None:
    try:
        assert sum(unit.size for unit in decode_units(data)) == len(data)
    except ProtocolError as error:
        text = str(error)
    else:
        text = "units"
    assert text


# Batches, properties, ids.


@given(st.lists(st.builds(BatchItem, int32, st.binary(max_size=200), st.binary(max_size=200)), max_size=6))
def test_batches(items: list[BatchItem]) -> None:
    data = encode_batch(items)
    assert decode_batch(data) == items
    for cut in range(1, len(data)):
        try:
            assert len(decode_batch(data[:cut])) < len(items)  # whole messages only
        except ProtocolError:
            continue


plain = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=30)


@given(st.dictionaries(plain, plain, max_size=8))
def test_properties(properties: dict[str, str]) -> None:
    text = encode_properties(properties)
    assert decode_properties(text) == properties
    for name, value in properties.items():
        assert find_property(text.encode(), name.encode()) == value.encode()
        assert find_property(f"{text}\x02".encode(), name.encode()) == value.encode()  # some clients end with a mark
    assert find_property(text.encode(), b"\x03not there") is None


@given(hosts, int64)
def test_offset_ids(host: bytes, offset: int) -> None:
    text = offset_id(host, offset)
    assert parse_offset_id(text) == (host, offset)
    assert len(text) == (32 if len(host) == 8 else 56)
    address, port = unpack_host(host)
    assert (ip_address(address).packed, host_text(host)) == (host[:-4], f"{address}:{port}")


@given(st.text(string.hexdigits + "xyz ", max_size=60).filter(lambda t: len(t) not in (32, 56)))
def test_what_is_no_offset_id_is_refused(text: str) -> None:
    with pytest.raises(ProtocolError):
        parse_offset_id(text)


@given(st.ip_addresses(), st.integers(0, 1 << 20), int32, st.integers(0, 1 << 33), st.integers(0, 1 << 17))
def test_unique_ids_are_hex_of_one_length_per_family(address: Any, pid: int, loader: int, ms: int, count: int) -> None:
    text = unique_id(address.packed, pid, loader, ms, count)
    assert len(text) == (32 if address.version == 4 else 56)
    assert text == text.upper()
    assert bytes.fromhex(text).startswith(address.packed)


def java_hash(text: str) -> int:
    """`String.hashCode` as its definition says."""
    value = 0
    units = text.encode("utf-16-be", "surrogatepass")
    for i in range(0, len(units), 2):
        value = value * 31 + int.from_bytes(units[i : i + 2])
    return signed32(value)


@settings(deadline=None)
@given(st.text(max_size=50) | st.text(string.printable, max_size=2000))
def test_string_hashes_are_javas(text: str) -> None:
    assert string_hash(text) == java_hash(text)
    if text.isascii():
        assert bytes_hash(text.encode()) == java_hash(text)


# Bodies.

names = st.text(string.ascii_letters + string.digits + "%|_-.", min_size=1, max_size=40)
configs = st.builds(
    TopicConfig,
    names,
    st.integers(0, 1000),
    st.integers(0, 1000),
    st.integers(0, 7),
    st.sampled_from(["SINGLE_TAG", "MULTI_TAG"]),
)


@given(st.lists(configs, max_size=8), st.lists(names, max_size=3), int64, int64)
def test_registrations_in_both_forms(topics: list[TopicConfig], filters: list[str], when: int, count: int) -> None:
    table = TopicConfigTable(DataVersion(when, count), {config.topic_name: config for config in topics})
    body = RegisterBrokerBody(table, filters)
    assert RegisterBrokerBody.decode(body.encode()) == body
    assert RegisterBrokerBody.decompress(body.compress()) == body


def sized(data: bytes) -> bytes:
    return len(data).to_bytes(4) + data


@given(st.binary(max_size=100), st.binary(max_size=40), st.binary(max_size=40).filter(bool))
def test_a_damaged_compressed_registration_is_refused(noise: bytes, topic: bytes, filters: bytes) -> None:
    torn = sized(b"{}") + (1).to_bytes(4) + sized(topic + b" x") + sized(filters)
    for body in (noise, zlib.compress(noise), zlib.compress(torn)):
        with pytest.raises(ProtocolError):
            RegisterBrokerBody.decompress(body)


json_values = st.recursive(
    st.none() | st.booleans() | int64 | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=12,
)


@given(json_values)
def test_json_is_read_as_it_was_written(value: Any) -> None:
    assert fastjson.loads(fastjson.dumps(value)) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b'{0:"a",1:"b"}', {"0": "a", "1": "b"}),
        (b"{name:'it''s'}", None),
        (b"{name:'x',\"n\":-1.5e3,list:[1,,2,]}", {"name": "x", "n": -1500.0, "list": [1, 2]}),
        (b'{{"a":1}:{{"b":2}:3}}', {(("a", 1),): {(("b", 2),): 3}}),
        (b'{"t":"\\u00e4\\n"}', {"t": "ä\n"}),
        (b"{", None),
        (b'{"a"}', None),
        (b"[" * 100_000, None),
        (b"\xff", None),
        (b"", None),
        (b'{"a":1} x', None),
    ],
)
def test_the_dialect_of_fastjson(text: bytes, value: Any) -> None:
    if value is None:
        with pytest.raises(ProtocolError):
            fastjson.loads(text)
    else:
        assert fastjson.loads(text) == value


@given(st.binary(max_size=80) | st.text("{}[]:,\"'\\a1 -.", max_size=60).map(str.encode))
def test_any_text_is_json_or_refused(data: bytes) -> None:
    try:
        fastjson.dumps(fastjson.loads(data))
    except ProtocolError as error:
        assert_named(error)


def assert_named(error: ProtocolError) -> None:
    assert str(error)


def test_codes_have_the_names_of_rocketmq() -> None:
    assert (RequestCode.SEND_MESSAGE_V2, RequestCode.GET_ROUTEINFO_BY_TOPIC) == (310, 105)
    assert (code_name(ResponseCode.TOPIC_NOT_EXIST), code_name(4711)) == ("TOPIC_NOT_EXIST", "4711")
