"""Requests that come with every message are decoded at once into their typed header."""

import pytest

from ariane.errors import ProtocolError, ResponseError
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import JSON, Command, decode_header, encode_header
from ariane.protocol.fast.decoder import decode_hot
from ariane.protocol.headers import PullMessageRequest, SendMessageRequest, SendMessageRequestV2

SEND = SendMessageRequestV2(
    "group", "topic", "TBW102", 4, 1, 0, 1_700_000_000_000, 0, "KEYS\x01k\x02", 0, False, True, None, None
)
PULL = PullMessageRequest("group", "topic", 3, 1 << 40, 32, 6, 0, 15_000, 0, "*", "TAG")


def received(code: int, fields: dict[str, str]) -> Command:
    return decode_hot(encode_header(Command(code, fields, opaque=7, language="JAVA", version=407)))


@pytest.mark.parametrize(
    ("code", "header"),
    [
        (RequestCode.SEND_MESSAGE_V2, SEND),
        (RequestCode.SEND_BATCH_MESSAGE, SEND),
        (RequestCode.PULL_MESSAGE, PULL),
        (RequestCode.CONSUMER_SEND_MSG_BACK, SEND),  # any other code takes the general way
    ],
)
def test_the_typed_header_is_what_the_fields_say(code: int, header: SendMessageRequestV2 | PullMessageRequest) -> None:
    command = received(code, header.fields())
    assert command.parsed(type(header)) == header
    assert (command.code, command.opaque, command.language, command.version) == (code, 7, "JAVA", 407)
    assert command.fields == header.fields()
    assert command.parsed(type(header)) == header


def test_a_hot_request_is_parsed_once() -> None:
    command = received(RequestCode.SEND_MESSAGE_V2, SEND.fields())
    assert command.parsed(SendMessageRequestV2) is command.parsed(SendMessageRequestV2)


def test_fields_that_are_no_part_of_the_header_can_be_read_too() -> None:
    command = received(RequestCode.SEND_MESSAGE_V2, {**SEND.fields(), "AccessKey": "me"})
    assert command.fields["AccessKey"] == "me"


def test_reading_the_fields_does_not_cost_the_typed_header() -> None:
    command = received(RequestCode.SEND_MESSAGE_V2, SEND.fields())
    typed = command.parsed(SendMessageRequestV2)
    assert command.fields == command.wire_fields() == SEND.fields()
    assert command.parsed(SendMessageRequestV2) is typed


@pytest.mark.parametrize("code", [RequestCode.SEND_MESSAGE_V2, RequestCode.HEART_BEAT])
def test_a_signature_covers_nulls_and_numbers_as_text(code: int) -> None:
    fields = b'{"a":"g","n":null,"x":7,"t":true,"text":"null"}'
    header = b'{"code":%d,"opaque":1,"remark":null,"extFields":%s}' % (code, fields)
    command = decode_hot(header)
    assert command.fields == {"a": "g", "x": "7", "t": "true", "text": "null"}
    assert command.wire_fields() == {"a": "g", "n": "null", "x": "7", "t": "true", "text": "null"}
    assert decode_header(JSON, b'{"code":%d,"remark":null}' % code).wire_fields() == {}


def test_another_header_than_the_usual_is_read_from_the_fields() -> None:
    fields = {"producerGroup": "g", "topic": "t", "defaultTopic": "d", "defaultTopicQueueNums": "4", "queueId": "0"}
    fields |= {"sysFlag": "0", "bornTimestamp": "1", "flag": "0"}
    command = received(RequestCode.SEND_MESSAGE_V2, fields)
    assert command.parsed(SendMessageRequest).topic == "t"


@pytest.mark.parametrize("damage", [{"e": "one"}, {"e": str(1 << 31)}, {"b": None}])
def test_a_bad_field_is_answered_and_does_not_close_the_connection(damage: dict[str, str | None]) -> None:
    fields = {name: value for name, value in {**SEND.fields(), **damage}.items() if value is not None}
    command = received(RequestCode.SEND_MESSAGE_V2, fields)
    with pytest.raises(ResponseError, match="SendMessageRequestV2"):
        command.parsed(SendMessageRequestV2)


def test_numbers_among_the_fields_are_taken() -> None:
    text = encode_header(Command(RequestCode.SEND_MESSAGE_V2, SEND.fields())).replace(b'"e":"1"', b'"e":1')
    command = decode_hot(text)
    assert command.parsed(SendMessageRequestV2) == SEND
    assert command.fields["e"] == "1"


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(ProtocolError):
        decode_header(JSON, b'{"code":310,"extFields":{"a":')
