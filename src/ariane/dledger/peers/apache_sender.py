"""Sends messages of the core to Apache's members as their requests, and passes the answers to the core.

| core | Apache's request |
|---|---|
| RequestVote, Vote | VOTE and its answer |
| Heartbeat, HeartbeatReply | HEART_BEAT and its answer |
| AppendEntries, AppendReply | PUSH and its answer: APPEND with entries, COMPARE while logs may differ, else COMMIT |
| ResetLog | PUSH TRUNCATE with the entry before the start |
| TimeoutNow | LEADERSHIP_TRANSFER |
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Final

from ariane.dledger.peers import wire
from ariane.dledger.peers.apache_requests import Core
from ariane.dledger.peers.peer import Peer
from ariane.dledger.storage.entry import ENTRY_HEADER, MAGIC, header_at
from ariane.errors import ArianeError
from ariane.raft import (
    AppendEntries,
    AppendReply,
    Entry,
    Heartbeat,
    HeartbeatReply,
    Message,
    RequestVote,
    ResetLog,
    Role,
    TimeoutNow,
    Vote,
)

log = logging.getLogger("ariane.dledger")

_TIMEOUT: Final = 3.0  # seconds for an answer, as Apache's members wait
_AGAIN: Final = 0.05  # seconds before a member that raises its term is asked again
_VOTE_TRIES: Final = 20


class ApacheSender:
    """Sends to Apache's members. `answer` takes the messages that reply to a request of theirs."""

    def __init__(self, member: Core, answer: Callable[[str, Message], bool]) -> None:
        self._member = member
        self._answer = answer
        self._on_the_way: dict[str, int] = {}  # APPENDs without an answer, by member
        self._tasks: set[asyncio.Task[None]] = set()

    def send(self, peer: Peer, message: Message) -> None:
        """Send a message of the core to an Apache member, or answer its request with it."""
        if self._answer(peer.id, message) or not peer.ready:
            return
        if isinstance(message, RequestVote):
            self._run(self._request_vote(peer, message))
        elif isinstance(message, Heartbeat):
            self._run(self._beat(peer, message))
        elif isinstance(message, AppendEntries):
            self._run(self._append_entries(peer, message))
        elif isinstance(message, ResetLog):
            self._run(self._truncate(peer, message.term, message.start.index - 1))
        elif isinstance(message, TimeoutNow):
            self._run(self._timeout_now(peer, message))

    def _run(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[object, object, None]) -> None:
        try:
            await work
        except ArianeError as error:  # lost: the core resends if necessary
            log.debug("an Apache member did not answer: %s", error)

    async def _request_vote(self, peer: Peer, message: RequestVote) -> None:
        member, term = self._member, message.term
        body = wire.VoteRequest(
            **self._base(peer, term), ledgerEndIndex=message.last_log_index, ledgerEndTerm=message.last_log_term
        )
        for _ in range(_VOTE_TRIES):
            answer = wire.VoteResponse.decode(await peer.request(wire.VOTE, body.encode(), _TIMEOUT))
            node = member.node
            if node is None or node.hard_state.term != term or node.role is not Role.CANDIDATE:
                return
            if answer.voteResult != "REJECT_TERM_NOT_READY":
                break
            await asyncio.sleep(_AGAIN)
        granted = answer.voteResult == "ACCEPT"
        member.take(Vote(peer.id, member.options.id, term if granted else max(term, answer.term), granted), {})

    async def _beat(self, peer: Peer, message: Heartbeat) -> None:
        member, body = self._member, wire.HeartBeat(**self._base(peer, message.term))
        answer = wire.HeartBeat.decode(await peer.request(wire.HEART_BEAT, body.encode(), _TIMEOUT))
        if answer.code == wire.OK:
            member.take(HeartbeatReply(peer.id, member.options.id, message.term, message.sent), {})
            if message.leader_commit >= 0:  # not in their heartbeats, and a COMMIT may have arrived too early
                await self._commit(peer, message.term, message.leader_commit)
        elif answer.code == wire.EXPIRED_TERM and answer.term > message.term:
            member.take(HeartbeatReply(peer.id, member.options.id, answer.term, 0), {})

    async def _append_entries(self, peer: Peer, message: AppendEntries) -> None:
        node = self._member.node
        progress = node.progress(peer.id) if node is not None else None
        if progress is None:
            return
        flow, match_index = progress
        previous = message.prev_log_index
        if message.entries:
            await self._push_entries(peer, message)
        elif flow == "replicate" and previous <= match_index:
            await self._commit(peer, message.term, message.leader_commit)
        elif flow == "replicate" and self._on_the_way.get(peer.id):
            pass  # a COMPARE would make the member drop the entries in flight
        elif previous < 0:
            await self._truncate(peer, message.term, 0)
        else:
            await self._compare(peer, message, previous)

    async def _push_entries(self, peer: Peer, message: AppendEntries) -> None:
        pushed = [self._entry(entry) for entry in message.entries]
        entries = [entry for entry in pushed if entry is not None]
        if len(entries) < len(pushed):
            return
        first, last = entries[0].index, entries[-1].index
        body = wire.PushRequest(
            **self._base(peer, message.term),
            type="APPEND",
            commitIndex=message.leader_commit,
            batch=len(entries) > 1,
            batchEntry=entries if len(entries) > 1 else [],
            entry=entries[0] if len(entries) == 1 else None,
            count=len(entries),
            firstEntryIndex=first,
            lastEntryIndex=last,
            totalSize=sum(entry.size for entry in entries) if len(entries) > 1 else 0,
        )
        self._on_the_way[peer.id] = self._on_the_way.get(peer.id, 0) + 1
        try:
            answer = wire.PushResponse.decode(await peer.request(wire.PUSH, body.encode(), _TIMEOUT))
        finally:
            self._on_the_way[peer.id] -= 1
        if answer.code == wire.OK:
            self._reply(peer, message.term, last)
        elif answer.code == wire.INCONSISTENT_STATE:
            self._refused(peer, message.term, first - 1, min(answer.endIndex, first - 2))

    async def _commit(self, peer: Peer, term: int, index: int) -> None:
        body = wire.PushRequest(**self._base(peer, term), type="COMMIT", commitIndex=index)
        await peer.request(wire.PUSH, body.encode(), _TIMEOUT)

    async def _compare(self, peer: Peer, message: AppendEntries, index: int) -> None:
        entry = self._entry(Entry(index, 0, -1, 0))
        if entry is None:
            return
        body = self._one(peer, message.term, "COMPARE", entry, message.leader_commit)
        answer = wire.PushResponse.decode(await peer.request(wire.PUSH, body.encode(), _TIMEOUT))
        if answer.code == wire.OK:
            if answer.endIndex > index:
                await self._truncate(peer, message.term, index)
            else:
                self._reply(peer, message.term, index)
        elif answer.code == wire.INCONSISTENT_STATE:
            if answer.beginIndex > index:
                await self._truncate(peer, message.term, self._member.ledger.first_index)
            else:
                self._refused(peer, message.term, index, min(answer.endIndex, index - 1))

    async def _truncate(self, peer: Peer, term: int, index: int) -> None:
        """Make the member's log end with the entry `index`, like this one's."""
        entry = self._entry(Entry(index, 0, -1, 0))
        if entry is None:
            return
        node = self._member.node
        body = self._one(peer, term, "TRUNCATE", entry, node.log.commit_index if node is not None else -1)
        answer = wire.PushResponse.decode(await peer.request(wire.PUSH, body.encode(), _TIMEOUT))
        if answer.code == wire.OK:
            self._reply(peer, term, index)

    async def _timeout_now(self, peer: Peer, message: TimeoutNow) -> None:
        body = wire.TransferRequest(
            **self._base(peer, message.term),
            takeLeadershipLedgerIndex=message.last_log_index,
            transferId=self._member.options.id,
            transfereeId=peer.id,
        )
        await peer.request(wire.LEADERSHIP_TRANSFER, body.encode(), _TIMEOUT)

    def _base(self, peer: Peer, term: int) -> dict[str, Any]:
        options = self._member.options
        return {
            "group": options.group,
            "localId": options.id,
            "remoteId": peer.id,
            "leaderId": options.id,
            "term": term,
        }

    def _one(self, peer: Peer, term: int, type_: str, entry: wire.PushedEntry, commit: int) -> wire.PushRequest:
        return wire.PushRequest(
            **self._base(peer, term),
            type=type_,
            entry=entry,
            commitIndex=commit,
            count=1,
            firstEntryIndex=entry.index,
            lastEntryIndex=entry.index,
        )

    def _reply(self, peer: Peer, term: int, match_index: int) -> None:
        self._member.take(AppendReply(peer.id, self._member.options.id, term, True, match_index), {})

    def _refused(self, peer: Peer, term: int, index: int, hint: int) -> None:
        node = self._member.node
        if node is None:
            return
        known = node.log.term(hint)
        hint_term = term if known is None else known  # the answer lacks its term; the next COMPARE finds out
        self._member.take(AppendReply(peer.id, self._member.options.id, term, False, index, hint, hint_term), {})

    def _entry(self, entry: Entry) -> wire.PushedEntry | None:
        record = self._member.record(entry)
        header = None if record is None else header_at(memoryview(record), 0)
        if record is None or header is None:
            return None
        return wire.PushedEntry(
            body=record[ENTRY_HEADER.size :],
            channel=header.channel,
            index=header.index,
            magic=MAGIC,
            pos=header.position,
            size=header.size,
            term=header.term,
        )
