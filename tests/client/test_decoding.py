"""Units as messages: the quick way and the careful way give the same."""

import copy
import dataclasses
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.client.connect.broker_calls import pull_header
from ariane.client.consumer.queues.pull_requests import TEMPLATE_OFFSET, PullTemplate
from ariane.client.decoding import decode_message, decode_messages
from ariane.errors import ProtocolError
from ariane.message import MessageQueue, ReceivedMessage
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.protocol.frame import encode
from ariane.protocol.headers import PullMessageRequest
from ariane.protocol.ids import pack_host
from ariane.protocol.properties import encode_properties
from ariane.protocol.units import Unit, decode_unit, encode_unit

HOSTS = [pack_host("10.0.0.1", 1234), pack_host("::1", 10911)]
INT64 = st.integers(0, 2**62)


@st.composite
def units(draw: st.DrawFn) -> Unit:
    names = st.text(st.characters(categories=("L", "N")), min_size=1, max_size=8)
    properties = draw(st.dictionaries(names, names, max_size=4))
    return Unit(
        draw(st.sampled_from([b"orders", b"T", b"%RETRY%g"])),
        draw(st.binary(max_size=200)),
        encode_properties(properties).encode(),
        queue_id=draw(st.integers(0, 15)),
        flag=draw(st.integers(0, 9)),
        queue_offset=draw(INT64),
        physical_offset=draw(INT64),
        born_time=draw(INT64),
        born_host=draw(st.sampled_from(HOSTS)),
        store_time=draw(INT64),
        store_host=draw(st.sampled_from(HOSTS)),
        reconsume_times=draw(st.integers(0, 16)),
        prepared_offset=draw(INT64),
    )


@given(st.lists(units(), max_size=4))
def test_both_ways_to_decode_give_the_same(made: list[Unit]) -> None:
    body = b"".join(encode_unit(unit) for unit in made)
    careful = []
    at = 0
    while at < len(body):
        unit = decode_unit(body, at)
        careful.append(decode_message(unit, "broker-a"))
        at += unit.size
    assert decode_messages(body, "broker-a") == careful
    assert [m.body for m in careful] == [unit.body for unit in made]


@given(units(), st.data())
def test_torn_units_are_refused(made: Unit, data: st.DataObject) -> None:
    body = encode_unit(made)
    cut = data.draw(st.integers(1, len(body) - 1))
    with pytest.raises(ProtocolError):
        decode_messages(body[:cut], "broker-a")


def test_a_wrong_magic_is_refused() -> None:
    body = bytearray(encode_unit(Unit(b"T", b"x")))
    body[4] ^= 1
    with pytest.raises(ProtocolError, match="magic"):
        decode_messages(bytes(body), "broker-a")


def test_a_received_message_can_be_copied_with_changes() -> None:
    [message] = decode_messages(encode_unit(Unit(b"T", b"x")), "broker-a")
    assert dataclasses.replace(message, reconsume_times=3).reconsume_times == 3


def received(properties: dict[str, str]) -> ReceivedMessage:
    unit = Unit(b"orders", b"x", encode_properties(properties).encode(), queue_offset=7, reconsume_times=2)
    [message] = decode_messages(encode_unit(unit), "broker-a", {"MIN_OFFSET": "0"})
    return message


def test_a_field_that_was_set_is_kept_when_others_are_decoded() -> None:
    message = received({"TAGS": "a"})
    message.topic = "renamed"
    message.properties["mine"] = "1"
    assert message.queue.topic == "orders"
    assert message.reconsume_times == 2
    assert message.topic == "renamed"
    assert message.properties == {"TAGS": "a", "MIN_OFFSET": "0", "mine": "1"}


def test_copies_and_pickles_of_a_message_have_all_its_fields() -> None:
    message = received({"KEYS": "k", "UNIQ_KEY": "id-1"})
    for other in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert other == message
        assert (other.message_id, other.keys) == ("id-1", ["k"])


def test_a_message_has_no_other_attributes() -> None:
    message = received({})
    assert not hasattr(message, "toppic")
    with pytest.raises(AttributeError, match="toppic"):
        _ = message.toppic  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="toppic"):
        _ = copy.copy(message).toppic  # type: ignore[attr-defined]


NAMES = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=20)


@given(NAMES | st.just('","queueOffset":"1","opaque":2'), NAMES, st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_a_pull_from_a_template_is_the_one_that_the_general_encoder_writes(
    group: str, expression: str, offset: int, opaque: int
) -> None:
    def header(at: int) -> PullMessageRequest:
        return pull_header(group, MessageQueue("T", "b", 3), at, 32, expression, 4, 0, 15.0, 9)

    general = Command(RequestCode.PULL_MESSAGE, header(offset).fields(), opaque=opaque)
    assert PullTemplate(header(TEMPLATE_OFFSET)).frame(offset, opaque) == encode(general)
