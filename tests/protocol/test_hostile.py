"""Input that is made to cost much: nesting, halves of characters, bodies for the slow parser."""

import contextlib

import pytest

from ariane.errors import ProtocolError
from ariane.protocol import fastjson
from ariane.protocol.bodies import HeartbeatData, RegisterBrokerBody, ResetOffsetBody, TopicConfigTable
from ariane.protocol.bodies.body import LOOSE_REQUEST
from ariane.protocol.command import BINARY, JSON, RESPONSE, Command, decode_header, encode_header
from ariane.protocol.fast.decoder import decode_hot


@pytest.mark.parametrize("depth", [70, 300, 900, 5000, 200_000])
@pytest.mark.parametrize(("start", "end"), [(b'{"a":', b"}"), (b"[", b"]"), (b"{1:", b"}"), (b"{{", b"}}")])
def test_nesting_is_a_protocol_error_whatever_parser_meets_it(depth, start, end):
    nested = start * depth + b"1" + end * depth
    with pytest.raises(ProtocolError):
        HeartbeatData.decode(b'{"clientID":' + nested + b"}")
    with contextlib.suppress(ProtocolError):  # members that it does not know are passed over
        assert TopicConfigTable.decode(b'{"dataVersion":' + nested + b"}") == TopicConfigTable()


@pytest.mark.parametrize("depth", [70, 900, 200_000])
def test_a_nested_header_is_a_command_or_a_protocol_error(depth):
    header = b'{"code":10,"extFields":{"a":' + b"[" * depth + b"]" * depth + b"}}"
    with contextlib.suppress(ProtocolError):
        assert decode_header(JSON, header).code == 10


@pytest.mark.parametrize("member", [b'"\xff"', b"[" * 900 + b"]" * 900, b"[" * 200_000 + b"]" * 200_000])
def test_a_member_that_no_command_has_cannot_break_the_fields_that_a_signature_covers(member):
    outside = b'{"code":10,"remark":null,"x":%b,"extFields":{"a":"1"}}'
    inside = b'{"code":10,"extFields":{"a":null,"x":%b}}'
    for header in (outside, inside):
        with contextlib.suppress(ProtocolError):
            assert "a" in decode_header(JSON, header % member).wire_fields()


def test_an_object_of_objects_is_no_key():
    with pytest.raises(ProtocolError):
        fastjson.loads(b'{{"a":[1]}:5}')


def test_fastjsons_dialect_is_read_from_requests_up_to_a_size():
    small, large = b"[" + b"1," * 10 + b"]", b"[" + b"1," * LOOSE_REQUEST + b"]"
    body = b'{0:%s,"filterServerList":["a"]}'
    assert RegisterBrokerBody.decode_request(body % small).filter_server_list == ["a"]
    with pytest.raises(ProtocolError, match="bytes for RegisterBrokerBody"):
        RegisterBrokerBody.decode_request(body % large)


@pytest.mark.parametrize("serialization", [JSON, BINARY])
def test_a_response_may_quote_half_a_character_and_a_request_may_not(serialization):
    text = {"field\ud800": "value\udfff"}
    answer = Command(1, text, flag=RESPONSE, remark="what is \ud800?", opaque=7, serialization=serialization)
    read = decode_header(serialization, encode_header(answer))
    assert (read.remark, read.fields, read.opaque) == ("what is ??", {"field?": "value?"}, 7)
    with pytest.raises(UnicodeEncodeError):
        encode_header(Command(1, text, serialization=serialization))


def test_the_text_of_a_command_is_short_and_has_no_secrets():
    text = repr(Command(50, {"secretKey": "hush-hush", "topic": "x" * 10_000}, remark="y" * 10_000))
    assert "hush" not in text
    assert len(text) < 2000


@pytest.mark.parametrize(
    "body",
    [
        b'{"offsetTable":{{"brokerName":"b","queueId":1,"topic":"t"}:3+{}}}',
        b'{"offsetTable":{{"brokerName":"b","queueId":1e9991,"topic":"t"}:3}}',
        b'{"offsetTable":7}',
        b"[1]",
        b"7",
    ],
)
def test_a_map_of_queues_that_is_none_is_a_protocol_error(body):
    with pytest.raises(ProtocolError):
        ResetOffsetBody.decode(body)


def test_a_name_that_is_no_text_is_refused_also_by_the_decoder_of_hot_headers():
    """A typed header skips names that it does not know, and skipped them unread."""
    header = b'{"code":11,"extFields":{"queueId":"0","\xff\xff":"x"},"flag":0,"language":"JAVA","opaque":1}'
    for decode in (lambda: decode_hot(header), lambda: decode_header(JSON, header)):
        with pytest.raises(ProtocolError):
            decode()


@pytest.mark.parametrize("value", [b"2e4", b'"20000"', b"20000.0", b"20000"])
@pytest.mark.parametrize("place", [b'"opaque":%b', b'"extFields":{"queueId":%b}'])
def test_a_number_in_another_form_reads_the_same_in_both_decoders(place, value):
    header = b'{"code":11,' + place % value + b',"flag":0}'
    if b"extFields" not in header:
        header = header.replace(b',"flag"', b',"extFields":{"queueId":"1"},"flag"')
    general, hot = decode_header(JSON, header), decode_hot(header)
    assert (general.opaque, general.fields) == (hot.opaque, hot.fields)
    assert 20000 in (general.opaque, int(general.fields["queueId"]))
