"""One rules file, as `plain_acl.yml` of RocketMQ: parses it with the position of each error, and changes it.

No text of an error or a warning quotes a secret key.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ariane.access.accounts import DENY, PERMISSIONS, SHORTEST, Account
from ariane.access.addresses import AddressPattern
from ariane.extras import extra
from ariane.message import retry_topic
from ariane.protocol.bodies.topics import DataVersion
from ariane.protocol.signing import SigningKey
from ariane.settings import ConfigError

with extra("broker", "access control"):
    import yaml

WHITE: Final = "globalWhiteRemoteAddresses"
LARGEST: Final = 16 << 20  # bytes of a file
_QUOTED: Final = re.compile(r"'[^']*'|\"[^\"]*\"")
_NUMBER: Final = re.compile(r"[1-9][0-9]*|0")


@dataclass(frozen=True)
class RulesFile:
    """The content of a rules file."""

    path: str
    accounts: tuple[Account, ...] = ()
    white: tuple[AddressPattern, ...] = ()
    version: DataVersion = field(default_factory=DataVersion)
    warnings: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The parsed YAML, including secret keys."""


def parse_rules(text: str, path: str) -> RulesFile:
    """Read the text of a rules file; ConfigError names file, line and field."""
    if len(text) > LARGEST:
        raise ConfigError(f"the file has more than {LARGEST} characters", file=path)
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        return RulesFile(path) if root is None else _Reader(path).read(root, yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise _yaml_error(error, path) from None
    except RecursionError:
        raise ConfigError("it is nested too deep", file=path) from None


def _yaml_error(error: yaml.YAMLError, path: str) -> ConfigError:
    """The position and kind of an error, without the text, which may be a secret."""
    mark = getattr(error, "problem_mark", None)
    problem = _QUOTED.sub("'...'", str(getattr(error, "problem", None) or "not readable as YAML"))
    return ConfigError(f"broken YAML: {problem}", file=path, line=0 if mark is None else mark.line + 1)


class _Reader:
    """Reads the nodes of one file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._warnings: list[str] = []

    def read(self, root: yaml.Node, data: Any) -> RulesFile:
        top = self._mapping(root, "")
        accounts: dict[str, Account] = {}
        for number, node in enumerate(self._sequence(top.get("accounts"), "accounts")):
            account = self._account(node, f"accounts[{number}]")
            if account.access_key in accounts:
                self._warn(node, f"accounts[{number}]", f"{account.access_key} stands twice: the first one counts")
            accounts.setdefault(account.access_key, account)
        white: list[AddressPattern] = []
        for number, node in enumerate(self._sequence(top.get(WHITE), WHITE)):
            white.append(self._pattern(node, f"{WHITE}[{number}]"))
        version = self._version(top.get("dataVersion"))
        return RulesFile(self._path, tuple(accounts.values()), tuple(white), version, tuple(self._warnings), data)

    def _account(self, node: yaml.Node, name: str) -> Account:
        fields = self._mapping(node, name)
        access_key = self._key(fields.get("accessKey"), node, f"{name}.accessKey")
        secret_key = self._key(fields.get("secretKey"), node, f"{name}.secretKey")
        white = fields.get("whiteRemoteAddress")
        rights: dict[str, int] = {}
        rights.update(self._rights(fields.get("groupPerms"), f"{name}.groupPerms", retry_topic))
        rights.update(self._rights(fields.get("topicPerms"), f"{name}.topicPerms", str))  # as in RocketMQ these win
        return Account(
            access_key,
            SigningKey(secret_key),
            self._boolean(fields.get("admin"), f"{name}.admin"),
            AddressPattern("") if white is None else self._pattern(white, f"{name}.whiteRemoteAddress"),
            self._permission(fields.get("defaultTopicPerm"), f"{name}.defaultTopicPerm"),
            self._permission(fields.get("defaultGroupPerm"), f"{name}.defaultGroupPerm"),
            rights,
            frozenset(self._groups(fields.get("filterGroups"), f"{name}.filterGroups")),
        )

    def _rights(self, node: yaml.Node | None, name: str, resource: Callable[[str], str]) -> Iterator[tuple[str, int]]:
        for number, entry in enumerate(self._sequence(node, name)):
            field_name = f"{name}[{number}]"
            parts = [part.strip() for part in self._text(entry, field_name).split("=")]
            if len(parts) != 2 or not all(parts):
                raise self._error(entry, field_name, "expected NAME=PERM, such as orders=PUB|SUB")
            yield resource(parts[0]), self._right(parts[1], entry, field_name)

    def _groups(self, node: yaml.Node | None, name: str) -> Iterator[str]:
        for number, entry in enumerate(self._sequence(node, name)):
            group = self._text(entry, f"{name}[{number}]").strip()
            if not group or "=" in group:
                raise self._error(entry, f"{name}[{number}]", "expected the name of a group alone")
            yield retry_topic(group)

    def _permission(self, node: yaml.Node | None, name: str) -> int:
        return DENY if node is None or _is_null(node) else self._right(self._text(node, name).strip(), node, name)

    def _right(self, text: str, node: yaml.Node, name: str) -> int:
        if text not in PERMISSIONS:
            self._warn(node, name, f"{text!r} is none of DENY, PUB, SUB, PUB|SUB and means DENY, as in RocketMQ")
        return PERMISSIONS.get(text, DENY)

    def _pattern(self, node: yaml.Node, name: str) -> AddressPattern:
        if _is_null(node):
            return AddressPattern("")
        try:
            return AddressPattern.parse(self._text(node, name))
        except ValueError as error:
            raise self._error(node, name, str(error)) from None

    def _key(self, node: yaml.Node | None, account: yaml.Node, name: str) -> str:
        """An access key or secret key. No error quotes it: it may be a secret."""
        if node is None or _is_null(node):
            raise self._error(account, name, "is missing")
        text = self._text(node, name)
        if node.tag.endswith(":int") and not _NUMBER.fullmatch(text):
            raise self._error(node, name, "YAML would change this number: put it into quotes")
        if node.tag.rpartition(":")[2] not in ("str", "int"):
            raise self._error(node, name, "expected a text: put it into quotes")
        if len(text) < SHORTEST:
            raise self._error(node, name, f"must have at least {SHORTEST} characters")
        if name.endswith("accessKey") and not text.isprintable():
            raise self._error(node, name, "must not have control characters")
        return text

    def _boolean(self, node: yaml.Node | None, name: str) -> bool:
        if node is None or _is_null(node):
            return False
        text = self._text(node, name).lower()
        if node.tag.endswith(":bool"):
            return text in ("true", "yes", "on")
        if text not in ("true", "false"):
            raise self._error(node, name, "expected true or false")
        return text == "true"

    def _version(self, node: yaml.Node | None) -> DataVersion:
        for entry in self._sequence(node, "dataVersion"):
            fields = self._mapping(entry, "dataVersion[0]")
            numbers = [self._number(fields.get(name), f"dataVersion[0].{name}") for name in ("timestamp", "counter")]
            return DataVersion(*numbers)
        return DataVersion()

    def _number(self, node: yaml.Node | None, name: str) -> int:
        if node is None or _is_null(node):
            return 0
        text = self._text(node, name)
        if not _NUMBER.fullmatch(text) or len(text) > 18:
            raise self._error(node, name, "expected a whole number")
        return int(text)

    def _mapping(self, node: yaml.Node, name: str) -> dict[str, yaml.Node]:
        if not isinstance(node, yaml.MappingNode):
            raise self._error(node, name, "expected fields such as `accessKey: ...`")
        fields: dict[str, yaml.Node] = {}
        for key, value in node.value:
            field_name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if key.tag.endswith(":merge"):  # what it brings in may be a DENY
                raise self._error(key, f"{name}.<<".lstrip("."), "merged fields are not read: write them out")
            if field_name in fields:
                raise self._error(key, f"{name}.{field_name}".lstrip("."), "is given twice")
            fields[field_name] = value
        return fields

    def _sequence(self, node: yaml.Node | None, name: str) -> Sequence[yaml.Node]:
        if node is None or _is_null(node):
            return ()
        if not isinstance(node, yaml.SequenceNode):
            raise self._error(node, name, "expected a list, one `- ...` a line")
        found: list[yaml.Node] = node.value
        return found

    def _text(self, node: yaml.Node, name: str) -> str:
        if not isinstance(node, yaml.ScalarNode):
            raise self._error(node, name, "expected a text")
        text: str = node.value
        return text

    def _error(self, node: yaml.Node, name: str, reason: str) -> ConfigError:
        return ConfigError(reason, key=name, file=self._path, line=node.start_mark.line + 1)

    def _warn(self, node: yaml.Node, name: str, reason: str) -> None:
        self._warnings.append(str(self._error(node, name, reason)))


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag.endswith(":null")


# Changes: each returns the file's data after it, which `format_rules` writes.


def with_account(data: Mapping[str, Any], fields: Mapping[str, Any]) -> dict[str, Any]:
    """The data with an account changed or added; fields that are not given stay."""
    accounts = [dict(account) for account in data.get("accounts") or ()]
    for account in accounts:
        if str(account.get("accessKey")) == fields["accessKey"]:
            account.update(fields)
            break
    else:
        accounts.append(dict(fields))
    return {**data, "accounts": accounts}


def without_account(data: Mapping[str, Any], access_key: str) -> dict[str, Any]:
    """The data without an account."""
    left = [account for account in data.get("accounts") or () if str(account.get("accessKey")) != access_key]
    return {**data, "accounts": left}


def with_white_addresses(data: Mapping[str, Any], addresses: Iterable[str]) -> dict[str, Any]:
    """The data with another global white list."""
    return {**data, WHITE: list(addresses)}


def format_rules(data: Mapping[str, Any], version: DataVersion, now_ms: int) -> str:
    """The text of a file with the next data version. Comments are lost, as when Apache's broker writes it."""
    next_version = {"counter": version.counter + 1, "timestamp": now_ms}
    text: str = yaml.safe_dump(
        {**data, "dataVersion": [next_version]}, sort_keys=False, allow_unicode=True, default_flow_style=False
    )
    return text


def read_rules(read: Callable[[Path], bytes], path: Path) -> RulesFile:
    """Read a rules file from the disk; ConfigError when it is not one."""
    try:
        return parse_rules(read(path).decode("utf-8-sig"), str(path))
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", file=str(path)) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8", file=str(path)) from None
