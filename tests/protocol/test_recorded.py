"""The recorded frames of Apache's peers decode, and encode again to the same meaning."""

from typing import Any

import pytest

from ariane.protocol import fastjson
from ariane.protocol.batch import decode_batch, encode_batch
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command, decode_header, encode_header
from ariane.protocol.frame import FrameDecoder, encode
from ariane.protocol.ids import host_text, offset_id, parse_offset_id
from ariane.protocol.properties import decode_properties, encode_properties, find_property
from ariane.protocol.units import decode_unit, decode_units, encode_unit
from tests.protocol.tables import REQUEST_BODIES, REQUEST_HEADERS, RESPONSE_BODIES, RESPONSE_HEADERS
from tests.protocol.wire import RECORDINGS, Recorded, everything, exchanges, recording

BINARY_BODIES = (RequestCode.PULL_MESSAGE, RequestCode.VIEW_MESSAGE_BY_ID, RequestCode.QUERY_MESSAGE)


def meaning(command: Command) -> tuple[Any, ...]:
    return (
        command.code,
        command.fields,
        command.body,
        command.opaque,
        command.flag,
        command.remark,
        command.serialization,
        command.language,
        command.version,
    )


def decoded(data: bytes) -> list[Command]:
    decoder = FrameDecoder()
    decoder.feed(data)
    return list(decoder.commands())


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_frame_decodes_to_what_was_recorded_and_encodes_to_the_same_meaning(name: str) -> None:
    for frame in recording(name):
        [command] = decoded(frame.frame)
        assert (command.code, command.opaque, command.flag) == (
            frame.code,
            frame.header["opaque"],
            frame.header["flag"],
        )
        assert (command.fields, command.body) == (frame.fields, frame.body)
        assert (command.remark, command.language, command.version) == (frame.header.get("remark"), "JAVA", 407)
        assert command.is_oneway == (frame.kind == "oneway")
        assert command.is_response == (frame.kind == "response")
        [again] = decoded(encode(command))
        assert meaning(again) == meaning(command)


def test_binary_headers_encode_to_the_same_bytes() -> None:
    for frame in recording("wire-rocketmq"):
        assert encode_header(decode_header(1, frame.raw_header)) == frame.raw_header


@pytest.mark.parametrize("name", RECORDINGS)
def test_every_frame_may_be_cut_at_every_byte_and_have_others_behind_it(name: str) -> None:
    behind = encode(Command(105, {"topic": "behind"}, opaque=77))
    for frame in recording(name):
        data = frame.frame
        expected = meaning(decoded(data)[0])
        for cut in range(1, len(data)):
            decoder = FrameDecoder()
            decoder.feed(data[:cut])
            assert decoder.take() == []
            decoder.feed(data[cut:] + behind[:5])
            [command] = decoder.take()
            assert meaning(command) == expected
            assert decoder.pending == 5
        decoder.feed(behind[5:])
        assert [c.opaque for c in decoder.commands()] == [77]


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1460, 65536])
def test_a_whole_recording_may_come_in_pieces_of_any_size(name: str, size: int) -> None:
    frames = recording(name)
    stream = b"".join(frame.frame for frame in frames)
    decoder = FrameDecoder()
    found: list[Command] = []
    for at in range(0, len(stream), size):
        decoder.feed(stream[at : at + size])
        found += decoder.commands()
    assert [(c.opaque, c.body) for c in found] == [(f.header["opaque"], f.body) for f in frames]


def test_every_request_header_has_a_type_that_gives_back_its_fields() -> None:
    extra = {"bname", "ReqT", "_UNIQUE_KEY_QUERY"}  # for proxies, ACL and query; no part of the headers
    for frame in everything():
        if frame.kind == "response" or not frame.fields.keys() - extra:
            continue
        header = REQUEST_HEADERS[frame.code].parse(frame.fields)
        written = header.fields()
        assert {k: v for k, v in frame.fields.items() if k not in extra}.items() <= written.items(), frame.code
        assert REQUEST_HEADERS[frame.code].parse(written) == header


def test_every_response_header_has_a_type_that_gives_back_its_fields() -> None:
    extra = {"MSG_REGION", "TRACE_ON"}
    for request, response in exchanges():
        if response.code == 1 or not response.fields.keys() - extra:
            continue
        header = RESPONSE_HEADERS[request.code].parse(response.fields)
        assert header.fields() == {k: v for k, v in response.fields.items() if k not in extra}


def agrees(ours: Any, theirs: Any, at: str = "") -> None:
    """What Apache wrote is in what we write; we may write more (defaults), and text derived from it is left out."""
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            if not (isinstance(key, str) and key.endswith("Str")):
                assert key in ours, f"{at}.{key}"
                agrees(ours[key], value, f"{at}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), at
        for n, (mine, their) in enumerate(zip(ours, theirs, strict=True)):
            agrees(mine, their, f"{at}[{n}]")
    else:
        assert ours == theirs, at


def json_bodies() -> list[tuple[type[Any], Recorded]]:
    requests = [(REQUEST_BODIES[f.code], f) for f in everything() if f.kind != "response" and f.code in REQUEST_BODIES]
    answers = [(RESPONSE_BODIES[q.code], r) for q, r in exchanges() if q.code in RESPONSE_BODIES and r.body]
    return requests + answers


def test_every_json_body_has_a_type_that_encodes_to_the_same_meaning() -> None:
    for kind, frame in json_bodies():
        body = kind.decode(frame.body)
        agrees(fastjson.loads(body.encode()), fastjson.loads(frame.body), kind.__name__)
        assert kind.decode(body.encode()) == body


def test_no_json_body_was_left_out() -> None:
    typed = REQUEST_BODIES.keys() | RESPONSE_BODIES.keys()
    for request, response in exchanges():
        for frame in (request, response):
            if frame.body[:1] == b"{":
                assert request.code in typed, request.code


def test_message_units_of_answers_encode_to_the_same_bytes() -> None:
    seen = 0
    for request, response in exchanges():
        if request.code not in BINARY_BODIES or response.code != 0:
            continue
        units = decode_units(response.body)
        assert b"".join(map(encode_unit, units)) == response.body
        for unit in units:
            assert decode_unit(encode_unit(unit), check_crc=True).body == unit.body
            text = unit.properties.decode()
            properties = decode_properties(text)
            assert decode_properties(encode_properties(properties)) == properties
            for name, value in properties.items():
                assert find_property(unit.properties, name.encode()) == value.encode()
            seen += 1
    assert seen > 20


def test_the_offset_id_of_an_answer_names_the_unit_that_is_found_under_it() -> None:
    sent = [(r.fields["msgId"]) for q, r in exchanges() if q.code == RequestCode.SEND_MESSAGE_V2 and r.code == 0]
    for text in sent:
        host, offset = parse_offset_id(text)
        assert host_text(host).startswith("127.0.0.1:")
        assert offset_id(host, offset) == text


def test_batches_encode_to_the_same_bytes() -> None:
    batches = [f for f in everything() if f.code == RequestCode.SEND_BATCH_MESSAGE and f.kind == "request"]
    assert batches
    for frame in batches:
        items = decode_batch(frame.body)
        assert encode_batch(items) == frame.body
        assert [item.body for item in items] == [b"batch %d" % n for n in range(len(items))]
