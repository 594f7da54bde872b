"""Signed headers keep the fast way: what a shape says of a signature is what the general way reads."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ariane.access.signer import Signer
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import JSON, Command, decode_header
from ariane.protocol.fast.decoder import is_faithful
from ariane.protocol.fast.shape import Shape, shape_of
from ariane.protocol.signing import ACCESS_KEY, SIGNATURE, signed_values
from tests.protocol.test_shape import FIRST, header, sends

SIGNATURES = st.from_regex(r"[A-Za-z0-9+/]{27}=", fullmatch=True)


def signed(values: dict[str, object], signature: str = "A" * 27 + "=", first: bool = True) -> bytes:
    """A signed send; the signature stands before or after the other fields."""
    fields = msgspec.json.decode(header(values))["extFields"]
    keys = {ACCESS_KEY: "shop-app", SIGNATURE: signature}
    return header(values, extFields={**keys, **fields} if first else {**fields, **keys})


def pull(queue: int, offset: int, commit: int, signature: str) -> bytes:
    fields = {
        "AccessKey": "shop-app", "Signature": signature, "commitOffset": str(commit), "consumerGroup": "g",
        "expressionType": "TAG", "maxMsgNums": "32", "queueId": str(queue), "queueOffset": str(offset),
        "subVersion": "0", "subscription": "*", "suspendTimeoutMillis": "15000", "sysFlag": "6", "topic": "orders",
    }  # fmt: skip
    command = {"code": int(RequestCode.PULL_MESSAGE), "extFields": fields, "flag": 0, "language": "JAVA", "opaque": 7}
    return msgspec.json.encode(command)


def shape(text: bytes) -> Shape:
    found = shape_of(text, decode_header(JSON, text))
    assert found is not None
    return found


def check(command: Command | None, text: bytes) -> bool:
    """Whether it was read as signed; what it says then must be what the general way reads."""
    if command is None or command.signed is None:
        return False
    fields = decode_header(JSON, text).wire_fields()
    assert command.signed.text == signed_values(fields)
    assert (command.signed.access_key, command.signed.signature.decode()) == (fields[ACCESS_KEY], fields[SIGNATURE])
    return True


@given(sends, SIGNATURES, sends, SIGNATURES, st.booleans())
def test_a_signed_send_is_read_as_in_general(
    first: dict[str, object], one: str, second: dict[str, object], other: str, leads: bool
) -> None:
    text = signed(first, one, leads)
    found = shape_of(text, decode_header(JSON, text))
    if found is not None:
        check(found.read(signed(second, other, leads)), signed(second, other, leads))


def test_the_next_signed_send_has_the_shape_of_the_first() -> None:
    for leads in (True, False):
        found = shape(signed(FIRST, first=leads))
        assert is_faithful(found, signed(FIRST, first=leads))
        text = signed({**FIRST, "b": "stock", "e": 3, "opaque": 8}, "B" * 27 + "=", leads)
        assert check(found.read(text), text)
        assert found.read(signed(FIRST, "C" * 28 + "==", leads)) is None


@given(st.integers(0, 9), st.integers(0, 1 << 40), st.integers(0, 1 << 40), SIGNATURES)
def test_a_signed_pull_is_read_as_in_general(queue: int, offset: int, commit: int, signature: str) -> None:
    found = shape(pull(0, 0, 0, "A" * 27 + "="))
    text = pull(queue, offset, commit, signature)
    assert check(found.read(text), text)


@pytest.mark.parametrize(
    "trick",
    [
        (b'"Signature":"', b'"Sign\\u0061ture":"'),
        (b'"extFields"', b'"Signature":"AAAAAAAAAAAAAAAAAAAAAAAAAAA=","extFields"'),
        (b'"AccessKey":"shop-app"', b'"AccessKey":"operator","AccessKey":"shop-app"'),
        (b'"AccessKey":"shop-app"', b'"AccessKey":"shop-app","Access\\u004bey":"operator"'),
        (b'"a":"group"', b'"a":null'),
        (b'"a":"group"', b'"a":"group","z":7'),
    ],
)
def test_a_trick_in_a_header_changes_nothing(trick: tuple[bytes, bytes]) -> None:
    text = signed(FIRST).replace(*trick)
    found = shape_of(text, decode_header(JSON, text))
    if found is not None and is_faithful(found, text):
        following = signed({**FIRST, "e": 2}, "B" * 27 + "=").replace(*trick)
        command = found.read(following)
        if command is not None and command.signed is not None:
            fields = decode_header(JSON, following).wire_fields()
            assert command.signed.text == signed_values(fields)
            assert command.signed.access_key == fields[ACCESS_KEY]


def test_a_signed_request_of_ours_is_read_fast() -> None:
    command = Command(310, msgspec.json.decode(header(FIRST))["extFields"], b"body")
    Signer("shop-app", "12345678").before_request("", command)
    text = header(FIRST, extFields=command.fields)
    assert check(shape(text).read(text), text)
