"""Reads the status of the members of a running group, and transfers the leadership. For operators."""

import asyncio
from dataclasses import dataclass
from typing import Final

from ariane.dledger.wire import LEADERSHIP_TRANSFER, METADATA, OK, HeartBeat, Metadata, TransferRequest
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
        first = await self._metadata(self._address)
        peers = first.peers or {}
        return list(
            await asyncio.gather(*(self._member(first.group, id, address) for id, address in sorted(peers.items())))
        )

    async def transfer(self, member: str) -> None:
        """Ask the leader to transfer the leadership to `member`; ClientError without a leader, or when it refuses."""
        first = await self._metadata(self._address)
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
            "leader" if own.serving else own.role,
            own.term,
            own.endIndex,
            own.committedIndex,
            found.leaderId or "",
            own.broker,
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
