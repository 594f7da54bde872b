"""A connection whose sends were let in: the next one needs a good signature alone, until the rules change."""

from pathlib import Path
from typing import Any

import pytest

from ariane.access.gate import AccessGate
from ariane.access.known import KNOWN, KnownFirst
from ariane.access.rules import LiveRules
from ariane.broker.acl.table import broker_rules
from ariane.env import Env
from ariane.errors import ResponseError
from ariane.protocol.command import JSON, Command, decode_header
from ariane.protocol.fast.shape import Shape, shape_of
from bench.frames import send_frame

RULES = "accounts:\n- {accessKey: shop-app, secretKey: shop-secret, topicPerms: [orders=PUB]}\n"


class Peer:
    """A connection as a gate sees it."""

    def __init__(self) -> None:
        self.peer = "10.0.0.1:5"
        self.peer_host = bytes([10, 0, 0, 1, 0, 0, 0, 5])
        self.secure = False
        self.attributes: dict[str, Any] = {}


def header(topic: str, body: bytes, queue: int, secret: str = "shop-secret") -> bytes:
    """A signed send as Apache's client writes it."""
    frame = send_frame(queue, topic, queue, body, ("shop-app", secret))
    return frame[8 : len(frame) - len(body)]


@pytest.fixture
def shape() -> Shape:
    text = header("orders", b"x", 1)
    found = shape_of(text, decode_header(JSON, text))
    assert found is not None
    return found


def read(shape: Shape, text: bytes, body: bytes = b"x") -> Command:
    command = shape.read(text)
    assert command is not None
    assert command.signed is not None
    command.body = body
    return command


async def test_a_known_sender_is_checked_by_its_signature_alone_until_the_rules_change(
    tmp_path: Path, shape: Shape
) -> None:
    env = Env()
    (tmp_path / "conf").mkdir()
    file = tmp_path / "conf/plain_acl.yml"
    file.write_text(RULES)
    rules = LiveRules(env.files, env.clock, tmp_path)
    rules.load()
    slow: list[Command] = []
    gate = AccessGate(rules, broker_rules(), env.clock)

    def count(peer: Any, request: Command) -> None:
        slow.append(request)
        gate.check(peer, request)

    first, peer = KnownFirst(rules, rules.counters, count), Peer()
    for queue in (1, 2, 3):
        first.check(peer, read(shape, header("orders", b"x", queue)))
    assert len(slow) == 1
    assert rules.counters.allowed == 3
    for forged, body in (
        (header("orders", b"x", 1, "other-secret"), b"x"),
        (header("orders", b"x", 1), b"y"),
        (header("others", b"x", 1), b"x"),
    ):
        with pytest.raises(ResponseError, match="AclException"):
            first.check(peer, read(shape, forged, body))
    first.check(peer, read(shape, header("orders", b"x", 4)))
    assert peer.attributes[KNOWN].rules is rules.current
    file.write_text(RULES.replace("PUB", "SUB"))
    await rules.refresh()
    with pytest.raises(ResponseError, match="No default permission for topic:orders"):
        first.check(peer, read(shape, header("orders", b"x", 5)))
    file.write_text("accounts:\n- {accessKey: another1, secretKey: 12345678}")
    await rules.refresh()
    with pytest.raises(ResponseError, match="No acl config for shop-app"):
        first.check(peer, read(shape, header("orders", b"x", 6)))
