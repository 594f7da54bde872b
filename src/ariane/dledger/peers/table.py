"""The connections to the other members, which follow the configuration of the group."""

import asyncio
import re
from collections.abc import Callable, Iterable
from typing import Final

from ariane.dledger.peers.peer import Peer
from ariane.dledger.peers.wire import Metadata
from ariane.errors import ArianeError
from ariane.raft import Membership
from ariane.remoting import parse_address

ID: Final = re.compile(r"[A-Za-z][0-9]{1,9}")
_MOST_HEARD: Final = 32


class PeerTable(dict[str, Peer]):
    """Peers by id: the members, and others while they can be reached.

    A member that lags behind meets a leader that was added later, and a removed member must be told: both introduce
    themselves when they connect (`hear_of`).
    """

    def __init__(self, own_id: str, make: Callable[[str, str], Peer]) -> None:
        super().__init__()
        self._own_id = own_id
        self._make = make
        self._members: dict[str, str] = {}
        self._heard: dict[str, str] = {}
        self._started = False
        self._stopping: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Connect."""
        self._started = True
        for peer in self.values():
            peer.start()

    async def stop(self) -> None:
        """Close all connections."""
        self._started = False
        for peer in self.values():
            await peer.stop()
        await asyncio.gather(*self._stopping)

    def follow(self, memberships: Iterable[Membership]) -> None:
        """Connect with the members of these configurations. A member that left stays until it is out of reach."""
        members: dict[str, str] = {}
        for membership in memberships:
            members.update(membership.addresses)
        members.pop(self._own_id, None)
        for id, address in self._members.items():
            if id not in members:
                self._heard[id] = address
        self._members = members
        self._connect()

    def hear_of(self, told: Metadata) -> None:
        """A server has introduced itself."""
        id = told.localId or ""
        address = (told.peers or {}).get(id, "")
        if id == self._own_id or id in self._members or told.ariane is None or not ID.fullmatch(id):
            return
        if self._heard.get(id) != address and is_address(address) and len(self._heard) < _MOST_HEARD:
            self._heard[id] = address
            self._connect()

    def forget_unreachable(self) -> None:
        """Stop connecting with servers that are no members and do not answer."""
        gone = [id for id in self._heard if id in self._members or (id in self and self[id].unreachable)]
        for id in gone:
            del self._heard[id]
        if gone:
            self._connect()

    def _connect(self) -> None:
        wanted = {**self._heard, **self._members}
        for id, peer in list(self.items()):
            if wanted.get(id) != peer.address:
                del self[id]
                if self._started:
                    task = asyncio.get_running_loop().create_task(peer.stop())
                    self._stopping.add(task)
                    task.add_done_callback(self._stopping.discard)
        for id, address in wanted.items():
            if id not in self:
                self[id] = self._make(id, address)
                if self._started:
                    self[id].start()


def is_address(text: str) -> bool:
    """Whether a text is a host and a port."""
    try:
        host, port = parse_address(text)
    except ArianeError:
        return False
    return bool(host) and 0 < port < 65536
