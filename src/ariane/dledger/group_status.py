"""Reads the status of the members of a running group, transfers the leadership, changes the members. For operators."""

import asyncio
from dataclasses import dataclass
from typing import Final

from ariane.dledger.peers.wire import (
    CHANGE_MEMBERS,
    LEADERSHIP_TRANSFER,
    METADATA,
    OK,
    ArianeStatus,
    HeartBeat,
    MembersRequest,
    MembersResponse,
    Metadata,
    TransferRequest,
)
from ariane.env import Clock
from ariane.errors import ArianeError, ClientError
from ariane.protocol.command import Command
from ariane.remoting import Client

TIMEOUT: Final = 3.0


@dataclass(frozen=True, slots=True)
class MemberStatus:
    """One member; fields that Apache's members do not report are None."""

    id: str
    address: str
    reachable: bool
    kind: str = ""
    role: str = ""
    term: int | None = None
    end_index: int | None = None
    committed_index: int | None = None
    leader: str = ""
    broker: str = ""
    problem: str = ""
    repaired: int = 0


class GroupClient:
    """Asks the members of the group that the member at `address` belongs to."""

    def __init__(self, address: str, clock: Clock) -> None:
        self._address = address
        self._client = Client(clock=clock, connect_timeout=TIMEOUT)

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    async def status(self) -> list[MemberStatus]:
        """All members, by id; ConnectFailed when the given one cannot be reached."""
        first = await self._current()
        peers = first.peers or {}
        return list(
            await asyncio.gather(*(self._member(first.group, id, address) for id, address in sorted(peers.items())))
        )

    async def add(self, member: str, address: str, *, force: bool = False) -> None:
        """Ask the leader to add a member; it votes when it has caught up. ClientError when that is refused."""
        await self._change(MembersRequest(action="add", member=member, address=address, force=force))

    async def remove(self, member: str, *, force: bool = False) -> None:
        """Ask the leader to remove a member; ClientError when that is refused."""
        await self._change(MembersRequest(action="remove", member=member, force=force))

    async def votes(self, member: str) -> bool | None:
        """Whether a member votes, by the last committed configuration; None when it is no member."""
        current = await self._current()
        if current.ariane is None or not current.ariane.membersCommitted:
            return False
        return None if member not in (current.peers or {}) else member not in current.ariane.learners

    async def _change(self, change: MembersRequest) -> None:
        first = await self._current()
        peers = first.peers or {}
        if first.leaderId is None or first.leaderId not in peers:
            raise ClientError("the group has no leader now: ask again when it has elected one")
        change.group = first.group
        response = await self._client.request(
            peers[first.leaderId], Command(CHANGE_MEMBERS, None, change.encode()), TIMEOUT
        )
        if not response.body:
            raise ClientError(f"{first.leaderId}, which leads, runs Apache's broker, whose members are fixed")
        answer = MembersResponse.decode(response.body)
        if answer.code != OK:
            raise ClientError(f"{first.leaderId} refused the change: {answer.remark}")

    async def _current(self) -> Metadata:
        """What the given member knows, or what its leader knows if that has a newer configuration."""
        first = await self._metadata(self._address)
        leader = (first.peers or {}).get(first.leaderId or "")
        if leader is None or first.ariane is None:
            return first
        try:
            found = await self._metadata(leader, Metadata(group=first.group, remoteId=first.leaderId))
        except ArianeError:
            return first
        newer = found.ariane is not None and found.ariane.membersIndex >= first.ariane.membersIndex
        return found if newer and found.leaderId is not None else first

    async def transfer(self, member: str) -> None:
        """Ask the leader to transfer the leadership to `member`; ClientError without a leader, or when it refuses."""
        first = await self._current()
        peers = first.peers or {}
        if member not in peers:
            raise ClientError(f"{member} is no member of the group: it has {', '.join(sorted(peers))}")
        if first.leaderId is None or first.leaderId not in peers:
            raise ClientError("the group has no leader now: ask again when it has elected one")
        leader = await self._metadata(peers[first.leaderId])
        body = TransferRequest(
            group=first.group,
            remoteId=first.leaderId,
            leaderId=first.leaderId,
            term=leader.term,
            transferId=first.leaderId,
            transfereeId=member,
        )
        command = Command(LEADERSHIP_TRANSFER, None, body.encode())
        answer = HeartBeat.decode((await self._client.request(peers[first.leaderId], command, TIMEOUT)).body)
        if answer.code != OK:
            raise ClientError(f"{first.leaderId} did not hand the leadership over: code {answer.code}; see its log")

    async def _member(self, group: str | None, id: str, address: str) -> MemberStatus:
        try:
            found = await self._metadata(address, Metadata(group=group, remoteId=id))
        except ArianeError:
            return MemberStatus(id, address, reachable=False)
        own = found.ariane
        if own is None:
            role = "leader" if found.leaderId == id else "member"
            return MemberStatus(id, address, True, "Apache", role, leader=found.leaderId or "")
        return MemberStatus(
            id,
            address,
            True,
            "Ariane",
            _role(id, own),
            own.term,
            own.endIndex,
            own.committedIndex,
            found.leaderId or "",
            own.broker,
            own.outside or (f"{own.damaged} damaged entries" if own.damaged else ""),
            own.repaired,
        )

    async def _metadata(self, address: str, asked: Metadata | None = None) -> Metadata:
        """Query a member; an Apache member answers only requests with its group and id."""
        command = Command(METADATA, None, (asked or Metadata()).encode())
        response = await self._client.request(address, command, TIMEOUT)
        if not response.body:  # a broker or a name server, which do not know the request
            raise ClientError(f"{address} is not the port of a DLedger member: give an address of dLegerPeers")
        answer = Metadata.decode(response.body)
        if answer.code != OK or not answer.peers:
            raise ClientError(f"{address} is no member of a DLedger group (code {answer.code})")
        return answer


def _role(id: str, own: ArianeStatus) -> str:
    if own.serving:
        return "leader"
    if own.outside:
        return "outside"
    return "learner" if id in own.learners else own.role
