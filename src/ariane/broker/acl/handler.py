"""Administration of the rules: codes 50 to 54, as `mqadmin` of 4.9.7 sends them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ariane.access.accounts import PERMISSIONS, SHORTEST
from ariane.access.addresses import AddressPattern
from ariane.access.rules import LiveRules
from ariane.access.rules_file import with_account, with_white_addresses, without_account
from ariane.broker.config.live import LiveOptions
from ariane.errors import ResponseError
from ariane.protocol.bodies import DataVersion
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.fastjson import dumps
from ariane.protocol.headers import (
    CreateAccessConfigRequest,
    DeleteAccessConfigRequest,
    GetBrokerAclConfigResponse,
    UpdateGlobalWhiteAddrsConfigRequest,
)
from ariane.remoting import Connection
from ariane.settings import ConfigError

log = logging.getLogger("ariane.access")

OFF: Final = "access control is off on this broker: aclEnable is false"
MASKED: Final = "******"
_UPDATE: Final = ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED
_DELETE: Final = ResponseCode.DELETE_ACL_CONFIG_FAILED
_WHITE: Final = ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED


class AclHandler:
    """Changes and shows the rules. The gate admits only administrators; secret keys are never shown."""

    def __init__(self, rules: LiveRules | None, options: LiveOptions, address: Callable[[], str]) -> None:
        self._rules = rules
        self._options = options
        self._address = address

    async def update(self, connection: Connection, request: Command) -> Command:
        """UPDATE_AND_CREATE_ACL_CONFIG: merge into an account, or add one to the default file."""
        header = CreateAccessConfigRequest.parse(request.fields)
        rules = self._on(_UPDATE)
        known = rules.current.file_of(header.access_key)
        fields: dict[str, Any] = {"accessKey": header.access_key}
        try:
            if len(header.access_key) < SHORTEST:
                raise ConfigError(f"The accessKey cannot be null and length should longer than {SHORTEST - 1}")
            if header.secret_key:
                if len(header.secret_key) < SHORTEST:
                    raise ConfigError(f"The secretKey value length should longer than {SHORTEST - 1}")
                fields["secretKey"] = header.secret_key
            elif known is None:
                raise ConfigError("a new account needs a secretKey")
            if header.white_remote_address is not None:
                AddressPattern.parse(header.white_remote_address)
                fields["whiteRemoteAddress"] = header.white_remote_address
            fields["admin"] = header.admin
            for name, value in (
                ("defaultTopicPerm", header.default_topic_perm),
                ("defaultGroupPerm", header.default_group_perm),
            ):
                if value:
                    fields[name] = _checked_permission(value.strip(), value)
            for name, value in (("topicPerms", header.topic_perms), ("groupPerms", header.group_perms)):
                if value is not None:
                    fields[name] = [_checked_entry(entry) for entry in _split(value)]
            path = rules.default if known is None else Path(known.path)
            await rules.change(path, lambda data: with_account(data, fields))
        except (ConfigError, ValueError, OSError) as error:
            raise ResponseError(_UPDATE, _reason(error)) from None
        log.warning("account %r changed by %s", header.access_key, connection.peer)
        return request.reply()

    async def delete(self, connection: Connection, request: Command) -> Command:
        """DELETE_ACL_CONFIG: remove an account from every file, or the one in a later file would take its place."""
        access_key = DeleteAccessConfigRequest.parse(request.fields).access_key
        rules = self._on(_DELETE)
        known = [file for file in rules.current.files if any(a.access_key == access_key for a in file.accounts)]
        if not known:
            remark = f"The accesskey[{access_key}] corresponding to accessConfig has been deleted failed."
            raise ResponseError(_DELETE, f"{remark} No file has it.")
        try:
            for file in reversed(known):  # the one that counts goes last: no other ever takes its place
                await rules.change(Path(file.path), lambda data: without_account(data, access_key))
        except (ConfigError, OSError) as error:
            raise ResponseError(_DELETE, _reason(error)) from None
        log.warning("account %r deleted by %s", access_key, connection.peer)
        return request.reply()

    async def update_white_addresses(self, connection: Connection, request: Command) -> Command:
        """UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: replace the list of a file; each pattern is checked."""
        header = UpdateGlobalWhiteAddrsConfigRequest.parse(request.fields)
        rules = self._on(_WHITE)
        named = (header.acl_file_full_path or "").strip()
        path = rules.holds(named) if named else rules.default
        if path is None:
            raise ResponseError(_WHITE, f"{named} is none of the rules files in force below {rules.home}")
        addresses = _split(header.global_white_addrs)
        try:
            for address in addresses:
                AddressPattern.parse(address)
            await rules.change(path, lambda data: with_white_addresses(data, addresses))
        except (ConfigError, ValueError, OSError) as error:
            raise ResponseError(_WHITE, _reason(error)) from None
        log.warning("global white list of %s changed by %s: %s", path, connection.peer, addresses)
        return request.reply()

    def versions(self, _: Connection, request: Command) -> Command:
        """GET_BROKER_CLUSTER_ACL_INFO: the data version of each file."""
        rules = self._on(ResponseCode.SYSTEM_ERROR)
        versions = {file.path: file.version for file in rules.current.files}
        options = self._options.current
        header = GetBrokerAclConfigResponse(
            version=versions.get(str(rules.default), DataVersion()).encode().decode(),
            broker_name=options.broker_name,
            broker_addr=self._address(),
            cluster_name=options.broker_cluster_name,
            all_acl_file_version=dumps(
                {path: {"counter": v.counter, "timestamp": v.timestamp} for path, v in versions.items()}
            ).decode(),
        )
        return request.reply(0, header.fields())

    def config(self, _: Connection, request: Command) -> Command:
        """GET_BROKER_CLUSTER_ACL_CONFIG: all accounts, their secret keys masked."""
        rules = self._on(ResponseCode.SYSTEM_ERROR).current
        white: list[str] = [pattern.text for pattern in rules.white]
        accounts: dict[str, dict[str, Any]] = {}
        for file in rules.files:
            for account in file.data.get("accounts") or ():
                accounts.setdefault(str(account.get("accessKey")), _shown(account))
        return request.reply(0, body=dumps({"globalWhiteAddrs": white, "plainAccessConfigs": list(accounts.values())}))

    def _on(self, code: int) -> LiveRules:
        if self._rules is None:
            raise ResponseError(code, OFF)
        return self._rules


_SHOWN = ("whiteRemoteAddress", "defaultTopicPerm", "defaultGroupPerm", "topicPerms", "groupPerms", "filterGroups")


def _shown(account: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "accessKey": str(account.get("accessKey")),
        "secretKey": MASKED,
        "admin": str(account.get("admin", False)).lower() in ("true", "yes", "on"),
        **{name: account[name] for name in _SHOWN if account.get(name) is not None},
    }


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _checked_entry(entry: str) -> str:
    name, equals, permission = (part.strip() for part in entry.partition("="))
    if not equals or not name or "=" in permission:
        raise ConfigError(
            f"Parse Resource format error for {entry}.\n"
            "The expected resource format is 'Res=Perm'. For example: topicA=SUB"
        )
    _checked_permission(permission, entry)
    return f"{name}={permission}"


def _checked_permission(permission: str, shown: str) -> str:
    if permission not in PERMISSIONS:
        raise ConfigError(
            f"Parse resource permission error for {shown}.\n"
            "The expected permissions are 'SUB' or 'PUB' or 'SUB|PUB' or 'PUB|SUB'."
        )
    return permission


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"the rules file cannot be written: {error.strerror or error}"
    return str(error)
