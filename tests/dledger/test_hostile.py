"""Bytes at the port of a member that no member would send."""

import asyncio
import contextlib
import random
import struct
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from ariane.dledger.peers import wire
from ariane.dledger.peers.native import RAFT_CODE, decode, encode
from ariane.dledger.storage.entry import ENTRY_HEADER
from ariane.env import SystemClock
from ariane.errors import ArianeError, ProtocolError
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.raft import AppendEntries, Entry, Heartbeat, LogStart, Membership, Message, Removed, RequestVote, ResetLog
from ariane.remoting import Client
from tests.dledger.brokers import BrokerGroup
from tests.dledger.group import Group

ADDRESSES = (("n0", "127.0.0.1:1"), ("n1", "127.0.0.1:2"), ("n2", "127.0.0.1:3"))
MEMBERS = Membership(frozenset({"n0", "n1"}), frozenset({"n2"}), ADDRESSES)


def record(index: int, term: int, position: int, body: bytes = b"x" * 100) -> bytes:
    return ENTRY_HEADER.pack(1, 48 + len(body), index, term, position, 0, 0, 0, len(body)) + body


def records(entries: Sequence[Entry]) -> bytes:
    return b"".join(record(e.index, e.term, 700 if e.position < 0 else e.position) for e in entries)


MESSAGES: list[Message] = [
    RequestVote("n1", "n0", 3, 5, 2),
    Heartbeat("n1", "n0", 3, 5, 17),
    AppendEntries("n1", "n0", 3, 4, 2, (Entry(5, 3, 700, 148), Entry(6, 3, 848, 148)), 4),
    ResetLog("n1", "n0", 3, LogStart(MEMBERS, 6, 848, 2)),
    Removed("n1", "n0", 3, 5, 2),
]


def encoded(message: Message) -> bytes:
    found = encode("g", message, records)
    assert found is not None
    return found


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_messages_come_back_as_they_were_and_changed_bytes_are_refused_or_read(message: Message) -> None:
    data = encoded(message)
    assert decode(data, "g", "n0", MEMBERS.members)[0] == message
    chance = random.Random(1)
    for _ in range(2000):
        changed = bytearray(data)
        for _ in range(chance.randrange(1, 4)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        cut = bytes(changed[: chance.randrange(len(changed) + 1)]) if chance.random() < 0.3 else bytes(changed)
        with contextlib.suppress(ProtocolError):
            decode(cut, "g", "n0", MEMBERS.members)


@pytest.fixture
async def group(tmp_path: Path) -> AsyncIterator[Group]:
    group = Group(tmp_path)
    try:
        await group.start()
        yield group
    finally:
        await group.stop()


async def test_a_group_goes_on_whatever_reaches_its_ports(group: Group) -> None:
    acknowledged = await group.fill(20, "before-")
    leader = await group.leader()
    term, follower = leader.member.term, next(r for r in group.running.values() if r is not leader)
    name = leader.member.options.id
    end, last = follower.files.log.stored, follower.files.log.last_index
    wrong = AppendEntries(name, "x", term, last, term, (Entry(last + 1, term, end + 77, 148),), last)
    bodies = [
        b"",
        b"\xff" * 50,
        encode("g", wrong, records) or b"",
        encode("other", MESSAGES[0], lambda _: None) or b"",
    ]
    pushes = [
        wire.PushRequest(group="g", type="APPEND"),
        wire.PushRequest(group="other", remoteId="n0", leaderId="n1", term=term),
        wire.VoteRequest(group="g", remoteId="n9", leaderId="n9", term=1 << 62),
    ]
    client = Client(clock=SystemClock())
    try:
        for address in group.peers.values():
            for body in bodies:
                await client.oneway(address, Command(RAFT_CODE, None, body))
            for code in (wire.VOTE, wire.PUSH, wire.HEART_BEAT, wire.METADATA, wire.LEADERSHIP_TRANSFER, wire.APPEND):
                for body in (b"{", b"[]", b"null", struct.pack(">q", -1), *(push.encode() for push in pushes)):
                    with contextlib.suppress(ArianeError):
                        await client.request(address, Command(code, None, body), 5)
    finally:
        await client.close()
    await asyncio.sleep(0)
    assert not any(running.member.frozen for running in group.running.values())
    acknowledged += await group.fill(20, "after-")
    await group.same_everywhere(acknowledged)


@pytest.mark.parametrize(("allowed", "is_heard"), [("", True), ("10.9.8.7", False), ("10.9.8.7;127.0.0.0/8", True)])
async def test_a_member_hears_only_the_hosts_that_it_is_told(tmp_path: Path, allowed: str, is_heard: bool) -> None:
    group = BrokerGroup(tmp_path, haAllowedPeers=allowed)
    client = Client(clock=SystemClock())
    try:
        await group.start("n0")
        ledger = group.brokers["n0"].group
        assert ledger is not None
        vote = wire.VoteRequest(group="ledger", remoteId="n0", leaderId="n1", localId="n1", term=99)
        address = ledger.member.options.peers["n0"]
        for code, body in ((wire.METADATA, b"{}"), (wire.VOTE, vote.encode())):
            answer = await client.request(address, Command(code, None, body), 60)
            assert (answer.code == ResponseCode.NO_PERMISSION) is not is_heard
    finally:
        await client.close()
        await group.stop()


async def test_entries_of_an_apache_leader_follow_only_what_it_has_compared(tmp_path: Path) -> None:
    """What an earlier leader left after that is not its log, though there is an entry where one is needed."""
    group = Group(tmp_path, election_ms=60_000)
    client = Client(clock=SystemClock())
    body = b"x" * 100

    def push(kind: str, leader: str, term: int, index: int, entry_term: int) -> wire.PushRequest:
        size = 48 + len(body)
        entry = wire.PushedEntry(body=body, index=index, magic=1, pos=index * size, size=size, term=entry_term)
        return wire.PushRequest(
            group="g", remoteId="n0", localId=leader, leaderId=leader, term=term, type=kind, entry=entry, count=1,
            firstEntryIndex=index, lastEntryIndex=index,
        )  # fmt: skip

    async def answer(request: wire.PushRequest) -> int:
        found = await client.request(group.peers["n0"], Command(wire.PUSH, None, request.encode()), 60)
        return wire.PushResponse.decode(found.body).code

    try:
        await group.start("n0")
        running = group.running["n0"]
        assert await answer(push("TRUNCATE", "n1", 5, 0, 5)) == wire.OK
        for index in (1, 2, 3):
            assert await answer(push("APPEND", "n1", 5, index, 5)) == wire.OK
        assert await answer(push("COMPARE", "n2", 6, 1, 5)) == wire.OK
        early = asyncio.ensure_future(answer(push("APPEND", "n2", 6, 3, 6)))
        assert await answer(push("COMMIT", "n2", 6, -1, -1)) == wire.OK  # has come after it on the same connection
        assert not early.done()
        assert await answer(push("APPEND", "n2", 6, 2, 6)) == wire.OK
        assert await early == wire.OK
        assert [running.files.entry(index).term for index in range(4)] == [5, 5, 6, 6]
        assert running.files.log.last_index == 3
    finally:
        await client.close()
        await group.stop()
