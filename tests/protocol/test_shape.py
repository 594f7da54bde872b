"""Headers that are nearly the same as one before are read by their shape, to the same result as in general."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.protocol.codes import RequestCode
from ariane.protocol.command import JSON, Command, decode_header
from ariane.protocol.fast.decoder import HeaderDecoder, decode_hot, is_faithful
from ariane.protocol.fast.property_form import form_of
from ariane.protocol.fast.pulling import Pulling, pulling_in
from ariane.protocol.fast.sending import HAS_CLUSTER, HAS_DELAY, HAS_TRANSACTION, HAS_WAIT, Sending, sending_in
from ariane.protocol.fast.shape import Shape, shape_of
from ariane.protocol.frame import FrameDecoder
from ariane.protocol.frame_head import framed

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(["UNIQ_KEY", "WAIT", "DELAY"])
values = names | st.sampled_from(["7F0001", "7F0002", "7f-003", 'x"\\', "true"])
zeros = st.integers(0, 99).map(lambda number: f"00{number}")
sends = st.fixed_dictionaries({
    "b": st.sampled_from(["orders", "stock", 'quo"te', "ä"]),
    "e": st.integers(-2, 1 << 31) | st.integers(0, 9) | zeros,
    "g": zeros | st.integers(-1, 1 << 63) | st.integers(1_700_000_000_000, 1_800_000_000_000),
    "i": st.dictionaries(names, values, max_size=3).map(lambda d: "".join(f"{k}\x01{v}\x02" for k, v in d.items())),
    "opaque": st.integers(-(1 << 31), (1 << 31) - 1),
})  # fmt: skip


PROPERTIES = "UNIQ_KEY\x017F\x02WAIT\x01true"
FIRST: dict[str, object] = {"b": "orders", "e": 1, "g": 1_700_000_000_000, "i": PROPERTIES, "opaque": 7}


def header(values: dict[str, object], **changes: object) -> bytes:
    """A header as Apache's client writes it: keys in this order, the values of fields as text."""
    fields = {
        "a": "group", "b": values["b"], "c": "TBW102", "d": "4", "e": str(values["e"]), "f": "0",
        "g": str(values["g"]), "h": "0", "i": values["i"], "j": "0", "k": "false", "m": "false",
    }  # fmt: skip
    command = {
        "code": int(RequestCode.SEND_MESSAGE_V2), "extFields": fields, "flag": 0, "language": "JAVA",
        "opaque": values["opaque"], "serializeTypeCurrentRPC": "JSON", "version": 407,
    }  # fmt: skip
    return msgspec.json.encode(command | changes)


def told(command: Command) -> tuple[object, ...]:
    """All that a command says."""
    try:
        asked = sending_in(command).values()
    except Exception as error:
        return (command.code, command.opaque, str(error))
    rest = (command.code, command.opaque, command.flag, command.remark, command.language, command.version, command.body)
    return (*asked, *rest, command.fields)


def decoded(decoder: FrameDecoder, data: bytes) -> Command:
    decoder.feed(data)
    [command] = decoder.take()
    return command


def shape(text: bytes) -> Shape:
    found = shape_of(text, decode_header(JSON, text))
    assert found is not None
    return found


@given(sends, sends)
def test_what_a_shape_reads_is_what_the_general_way_reads(first: dict[str, object], second: dict[str, object]) -> None:
    found = shape_of(header(first), decode_header(JSON, header(first)))
    command = None if found is None else found.read(header(second))
    if command is not None:
        assert told(command) == told(decode_header(JSON, header(second)))


@given(st.lists(sends, min_size=2, max_size=12))
def test_a_header_of_a_known_shape_says_what_the_general_way_reads(values: list[dict[str, object]]) -> None:
    decoder = FrameDecoder()
    for one in values:
        text = header(one)
        assert told(decoded(decoder, framed(text, JSON))) == told(decode_header(JSON, text))


def test_the_second_header_of_a_shape_needs_no_decoding() -> None:
    second = shape(header(FIRST)).read(header(FIRST | {"e": 3, "opaque": 8}))
    assert second is not None
    sending = second.typed
    assert isinstance(sending, Sending)
    assert (sending.queue_id, second.opaque) == (3, 8)
    assert sending.properties == PROPERTIES.encode()


def test_a_number_at_the_very_end_is_found_too() -> None:
    """Our own client writes its opaque last."""
    command = msgspec.json.decode(header(FIRST))
    opaque = command.pop("opaque")
    text = msgspec.json.encode(command | {"opaque": opaque})
    again = shape(text).read(text)
    assert again is not None
    assert isinstance(again.typed, Sending)
    assert told(again) == told(decode_header(JSON, text))


def test_reading_the_fields_costs_nothing_of_what_was_read() -> None:
    command = shape(header(FIRST)).read(header(FIRST))
    assert command is not None
    sending = sending_in(command)
    assert command.fields == command.wire_fields() == decode_header(JSON, header(FIRST)).fields
    assert sending_in(command) is command.typed is sending


def test_a_header_that_differs_anywhere_else_is_decoded_in_full() -> None:
    decoder = FrameDecoder()
    decoded(decoder, framed(header(FIRST), JSON))
    for change in ({"flag": 2}, {"version": 408}, {"language": "GO"}, {"remark": "r"}):
        text = header(FIRST, **change)
        command = decoded(decoder, framed(text, JSON))
        assert told(command) == told(decode_header(JSON, text))


def test_every_cut_and_every_changed_byte_reads_as_the_general_way_reads_it() -> None:
    whole = header(FIRST)
    for at in range(len(whole)):
        for text in (whole[:at], whole[:at] + b"\x00" + whole[at + 1 :], whole[:at] + b"7" + whole[at + 1 :]):
            command = shape(whole).read(text)
            if command is not None:
                assert told(command) == told(decode_header(JSON, text))


@pytest.mark.parametrize("place", ['"e":"%s"', '"g":"%s"', '"opaque":%s'])
@pytest.mark.parametrize("number", ["000", "007", "0", "-0", "+7"])
def test_zeros_before_a_number_read_as_the_general_way_reads_them(place: str, number: str) -> None:
    values = {'"e":"%s"': "1", '"g":"%s"': "1700000000000", '"opaque":%s': "7"}
    whole = header(FIRST)
    text = whole.replace((place % values[place]).encode(), (place % number).encode())
    assert text != whole
    command = shape(whole).read(text)
    assert (command is not None) == (number == "0")
    if command is not None:
        assert told(command) == told(decode_header(JSON, text))


def test_a_producer_of_many_topics_has_one_shape() -> None:
    found = shape(header(FIRST))
    for topic in ("stock", "orders", "stock", "%RETRY%group"):
        command = found.read(header(FIRST | {"b": topic}))
        assert command is not None
        assert isinstance(command.typed, Sending)
        assert command.typed.kind.topic == topic
        assert told(command) == told(decode_header(JSON, header(FIRST | {"b": topic})))


def test_properties_that_differ_in_the_unique_key_alone_are_read_by_their_form() -> None:
    escaped, text = (
        rb'A\u0001a\u0002UNIQ_KEY\u00017F01\u0002WAIT\u0001true"',
        b"A\x01a\x02UNIQ_KEY\x017F01\x02WAIT\x01true",
    )
    form = form_of(escaped, text, HAS_WAIT)
    assert form is not None
    second = b"{" + escaped.replace(b"7F01", b"8E2z") + b"}"
    assert form.read(second, 1) == len(second) - 2
    assert form.key == b"8E2z"
    assert form.text(form.key) == text.replace(b"7F01", b"8E2z")
    for other in (b'7F"1', b"7F\\1", b"7F1", b"7F001", b"7F\xc31"):
        assert form.read(b"{" + escaped.replace(b"7F01", other) + b"}", 1) == -1
    assert form.read(second[:-3], 1) == -1
    assert form_of(b'A\\u0001a"', b"A\x01a", 0) is None


def test_names_that_mean_something_are_found_on_the_way() -> None:
    for properties, names in (
        ("WAIT\x01true\x02", HAS_WAIT), ("A\x01WAIT\x02", 0), ("A\x01WAIT\x01\x02DELAY\x013", HAS_DELAY),
        ("XWAIT\x01true\x02", 0), ("TRAN_MSG\x01true\x02CLUSTER\x01c\x02", HAS_TRANSACTION | HAS_CLUSTER),
    ):  # fmt: skip
        again = shape(header(FIRST)).read(header(FIRST | {"i": properties}))
        assert again is not None
        assert isinstance(again.typed, Sending)
        assert again.typed.names == names


pulls = st.fixed_dictionaries({
    "queueId": st.integers(-2, 1 << 31) | st.integers(0, 9) | zeros, "queueOffset": st.integers(-1, 1 << 63) | zeros,
    "commitOffset": st.integers(-1, 1 << 63), "opaque": st.integers(-(1 << 31), (1 << 31) - 1),
    "topic": st.sampled_from(["orders", "stock"]),
})  # fmt: skip


PULL: dict[str, object] = {"queueId": 1, "queueOffset": 10, "commitOffset": 5, "opaque": 7, "topic": "orders"}


def pull_header(values: dict[str, object]) -> bytes:
    """As Apache's client writes it: the fields in the order of Java's hash map."""
    fields = {
        "queueId": str(values["queueId"]), "maxMsgNums": "32", "sysFlag": "2", "suspendTimeoutMillis": "15000",
        "commitOffset": str(values["commitOffset"]), "topic": values["topic"],
        "queueOffset": str(values["queueOffset"]), "expressionType": "TAG", "subVersion": "0", "consumerGroup": "g",
    }  # fmt: skip
    return msgspec.json.encode({
        "code": int(RequestCode.PULL_MESSAGE), "extFields": fields, "flag": 0, "language": "JAVA",
        "opaque": values["opaque"], "serializeTypeCurrentRPC": "JSON", "version": 407,
    })  # fmt: skip


def pulled(command: Command) -> tuple[object, ...]:
    try:
        return (*pulling_in(command).values(), command.opaque, command.code, command.fields)
    except Exception as error:
        return (command.code, command.opaque, str(error))


@given(st.lists(pulls, min_size=2, max_size=12))
def test_a_pull_of_a_known_shape_asks_for_what_the_general_way_reads(values: list[dict[str, object]]) -> None:
    decoder = FrameDecoder()
    for one in values:
        text = pull_header(one)
        assert pulled(decoded(decoder, framed(text, JSON))) == pulled(decode_header(JSON, text))


def test_the_second_pull_of_a_shape_needs_no_decoding() -> None:
    second = shape(pull_header(PULL)).read(pull_header(PULL | {"queueId": 3, "queueOffset": 42, "opaque": 8}))
    assert second is not None
    pulling = second.typed
    assert isinstance(pulling, Pulling)
    assert (pulling.queue_id, pulling.queue_offset, pulling.commit_offset, second.opaque) == (3, 42, 5, 8)


def test_many_topics_on_one_connection_do_not_pile_up() -> None:
    decoder = FrameDecoder()
    for number in range(1000):
        text = header(FIRST | {"b": f"topic-{number}"})
        assert told(decoded(decoder, framed(text, JSON))) == told(decode_header(JSON, text))


# A shape must not read another command than the general decoder: a gate would check one and a handler do the other.


@pytest.mark.parametrize(
    "twin",
    [
        b'"b":"public"',
        b'"b" : "public"',
        b'"\\u0062":"public"',
        b'"e":"0"',
        b'"\\u0065":"0"',
        b'"g":"5"',
        b'"i":"WAIT\\u0001false"',
        b'"\\u0069":""',
    ],
)
@pytest.mark.parametrize("where", [b'"m":"false"', b'"a":"group"'], ids=["after", "before"])
def test_a_name_that_comes_twice_gives_no_shape(twin: bytes, where: bytes) -> None:
    text = header(FIRST).replace(where, where + b"," + twin)
    other = text.replace(b'"b":"orders"', b'"b":"secret"').replace(b'"e":"1"', b'"e":"2"')
    found = shape_of(text, decode_header(JSON, text))
    if found is not None and is_faithful(found, text):
        command = found.read(other)
        assert command is None or told(command) == told(decode_header(JSON, other))


@pytest.mark.parametrize("outside", [b'"b":"public",', b'"opaque":5,', b'"\\u006fpaque":5,', b'"i":"",'])
@pytest.mark.parametrize("at_end", [False, True])
def test_a_name_outside_the_fields_is_no_place(outside: bytes, at_end: bool) -> None:
    whole = header(FIRST)
    text = (
        whole[:-1] + b"," + outside[:-1] + b"}" if at_end else whole.replace(b'"extFields"', outside + b'"extFields"')
    )
    other = text.replace(b'"b":"orders"', b'"b":"secret"').replace(b'"opaque":7', b'"opaque":9')
    found = shape_of(text, decode_header(JSON, text))
    if found is not None and is_faithful(found, text):
        command = found.read(other)
        assert command is None or told(command) == told(decode_header(JSON, other))


def test_the_usual_headers_have_faithful_shapes() -> None:
    for text in (header(FIRST), pull_header(PULL)):
        assert is_faithful(shape(text), text)
        assert decode_hot(text).typed is not None


def test_a_negative_number_gives_no_shape() -> None:
    for text in (header(FIRST | {"opaque": -7}), header(FIRST | {"e": -1}), pull_header(PULL | {"opaque": -7})):
        found = shape_of(text, decode_header(JSON, text))
        assert found is None or not is_faithful(found, text)


def test_a_pull_whose_offset_comes_twice_has_no_shape() -> None:
    text = pull_header(PULL).replace(b'"expressionType"', b'"queueOffset":"0","expressionType"')
    assert not is_faithful(shape(text), text)


@given(st.lists(sends | pulls, min_size=2, max_size=12))
def test_a_decoder_of_a_connection_reads_what_the_general_decoder_reads(values: list[dict[str, object]]) -> None:
    decoder = HeaderDecoder()
    for one in values:
        text = header(one) if "b" in one else pull_header(one)
        fast, general = decoder.decode(JSON, text), decode_header(JSON, text)
        assert (told(fast), pulled(fast)) == (told(general), pulled(general))
        assert (fast.wire_fields(), fast.code, fast.opaque) == (general.wire_fields(), general.code, general.opaque)
