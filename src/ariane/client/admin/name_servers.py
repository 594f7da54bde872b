"""Name servers: their KV configuration, their options, and which brokers may be written to."""

from ariane.client.admin.requests import AdminRequests
from ariane.errors import BrokerRefused
from ariane.protocol.bodies import KVTable
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import (
    AddWritePermOfBrokerRequest,
    AddWritePermOfBrokerResponse,
    DeleteKVConfigRequest,
    GetKVConfigRequest,
    GetKVConfigResponse,
    GetKVListByNamespaceRequest,
    PutKVConfigRequest,
    WipeWritePermOfBrokerRequest,
    WipeWritePermOfBrokerResponse,
)
from ariane.settings import format_properties, parse_properties


class NameServerAdmin(AdminRequests):
    """Administers name servers. Each keeps its own data, so changes are sent to all of them."""

    async def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a value of the KV configuration."""
        await self._on_name_servers(RequestCode.PUT_KV_CONFIG, PutKVConfigRequest(namespace, key, value))

    async def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a value of the KV configuration."""
        await self._on_name_servers(RequestCode.DELETE_KV_CONFIG, DeleteKVConfigRequest(namespace, key))

    async def kv(self, namespace: str, key: str) -> str | None:
        """A value of the KV configuration; None when there is none."""
        header = GetKVConfigRequest(namespace, key)
        codes = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        response = await self._running().routes.names.ask(RequestCode.GET_KV_CONFIG, header, expect=codes)
        if response.code != ResponseCode.SUCCESS:
            return None
        return GetKVConfigResponse.parse(response.fields).value

    async def kv_namespace(self, namespace: str) -> dict[str, str]:
        """All values of a namespace of the KV configuration."""
        header = GetKVListByNamespaceRequest(namespace)
        codes = (ResponseCode.SUCCESS, ResponseCode.QUERY_NOT_FOUND)
        response = await self._running().routes.names.ask(RequestCode.GET_KVLIST_BY_NAMESPACE, header, expect=codes)
        return KVTable.decode(response.body).table if response.code == ResponseCode.SUCCESS else {}

    async def name_server_configs(self) -> dict[str, dict[str, str]]:
        """The options of each name server, by address."""
        found: dict[str, dict[str, str]] = {}
        for address in await self.name_servers():
            response = await self._running().wire.ask(address, RequestCode.GET_NAMESRV_CONFIG)
            found[address] = {entry.key: entry.value for entry in parse_properties(response.body.decode())}
        return found

    async def update_name_servers(self, changes: dict[str, str]) -> None:
        """Change options of all name servers."""
        body = format_properties(changes).encode()
        for address in await self.name_servers():
            await self._running().wire.ask(address, RequestCode.UPDATE_NAMESRV_CONFIG, None, body)

    async def wipe_write_perm(self, broker_name: str) -> dict[str, int]:
        """Take a broker's topics out of the routes for writing, to drain it; topics changed, by name server."""
        header = WipeWritePermOfBrokerRequest(broker_name)
        counts: dict[str, int] = {}
        for address in await self.name_servers():
            response = await self._running().wire.ask(address, RequestCode.WIPE_WRITE_PERM_OF_BROKER, header)
            counts[address] = WipeWritePermOfBrokerResponse.parse(response.fields).wipe_topic_count
        return counts

    async def add_write_perm(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_perm`; topics changed, by name server."""
        header = AddWritePermOfBrokerRequest(broker_name)
        counts: dict[str, int] = {}
        for address in await self.name_servers():
            response = await self._running().wire.ask(address, RequestCode.ADD_WRITE_PERM_OF_BROKER, header)
            counts[address] = AddWritePermOfBrokerResponse.parse(response.fields).add_topic_count
        return counts

    async def _on_name_servers(self, code: RequestCode, header: PutKVConfigRequest | DeleteKVConfigRequest) -> None:
        refused: BrokerRefused | None = None
        for address in await self.name_servers():
            try:
                await self._running().wire.ask(address, code, header)
            except BrokerRefused as error:
                refused = error  # still update the others
        if refused is not None:
            raise refused
