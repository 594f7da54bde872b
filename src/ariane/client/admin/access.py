"""Access control: the accounts of brokers, the addresses that need none, and versions of the rules."""

from dataclasses import dataclass

import msgspec

from ariane.client.admin.requests import AdminRequests
from ariane.protocol.bodies import Body, DataVersion
from ariane.protocol.codes import RequestCode
from ariane.protocol.headers import (
    CreateAccessConfigRequest,
    DeleteAccessConfigRequest,
    GetBrokerAclConfigResponse,
    UpdateGlobalWhiteAddrsConfigRequest,
)


class AccessAccount(Body):
    """An account of `plain_acl.yml`: its keys, and what it may do."""

    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: list[str] = msgspec.field(default_factory=list)
    """`topic=PUB`, `topic=SUB`, `topic=PUB|SUB` or `topic=DENY`."""
    group_perms: list[str] = msgspec.field(default_factory=list)


class AccessRules(Body):
    """The rules of a broker."""

    global_white_addrs: list[str] = msgspec.field(default_factory=list)
    plain_access_configs: list[AccessAccount] = msgspec.field(default_factory=list)


@dataclass(frozen=True)
class AccessVersion:
    """The version of a broker's rules, by file."""

    cluster: str
    broker_name: str
    address: str
    files: dict[str, DataVersion]


class AccessAdmin(AdminRequests):
    """Administers access control."""

    async def access_rules(self, address: str) -> AccessRules:
        """The accounts of a broker and the addresses that need none."""
        response = await self._running().wire.ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_CONFIG)
        return AccessRules.decode(response.body)

    async def access_version(self, address: str) -> AccessVersion:
        """The versions of a broker's rules."""
        response = await self._running().wire.ask(address, RequestCode.GET_BROKER_CLUSTER_ACL_INFO)
        header = GetBrokerAclConfigResponse.parse(response.fields)
        if header.all_acl_file_version:
            files = msgspec.json.decode(header.all_acl_file_version, type=dict[str, DataVersion], strict=False)
        else:  # brokers before 4.9.3 have one file
            files = {"": msgspec.json.decode(header.version, type=DataVersion, strict=False)}
        return AccessVersion(header.cluster_name, header.broker_name, header.broker_addr, files)

    async def update_account(self, address: str, account: AccessAccount, *, clear: bool = False) -> None:
        """Create an account on a broker, or change it. What is empty stays as it is; with `clear` it becomes empty.

        Apache's brokers never empty anything: delete the account and create it again.
        """
        empty = "" if clear else None
        header = CreateAccessConfigRequest(
            account.access_key,
            account.secret_key,
            account.white_remote_address or empty,
            account.admin,
            account.default_topic_perm,
            account.default_group_perm,
            ",".join(account.topic_perms) or empty,
            ",".join(account.group_perms) or empty,
        )
        await self._running().wire.ask(address, RequestCode.UPDATE_AND_CREATE_ACL_CONFIG, header)

    async def delete_account(self, address: str, access_key: str) -> None:
        """Delete an account of a broker."""
        header = DeleteAccessConfigRequest(access_key)
        await self._running().wire.ask(address, RequestCode.DELETE_ACL_CONFIG, header)

    async def set_white_addresses(self, address: str, addresses: str, *, file: str | None = None) -> None:
        """Set the addresses, separated by commas, that a broker asks for no keys."""
        header = UpdateGlobalWhiteAddrsConfigRequest(addresses, file)
        await self._running().wire.ask(address, RequestCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG, header)
