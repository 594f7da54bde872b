"""Requests of Apache's members, translated to messages of the core; the core's replies answer them.

An Apache leader's APPEND does not name the previous entry: it relies on a COMPARE or TRUNCATE of the same term that
found the logs equal. Entries may arrive in any order and are sorted by index first. `apache_sender` has the reverse
way and the table of both.
"""

import logging
from typing import Final, Protocol

from ariane.dledger.options import MemberOptions
from ariane.dledger.peers import wire
from ariane.dledger.peers.native import Records, follows
from ariane.dledger.peers.peer import Peer, PeerKind
from ariane.dledger.storage.configuration import membership_of
from ariane.dledger.storage.entry import ENTRY_HEADER, MAGIC, header_at
from ariane.dledger.storage.log import LedgerLog
from ariane.errors import ProtocolError
from ariane.protocol.command import Command
from ariane.raft import (
    AppendEntries,
    AppendReply,
    Entry,
    Heartbeat,
    HeartbeatReply,
    LogStart,
    Membership,
    Message,
    Node,
    RaftError,
    RequestVote,
    ResetLog,
    Role,
    TimeoutNow,
    Vote,
)
from ariane.remoting import Connection, Handler

log = logging.getLogger("ariane.dledger")

_MOST_WAITING: Final = 10_000  # pushes that arrived too early


class Core(Protocol):
    """The part of the member that this module uses."""

    options: MemberOptions

    @property
    def peers(self) -> dict[str, Peer]: ...

    @property
    def membership(self) -> Membership: ...

    @property
    def node(self) -> Node | None: ...

    @property
    def ledger(self) -> LedgerLog: ...

    @property
    def term(self) -> int: ...

    @property
    def frozen(self) -> str: ...

    def take(self, message: Message, records: Records) -> None: ...

    def record(self, entry: Entry) -> bytes | None: ...

    def metadata(self, to: str) -> wire.Metadata: ...

    def hear_of(self, told: wire.Metadata) -> None: ...

    def found_apache(self, peer: Peer) -> None: ...

    def transfer(self, member: str) -> None: ...


class Pending:
    """A request of an Apache member that is answered when the core has its answer."""

    __slots__ = ("body", "connection", "last", "request")

    def __init__(self, connection: Connection, request: Command, body: wire.Body, last: int = -1) -> None:
        self.connection = connection
        self.request = request
        self.body = body
        self.last = last

    def answer(self, body: wire.Body) -> None:
        self.connection.answer(self.request, self.request.reply(wire.OK, body=body.encode()))


class ApacheRequests:
    """Answers the requests of Apache's members."""

    def __init__(self, member: Core) -> None:
        self._member = member
        self._votes: dict[str, Pending] = {}
        self._beats: dict[str, Pending] = {}
        self._pushes: dict[str, list[Pending]] = {}
        self._early: dict[int, Pending] = {}  # APPENDs that do not follow yet, by first index
        self._agreed: tuple[str, int] = ("", -1)  # leader and term whose log was compared with this one
        self._agreed_index = -1
        self.handlers: dict[int, Handler] = {
            wire.METADATA: self._metadata,
            wire.APPEND: self._refuse,
            wire.GET: self._refuse,
            wire.PULL: self._refuse,
            wire.VOTE: self._vote,
            wire.HEART_BEAT: self._heart_beat,
            wire.PUSH: self._push,
            wire.LEADERSHIP_TRANSFER: self._transfer,
        }

    # -- requests of Apache's members -----------------------------------------------------------------------------

    def _metadata(self, _: Connection, request: Command) -> Command:
        asked = wire.Metadata.decode(request.body or b"{}")
        if asked.group is not None and asked.group != self._member.options.group:
            return request.reply(wire.OK, body=wire.Metadata(code=wire.UNKNOWN_GROUP).encode())
        self._member.hear_of(asked)
        return request.reply(wire.OK, body=self._member.metadata(asked.localId or "").encode())

    def _refuse(self, _: Connection, request: Command) -> Command:
        """Refuse client APPEND and GET requests: callers on this port are not authenticated."""
        return request.reply(wire.OK, body=wire.AppendResponse(code=wire.UNSUPPORTED).encode())

    def _check(self, body: wire.Body) -> tuple[int, Node | None]:
        """The error code of an invalid request, or 200 and the core."""
        member = self._member
        if body.group != member.options.group:
            return wire.UNKNOWN_GROUP, None
        if body.leaderId == body.remoteId == member.options.id:
            return wire.UNEXPECTED_MEMBER, None
        peer = member.peers.get(body.leaderId or "")
        if body.remoteId != member.options.id or peer is None:
            return wire.UNKNOWN_MEMBER, None
        if peer.kind is not PeerKind.APACHE:
            member.found_apache(peer)
        return (wire.OK, member.node) if member.node is not None and not member.frozen else (wire.INTERNAL_ERROR, None)

    def _vote(self, connection: Connection, request: Command) -> Command | None:
        body = wire.VoteRequest.decode(request.body)
        code, node = self._check(body)
        pending = Pending(connection, request, body)
        candidate = body.leaderId or ""
        if node is None:
            refusal = wire.VoteResponse(code=code, voteResult="REJECT_UNKNOWN_LEADER")
            return request.reply(wire.OK, body=refusal.encode())
        if body.term > node.hard_state.term and node.hears_leader:
            pending.answer(self._voted(body, node, granted=False))
            return None
        self._votes[candidate] = pending
        member = self._member
        member.take(RequestVote(candidate, member.options.id, body.term, body.ledgerEndIndex, body.ledgerEndTerm), {})
        return None

    def _voted(self, asked: wire.VoteRequest, node: Node, *, granted: bool) -> wire.VoteResponse:
        if granted:
            result = "ACCEPT"
        elif asked.term < node.hard_state.term:
            result = "REJECT_EXPIRED_VOTE_TERM"  # send this first, so that it learns the term
        elif asked.ledgerEndTerm < node.log.last_term:
            result = "REJECT_EXPIRED_LEDGER_TERM"
        elif asked.ledgerEndTerm == node.log.last_term and asked.ledgerEndIndex < node.log.last_index:
            result = "REJECT_SMALL_LEDGER_END_INDEX"
        else:
            result = "REJECT_ALREADY_HAS_LEADER" if node.leader is not None else "REJECT_ALREADY_VOTED"
        return wire.VoteResponse(
            group=asked.group,
            localId=asked.localId,
            remoteId=asked.remoteId,
            leaderId=asked.leaderId,
            term=node.hard_state.term,
            voteResult=result,
        )

    def _heart_beat(self, connection: Connection, request: Command) -> Command | None:
        body = wire.HeartBeat.decode(request.body)
        code, node = self._check(body)
        if node is None:
            return request.reply(wire.OK, body=wire.HeartBeat(code=code, term=self._member.term).encode())
        leader = body.leaderId or ""
        if body.term == node.hard_state.term and node.leader not in (None, leader):
            return request.reply(wire.OK, body=wire.HeartBeat(code=wire.INCONSISTENT_LEADER).encode())
        self._beats[leader] = Pending(connection, request, body)
        self._member.take(Heartbeat(leader, self._member.options.id, body.term, -1, 0), {})
        return None

    def _push(self, connection: Connection, request: Command) -> Command | None:
        body = wire.PushRequest.decode(request.body)
        code, node = self._check(body)
        if node is None:
            return request.reply(wire.OK, body=self._pushed(body, code).encode())
        leader = body.leaderId or ""
        if body.term < node.hard_state.term or (
            body.term == node.hard_state.term and (node.role is Role.LEADER or node.leader not in (None, leader))
        ):
            return request.reply(wire.OK, body=self._pushed(body, wire.INCONSISTENT_STATE).encode())
        if self._agreed != (leader, body.term):
            self._agreed, self._agreed_index = (leader, body.term), -2
            self._early.clear()
        try:
            done = self._take_push(Pending(connection, request, body), body, leader, node)
        except ProtocolError as error:
            log.warning("%s pushed what cannot be stored: %s", leader, error)
            done = wire.UNEXPECTED_ARGUMENT
        return None if done is None else request.reply(wire.OK, body=self._pushed(body, done).encode())

    def _take_push(self, pending: Pending, body: wire.PushRequest, leader: str, node: Node) -> int | None:
        """Pass a push to the core; returns the code to answer at once, or None when the core answers later."""
        me, term = self._member.options.id, body.term
        if body.type == "COMMIT":
            index = min(self._agreed_index, node.log.last_index)
            own = node.log.term(index) if index >= -1 else None
            if own is not None:
                self._member.take(AppendEntries(leader, me, term, index, own, (), body.commitIndex), {})
            return wire.OK
        if body.type == "APPEND":
            if self._agreed_index < -1:
                return wire.INCONSISTENT_STATE
            if body.firstEntryIndex > min(self._agreed_index, node.log.last_index) + 1:  # more may be another leader's
                if len(self._early) >= _MOST_WAITING or body.firstEntryIndex in self._early:
                    return wire.REPEATED_PUSH
                self._early[body.firstEntryIndex] = pending
                return None
            self._append(pending, body, leader, node)
            while (following := self._early.pop(self._agreed_index + 1, None)) is not None:
                assert isinstance(following.body, wire.PushRequest)
                self._append(following, following.body, leader, node)
            return None
        if body.entry is None or body.type not in ("COMPARE", "TRUNCATE"):
            return wire.UNEXPECTED_ARGUMENT
        record = _record(body.entry)
        entry, index = body.entry, body.entry.index
        self._early.clear()
        if node.log.term(index) == entry.term and self._same(index, record):
            pending.last = index
            self._pushes.setdefault(leader, []).append(pending)
            self._agreed_index = index
            self._member.take(AppendEntries(leader, me, term, index, entry.term, (), body.commitIndex), {})
            return None
        if body.type == "COMPARE":
            return wire.INCONSISTENT_STATE
        pending.last = index
        self._pushes.setdefault(leader, []).append(pending)
        self._agreed_index = index
        records: Records = {(index, entry.term): record}
        if index == 0:
            first = Entry(0, entry.term, entry.pos, entry.size, membership_of(record))
            self._member.take(AppendEntries(leader, me, term, -1, -1, (first,), body.commitIndex), records)
        else:
            start = LogStart(self._member.membership, index + 1, entry.pos + entry.size, entry.term)
            self._member.take(ResetLog(leader, me, term, start), records)
        return None

    def _append(self, pending: Pending, body: wire.PushRequest, leader: str, node: Node) -> None:
        pushed = body.batchEntry if body.batch else [body.entry] if body.entry is not None else []
        previous = body.firstEntryIndex - 1
        previous_term = node.log.term(previous)
        if not pushed or previous_term is None:
            raise ProtocolError(f"no entry that follows {previous}")
        entries, records, index, term = [], {}, previous, previous_term
        for entry in pushed:
            record = _record(entry)
            header = header_at(memoryview(record), 0)
            if header is None or not follows(header, index, term, body.term):
                raise ProtocolError(f"entry {entry.index} does not follow {index}")
            entries.append(Entry(entry.index, entry.term, entry.pos, entry.size, membership_of(record)))
            records[entry.index, entry.term] = record
            index, term = entry.index, entry.term
        pending.last = index
        self._pushes.setdefault(leader, []).append(pending)
        message = AppendEntries(
            leader, self._member.options.id, body.term, previous, previous_term, tuple(entries), body.commitIndex
        )
        self._member.take(message, records)
        if node.log.term(index) == term:
            self._agreed_index = max(self._agreed_index, index)

    def _same(self, index: int, record: bytes) -> bool:
        """Whether the entry here is the same but for its checksum, which Apache's members do not compute."""
        own = self._member.record(Entry(index, 0, -1, 0))
        return own is not None and own[:36] == record[:36] and own[44:] == record[44:]

    def _pushed(self, asked: wire.PushRequest, code: int) -> wire.PushResponse:
        ledger = self._member.ledger
        commit = asked.type == "COMMIT"
        return wire.PushResponse(
            group=asked.group,
            term=asked.term,
            code=code,
            index=-1 if commit else asked.entry.index if asked.entry is not None else asked.firstEntryIndex,
            count=0 if commit else max(asked.count, 1),
            beginIndex=max(ledger.first_index, -1),
            endIndex=ledger.last_index,
        )

    def _transfer(self, _: Connection, request: Command) -> Command:
        """Transfer the leadership to another member, or take it."""
        body = wire.TransferRequest.decode(request.body)
        member, code = self._member, wire.OK
        node = member.node
        if body.group != member.options.group:
            code = wire.UNKNOWN_GROUP
        elif body.remoteId != member.options.id or node is None:
            code = wire.UNKNOWN_MEMBER
        elif body.term != node.hard_state.term:
            code = wire.INCONSISTENT_TERM
        elif body.transferId == member.options.id:
            code = self._hand_over(node, body.transfereeId or "")
        elif body.transfereeId == member.options.id and body.transferId == node.leader and node.leader in member.peers:
            if node.log.last_index < body.takeLeadershipLedgerIndex:
                code = wire.TAKE_LEADERSHIP_FAILED
            else:
                leader = body.transferId or ""
                member.take(TimeoutNow(leader, member.options.id, body.term, body.takeLeadershipLedgerIndex), {})
        else:
            code = wire.UNEXPECTED_ARGUMENT
        return request.reply(wire.OK, body=wire.HeartBeat(code=code, term=member.term).encode())

    def _hand_over(self, node: Node, transferee: str) -> int:
        if node.role is not Role.LEADER:
            return wire.NOT_LEADER
        try:
            self._member.transfer(transferee)
        except RaftError as error:
            log.warning("the leadership is not handed over: %s", error)
            return wire.UNKNOWN_MEMBER
        return wire.OK

    # -- the core's answers ---------------------------------------------------------------------------------------

    def answer(self, peer: str, message: Message) -> bool:
        """Answer the request that a message of the core replies to; False when it is not a reply."""
        node = self._member.node
        assert node is not None
        if isinstance(message, Vote):
            vote = self._votes.pop(peer, None)
            if vote is not None:
                assert isinstance(vote.body, wire.VoteRequest)
                vote.answer(self._voted(vote.body, node, granted=message.granted))
        elif isinstance(message, HeartbeatReply):
            beat = self._beats.pop(peer, None)
            if beat is not None:
                expired = message.term > beat.body.term
                beat.answer(wire.HeartBeat(code=wire.EXPIRED_TERM, term=message.term) if expired else wire.HeartBeat())
        elif isinstance(message, AppendReply):
            waiting = self._pushes.pop(peer, [])
            late = []
            for push in waiting:
                assert isinstance(push.body, wire.PushRequest)
                if not message.success:
                    push.answer(self._pushed(push.body, wire.INCONSISTENT_STATE))
                elif push.last <= message.match_index:
                    push.answer(self._pushed(push.body, wire.OK))
                else:
                    late.append(push)
            if late:
                self._pushes[peer] = late
        else:
            return False
        return True


def _record(entry: wire.PushedEntry) -> bytes:
    """The entry as it is stored; ProtocolError when its fields contradict each other."""
    if entry.magic != MAGIC or entry.size != ENTRY_HEADER.size + len(entry.body) or not entry.body or entry.index < 0:
        raise ProtocolError(f"entry {entry.index} of size {entry.size} has a body of {len(entry.body)} bytes")
    try:
        head = ENTRY_HEADER.pack(
            entry.magic, entry.size, entry.index, entry.term, entry.pos, entry.channel, 0, 0, len(entry.body)
        )
    except Exception as error:
        raise ProtocolError(f"entry {entry.index} does not fit: {error}") from None
    return head + entry.body
