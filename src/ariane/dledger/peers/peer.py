"""Connections to the other members, and their kind: Ariane's or Apache's."""

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Final

from ariane.dledger.peers.wire import METADATA, Metadata
from ariane.env import Clock
from ariane.errors import ArianeError, ResponseError
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.remoting import Client, Connection, parse_address
from ariane.remoting import Peer as RemotePeer

log = logging.getLogger("ariane.dledger")

RECONNECT: Final = 0.2  # seconds
ASK_TIMEOUT: Final = 3.0
_ACCEPTED: Final = "dledger.accepted"  # attribute of a connection


class PeerKind(Enum):
    """The implementation that a member runs."""

    UNKNOWN = "unknown"
    ARIANE = "ariane"
    APACHE = "apache"


class Peer:
    """Another member. Keeps a connection to it, and asks for its kind after each connect."""

    def __init__(
        self,
        id: str,
        address: str,
        client: Client,
        clock: Clock,
        metadata: Callable[[str], Metadata],
        identified: Callable[["Peer", Metadata], None],
    ) -> None:
        self.id = id
        self.address = address
        self.kind = PeerKind.UNKNOWN
        self.connection: Connection | None = None
        self._client = client
        self._clock = clock
        self._metadata = metadata
        self._identified = identified
        self._closed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._silent = False

    def start(self) -> None:
        """Connect, and again whenever the connection is lost."""
        self._task = asyncio.get_running_loop().create_task(self._keep_connected(), name=f"dledger peer {self.id}")

    async def stop(self) -> None:
        """Stop connecting."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def closed(self, connection: Connection) -> None:
        """A connection of the client was closed."""
        if connection is self.connection:
            self.connection = None
            self._closed.set()

    @property
    def ready(self) -> bool:
        """Whether something sent now is likely to arrive."""
        return self.connection is not None and self.connection.is_open

    @property
    def unreachable(self) -> bool:
        """Whether the last attempt to connect has failed."""
        return self._silent and not self.ready

    def oneway(self, code: int, body: bytes) -> None:
        """Send a request without an answer; it is lost when there is no connection."""
        if self.connection is not None and self.connection.is_open:
            self.connection.oneway(Command(code, None, body))

    async def request(self, code: int, body: bytes, timeout: float) -> bytes:
        """Send a request and return the body of its answer; ArianeError when there is none."""
        answer = await self._client.request(self.address, Command(code, None, body), timeout)
        return answer.body

    async def _keep_connected(self) -> None:
        while True:
            try:
                self._closed.clear()
                self.connection = await self._client.connection(self.address)
                if self._silent:
                    log.info("connected with %s at %s", self.id, self.address)
                self._silent = False
                await self._identify()
                if self.ready:
                    await self._closed.wait()
            except ArianeError as error:
                if not self._silent:
                    log.warning("cannot reach %s: %s", self.id, error)
                self._silent = True
            await self._clock.sleep(RECONNECT)

    async def _identify(self) -> None:
        """Ask for the member's kind until it answers: a suspended process accepts connections too."""
        while self.ready and not await self.identify():
            await self._clock.sleep(RECONNECT)

    async def identify(self) -> bool:
        """Ask once for the member's kind and status; False when it does not answer."""
        try:
            answer = Metadata.decode(await self.request(METADATA, self._metadata(self.id).encode(), ASK_TIMEOUT))
        except ArianeError:
            return False
        self.tell(PeerKind.ARIANE if answer.ariane is not None else PeerKind.APACHE)
        self._identified(self, answer)
        return True

    def tell(self, kind: PeerKind) -> None:
        """Record the member's kind."""
        if self.kind is not kind:
            log.info("%s at %s runs %s", self.id, self.address, "Ariane" if kind is PeerKind.ARIANE else "Apache's")
            self.kind = kind


class HostGate:
    """Refuses requests of hosts that are not members: any accepted host could write to the log."""

    def __init__(self, accepts: Callable[[str], bool]) -> None:
        self._accepts = accepts

    def check(self, peer: RemotePeer, request: Command) -> None:
        """Raise ResponseError for any other host."""
        if _ACCEPTED not in peer.attributes:
            host = parse_address(peer.peer)[0]
            if not self._accepts(host):
                raise ResponseError(ResponseCode.NO_PERMISSION, f"{host} is not among haAllowedPeers of this member")
            peer.attributes[_ACCEPTED] = True
