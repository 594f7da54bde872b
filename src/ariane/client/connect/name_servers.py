"""Requests to name servers: to a random one at first, to the next one when it fails."""

import asyncio
import logging
from random import Random

from ariane.client.connect.wire import Wire
from ariane.errors import BrokerRefused, NameServersUnreachable, RemotingError
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import Header

log = logging.getLogger("ariane.client")

DISCOVERY_INTERVAL = 120.0  # seconds between two readings of an address list served over HTTP


class NameServers:
    """The list of name servers, and the one in use."""

    def __init__(self, addresses: tuple[str, ...], wire: Wire, random: Random) -> None:
        self._source = next((address for address in addresses if address.startswith(("http://", "https://"))), None)
        self.addresses = () if self._source else addresses
        self._wire = wire
        self._random = random
        self._index = random.randrange(1 << 16)

    @property
    def current(self) -> str:
        """The name server in use."""
        return self.addresses[self._index % len(self.addresses)]

    @property
    def is_discovered(self) -> bool:
        """Whether the list comes over HTTP and must be read periodically."""
        return self._source is not None

    async def discover(self) -> None:
        """Read the list of addresses over HTTP; keeps the old list on failure."""
        if self._source is None:
            return
        try:
            text = await asyncio.to_thread(_fetch, self._source, self._wire.timeout)
        except OSError as error:
            log.warning("cannot read name servers from %s: %s", self._source, error)
            return
        found = tuple(sorted({part.strip() for part in text.split(";") if part.strip()}))
        if found and found != self.addresses:
            log.info("name servers from %s: %s", self._source, found)
            self.addresses = found

    async def ask(
        self,
        code: RequestCode,
        header: Header | None = None,
        *,
        timeout: float | None = None,
        expect: tuple[int, ...] = (ResponseCode.SUCCESS,),
    ) -> Command:
        """Send a request to the name server in use; on failure to the others in turn."""
        if not self.addresses:
            await self.discover()
        failures: list[str] = []
        for _ in range(len(self.addresses)):
            try:
                return await self._wire.ask(self.current, code, header, timeout=timeout, expect=expect)
            except RemotingError as error:
                failures.append(str(error))
                self._index += 1
            except BrokerRefused as error:
                if error.code != ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                    raise
                failures.append(f"{error.address} is no name server, perhaps a broker")
                self._index += 1
        raise NameServersUnreachable(self._why(failures))

    def _why(self, failures: list[str]) -> str:
        if self._source is not None and not failures:
            return f"no name server is known: {self._source} gave no addresses"
        if not failures:
            return "no name server is known: give name_servers=... or set NAMESRV_ADDR"
        where = "check name_servers=... or NAMESRV_ADDR, and that a name server runs there; its usual port is 9876"
        return f"no name server answered: {'; '.join(failures)} ({where})"


def _fetch(source: str, timeout: float) -> str:
    import urllib.request  # a client without a list to read starts sooner without it

    with urllib.request.urlopen(source, timeout=timeout) as answer:
        return str(answer.read(1 << 16).decode())
