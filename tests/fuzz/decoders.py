"""The decoders, the recorded input that each is fed with, and what each may raise.

Where two decoders read the same bytes, they have to agree.
"""

import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from ariane.errors import ArianeError, ProtocolError, ResponseError
from ariane.filter import FilterSyntaxError, Sql92Filter, TagFilter
from ariane.protocol import bodies as b
from ariane.protocol.batch import BatchItem, check_batch, decode_batch, encode_batch
from ariane.protocol.bodies import Body
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import BINARY, JSON, Command, decode_header
from ariane.protocol.compression import decompress
from ariane.protocol.fast.decoder import HeaderDecoder, is_faithful
from ariane.protocol.fast.pulling import pulling_in
from ariane.protocol.fast.sending import sending_in
from ariane.protocol.fast.shape import Shape, shape_of
from ariane.protocol.frame import FrameDecoder
from ariane.protocol.ids import parse_offset_id
from ariane.protocol.properties import decode_properties, delay_level, encode_properties, find_property
from ariane.protocol.units import COMPRESSED, Unit, decode_unit, decode_units, encode_unit
from tests.protocol.tables import REQUEST_HEADERS
from tests.protocol.wire import Recorded, everything

SENDS = (RequestCode.SEND_MESSAGE, RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)


@dataclass
class Target:
    """One decoder."""

    seeds: list[bytes]
    run: Callable[[bytes, Random], None]
    """Decode; raise AssertionError when something is wrong with the result."""
    allowed: tuple[type[Exception], ...] = (ProtocolError,)
    mutated_inside: Callable[[bytes], bytes] | None = field(default=None)
    """Applied after the mutation, to mutate what is inside an envelope."""


def _recorded() -> list[Recorded]:
    return list(everything())


def _is_binary(frame: Recorded) -> bool:
    return frame.header["serializeTypeCurrentRPC"] == "ROCKETMQ"


# Frames and headers.


def _frames(data: bytes, random: Random) -> None:
    """In one piece and in small ones: the same commands, or the same error."""
    whole, pieces = FrameDecoder(1 << 20), FrameDecoder(1 << 20)
    whole.feed(data)
    expected = _taken(whole)
    at = 0
    found: list[tuple[object, ...]] = []
    failed: str | None = None
    while at < len(data) and failed is None:
        step = random.choice((1, 3, 8, 50, 1000, 1 << 14))
        pieces.feed(data[at : at + step])
        at += step
        more, failed = _taken(pieces)
        found += more
    assert found == expected[0]
    assert (failed is None) == (expected[1] is None)


def _taken(decoder: FrameDecoder) -> tuple[list[tuple[object, ...]], str | None]:
    found: list[tuple[object, ...]] = []
    try:
        found.extend((c.code, c.opaque, c.flag, c.fields, c.body) for c in decoder.commands())
    except ProtocolError as error:
        return found, str(error)
    return found, None


def _json_header(data: bytes, _: Random) -> None:
    _look_at(decode_header(JSON, data))


def _binary_header(data: bytes, _: Random) -> None:
    _look_at(decode_header(BINARY, data))


def _look_at(command: Command) -> None:
    """Read all that handlers, gates and logs read of a command."""
    assert all(isinstance(k, str) and isinstance(v, str) for k, v in command.fields.items())
    command.wire_fields()
    command.wire_size()
    repr(command)
    command.reply(1, remark=str(command.fields))
    kind = REQUEST_HEADERS.get(command.code)
    if kind is not None:
        with suppress(ResponseError):
            command.parsed(kind)


def _values(command: Command) -> object:
    try:
        if command.code == RequestCode.PULL_MESSAGE:
            asked: object = pulling_in(command).values()
        else:
            asked = sending_in(command).values()
    except ResponseError:
        asked = None
    except UnicodeEncodeError:
        asked = "a text that is not UTF-8"
    return asked, command.code, command.opaque, command.flag, command.remark, command.language, command.version


class _Fast:
    """A decoder that has seen the recorded sends and pulls, and the shapes of them, beside the general decoder."""

    def __init__(self, headers: list[bytes]) -> None:
        self._headers = headers
        self._shapes: list[Shape] = []
        for header in headers:
            shape = shape_of(header, decode_header(JSON, header))
            if shape is not None and is_faithful(shape, header) and len(self._shapes) < 8:
                self._shapes.append(shape)
        assert self._shapes
        self._decoder = HeaderDecoder()

    def run(self, data: bytes, random: Random) -> None:
        if random.random() < 0.01:
            self._decoder = HeaderDecoder()
            for header in random.sample(self._headers, 4):
                self._decoder.decode(JSON, header)
        general: object
        try:
            general = _values(decode_header(JSON, data))
        except ProtocolError:
            general = None
        for shape in self._shapes:
            command = shape.read(data)
            if command is not None:
                assert _values(command) == general
        try:
            fast: object = _values(self._decoder.decode(JSON, data))
        except ProtocolError:
            fast = None
        assert fast == general


# Bodies.


def _batch(data: bytes, _: Random) -> None:
    count = check_batch(data)
    items = decode_batch(data)
    assert len(items) == count
    assert len(encode_batch(items)) == len(data)


def _units(data: bytes, _: Random) -> None:
    for unit in decode_units(data):
        encode_unit(unit)
    decode_unit(data, check_crc=True)


def _body(kind: type[Body]) -> Callable[[bytes, Random], None]:
    def run(data: bytes, _: Random) -> None:
        kind.decode_request(data).encode()

    return run


def _registration(data: bytes, _: Random) -> None:
    b.RegisterBrokerBody.decompress(data, 1 << 20)


def _compressed(data: bytes, random: Random) -> None:
    decompress(data, COMPRESSED | random.choice((0, 0x100, 0x200, 0x300, 0x700)))


def _properties(data: bytes, _: Random) -> None:
    delay_level(data)
    find_property(data, b"KEYS")
    text = data.decode(errors="replace")
    decoded = decode_properties(text)
    assert decode_properties(encode_properties(decoded)) == decoded


def _sql92(data: bytes, random: Random) -> None:
    compiled = Sql92Filter(data.decode(errors="replace"))
    for _ in range(3):
        names = {
            f"a{n}": random.choice(("1", "x", "-3.5e7", "", "true", "9" * 400)) for n in range(random.randrange(4))
        }
        assert compiled.matches_message({"a": random.choice(("1", "b", "2.5")), **names}) in (True, False)


def _tags(data: bytes, _: Random) -> None:
    TagFilter.of_expression(data.decode(errors="replace")).matches_code(7)


def _ids(data: bytes, _: Random) -> None:
    parse_offset_id(data.decode(errors="replace"))


EXPRESSIONS = (
    "a = 1 AND b > 2.5", "a BETWEEN 1 AND 10 OR NOT (b IN ('x', 'y'))", "TAGS IS NOT NULL AND a <> 'it''s'",
    "a >= -7 AND (b < 3e5 OR c = TRUE)", "a IS NULL", "a NOT BETWEEN 2 AND 3", "a NOT IN ('b')", "a CONTAINS 'b'",
    "((((a = 1))))", "a = 'x' -- comment\nAND b = 1", "a /* c */ = 2",
)  # fmt: skip


def targets() -> dict[str, Target]:
    """All decoders by name."""
    frames = _recorded()
    json = [f.raw_header for f in frames if not _is_binary(f)]
    binary = [f.raw_header for f in frames if _is_binary(f)]
    fast = [
        f.raw_header
        for f in frames
        if not _is_binary(f) and f.kind == "request" and f.code in (*SENDS[1:], RequestCode.PULL_MESSAGE)
    ]
    batches = [f.body for f in frames if f.kind == "request" and f.code == RequestCode.SEND_BATCH_MESSAGE and f.body]
    batches.append(encode_batch([BatchItem(0, b"body", b"KEYS\x01k\x02"), BatchItem(7, b"", b"")]))
    unit = encode_unit(Unit(b"topic", b"body", b"TAGS\x01a\x02KEYS\x01k"))
    pulled = [f.body for f in frames if f.kind == "response" and len(f.body) > 91 and f.body[4:8] == unit[4:8]]
    properties = [f.fields.get("i", f.fields.get("properties", "")).encode() for f in frames if f.code in SENDS]

    def bodies(code: int, example: Body, kind: str = "request") -> list[bytes]:
        return [*(f.body for f in frames if f.code == code and f.kind == kind and f.body), example.encode()]

    queues = [b.QueueKey("topic", "broker", 1), b.QueueKey("topic", "broker", 2)]
    consumer = b.ConsumerData("g", subscription_data_set=[b.SubscriptionData.build("t", "a || b", 1, "TAG")])
    table = b.TopicConfigTable(b.DataVersion(1, 2), {"t": b.TopicConfig("t", 4, 4)})
    registration = b.RegisterBrokerBody(table, ["127.0.0.1:1"])
    group = b.SubscriptionGroupConfig("g")
    body_kinds: Iterable[tuple[str, type[Body], list[bytes]]] = (
        ("heartbeat", b.HeartbeatData, bodies(34, b.HeartbeatData("c", [b.ProducerData("p")], [consumer]))),
        ("registration", b.RegisterBrokerBody, bodies(103, registration)),
        ("topic-config", b.TopicConfigTable, bodies(21, table)),
        ("data-version", b.DataVersion, bodies(322, b.DataVersion(1, 2))),
        ("lock", b.LockBatchRequestBody, bodies(41, b.LockBatchRequestBody("g", "c", queues))),
        ("unlock", b.LockBatchRequestBody, bodies(42, b.LockBatchRequestBody("g", "c", queues))),
        ("group-config", b.SubscriptionGroupConfig, bodies(200, group)),
        ("offsets", b.ConsumerOffsetTable, bodies(43, b.ConsumerOffsetTable({"t@g": {0: 1}}))),
        ("reset", b.ResetOffsetBody, [b.ResetOffsetBody({q.queue(): 3 for q in queues}).encode()]),
    )
    inside = zlib.decompress(registration.compress())
    found = {
        "frame": Target([f.frame for f in frames] + [b"".join(f.frame for f in frames[:5])], _frames),
        "json-header": Target(json, _json_header),
        "binary-header": Target(binary, _binary_header),
        "fast-headers": Target(fast, _Fast(fast).run),
        "batch": Target(batches, _batch),
        "units": Target([*pulled, unit, unit + unit], _units),
        "properties": Target([p for p in properties if p] or [b"a\x01b"], _properties),
        "compressed-registration": Target([registration.compress()], _registration),
        "inflated-registration": Target([inside], _registration, mutated_inside=zlib.compress),
        "compressed-body": Target(
            [zlib.compress(b"some text " * 100), b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"], _compressed
        ),
        "sql92": Target([e.encode() for e in EXPRESSIONS], _sql92, (FilterSyntaxError,)),
        "tags": Target([b"a || b", b"*", b"a||b||\x00"], _tags, ()),
        "offset-id": Target([b"7F00000100002A9F0000000000000000", b"0" * 56], _ids),
    }
    for name, kind, seeds in body_kinds:
        found[name] = Target(seeds, _body(kind), (ArianeError,))
    return found
