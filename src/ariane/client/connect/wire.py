"""Requests to name servers and brokers, with error responses translated."""

from ariane.client.connect.refusals import refusal
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import BINARY, JSON, Command
from ariane.protocol.headers import Header
from ariane.remoting import Client

SUCCESS = ResponseCode.SUCCESS


class Wire:
    """Sends requests by address. A response with another code than expected is raised as BrokerRefused."""

    def __init__(self, remoting: Client, timeout: float, binary: bool) -> None:
        self.remoting = remoting
        self._serialization = BINARY if binary else JSON
        self.is_binary = binary
        self.timeout = timeout

    def command(self, code: int, header: Header | dict[str, str] | None, body: bytes = b"") -> Command:
        """A request in this client's serialisation."""
        fields = header.fields() if isinstance(header, Header) else header
        return Command(code, fields, body, serialization=self._serialization)

    async def ask(
        self,
        address: str,
        code: int,
        header: Header | dict[str, str] | None = None,
        body: bytes = b"",
        *,
        timeout: float | None = None,
        expect: tuple[int, ...] = (SUCCESS,),
    ) -> Command:
        """Send a request and wait for the response; RemotingError when the request or its response is lost."""
        request = self.command(code, header, body)
        return await self.carry(address, request, self.timeout if timeout is None else timeout, expect)

    async def carry(
        self, address: str, request: Command, timeout: float, expect: tuple[int, ...] = (SUCCESS,)
    ) -> Command:
        """Like `ask`, for a request that is already built."""
        response = await self.remoting.request(address, request, timeout)
        if response.code not in expect:
            raise refusal(address, request.code, response)
        return response

    async def tell(
        self, address: str, code: int, header: Header | dict[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Send without waiting for a response."""
        await self.remoting.oneway(address, self.command(code, header, body))
