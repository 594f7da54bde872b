"""Options of every client: frozen, picklable, checked when they are made; each is a keyword of the constructors."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, Self, TypedDict

from ariane.client.python_filter import translate
from ariane.remoting import TlsClient

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class Sql:
    """A subscription by SQL92 over properties, e.g. `Sql("amount > 10 AND region = 'eu'")`."""

    expression: str
    kind: ClassVar[str] = "SQL92"


@dataclass(frozen=True)
class Expression:
    """A subscription by properties and JSON bodies, e.g. `Expression("region = 'eu' AND body.total > 10")`."""

    expression: str
    filter_server: bool = False
    """Pull through a filter server, which applies it, instead of letting the broker apply it."""
    kind: ClassVar[str] = "EXPRESSION"


@dataclass(frozen=True)
class PythonFilter:
    """The same in a small part of Python: `PythonFilter('properties["region"] == "eu" and body["total"] > 10')`.

    The source is translated into the expression language here; no broker runs Python.
    """

    source: str
    filter_server: bool = False
    kind: ClassVar[str] = "EXPRESSION"

    @property
    def expression(self) -> str:
        """The translation; ValueError when the source uses more than that part of Python."""
        return translate(self.source)


@dataclass(frozen=True)
class WasmFilter:
    """A filter in WebAssembly, which is uploaded to the brokers: `WasmFilter("swedish_orders.wasm")`.

    Brokers must allow it (`filterUploadEnable`, `filterGroups`); docs/filters.md says what a module exports.
    """

    path: str | Path
    filter_server: bool = False
    """Pull through a filter server, which runs it, instead of letting the broker run it."""
    module: bytes = field(default=b"", repr=False)
    """The bytes; read from `path` when not given, else `path` is only a name."""
    kind: ClassVar[str] = "WASM"

    def __post_init__(self) -> None:
        module = self.module or Path(self.path).read_bytes()
        if not module.startswith(b"\0asm"):
            raise ValueError(f"{self.path} is no WebAssembly module in binary form: compile it first")
        object.__setattr__(self, "module", module)

    @property
    def expression(self) -> str:
        """The module's SHA-256, which stands for it in subscriptions."""
        return sha256(self.module).hexdigest()


Selector = str | Sql | Expression | PythonFilter | WasmFilter
"""Which messages of a topic to consume: tags (`*`, `TagA || TagB`), or one of the filters."""


def chosen(expression: Selector, filter: Selector | None) -> Selector:
    """The selector of a subscription that may be given by either name.

    >>> chosen("*", Sql("region = 'eu'"))
    Sql(expression="region = 'eu'")
    """
    if filter is None:
        return expression
    if expression != "*":
        raise ValueError("give expression or filter, not both")
    return filter


def uses_filter_server(selector: Selector) -> bool:
    """Whether a filter server is to apply it."""
    return not isinstance(selector, (str, Sql)) and selector.filter_server


def text_and_kind(selector: Selector) -> tuple[str, str]:
    """The text of a subscription and its expression type."""
    return (selector, "TAG") if isinstance(selector, str) else (selector.expression, selector.kind)


def split_addresses(addresses: str | Sequence[str] | None) -> tuple[str, ...]:
    """Name servers as a tuple; the environment variable NAMESRV_ADDR when none are given.

    >>> split_addresses("a:9876; b:9876")
    ('a:9876', 'b:9876')
    """
    if addresses is None:
        addresses = os.environ.get("NAMESRV_ADDR", "")
    given = addresses.split(";") if isinstance(addresses, str) else addresses
    if any("," in address for address in given):
        raise ValueError(f"name_servers={addresses!r}: separate name servers by semicolons, not commas")
    return tuple(address.strip() for address in given if address.strip())


@dataclass(frozen=True, kw_only=True)
class ClientOptions:
    """Options of every client. Times are seconds."""

    name_servers: str | Sequence[str] | None = None
    """`"a:9876;b:9876"`, a list, or one `http://` address that returns such a text; by default NAMESRV_ADDR."""
    instance_name: str | None = None
    unit_name: str | None = None
    namespace: str = ""
    """The tenant of topics and groups: brokers know them as `namespace%name`, which admins and pull clients use."""
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    stamp_requests: bool = False
    """Sign the time and the shape of each request too, for brokers with `aclReplayWindowSeconds`."""
    tls: TlsClient | None = None
    binary_headers: bool = False
    """Use RocketMQ's binary headers instead of JSON."""
    api_timeout: float = 3.0
    connect_timeout: float = 3.0
    heartbeat_interval: float = 30.0
    route_interval: float = 30.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "name_servers", split_addresses(self.name_servers))
        if (self.access_key is None) != (self.secret_key is None):
            raise ValueError("access_key and secret_key go together: give both, or neither")
        for name in ("api_timeout", "connect_timeout", "heartbeat_interval", "route_interval"):
            require(self, name, getattr(self, name) > 0, "must be positive")

    @classmethod
    def of(cls, given: "ClientOptions | None", changes: Any) -> Self:
        """Options from an object, keywords, or both (keywords win)."""
        known = {} if given is None else {one.name: getattr(given, one.name) for one in fields(given)}
        mine = {one.name for one in fields(cls)}
        return cls(**{name: value for name, value in known.items() if name in mine} | dict(changes))

    @property
    def addresses(self) -> tuple[str, ...]:
        """The name servers."""
        return split_addresses(self.name_servers)


def require(options: object, name: str, holds: bool, rule: str) -> None:
    """Raise a ValueError that names the field."""
    if not holds:
        raise ValueError(f"{type(options).__name__}.{name} {rule}, not {getattr(options, name)!r}")


class ClientKeywords(TypedDict, total=False):
    """Keywords of every client; see `ClientOptions`."""

    name_servers: str | Sequence[str] | None
    instance_name: str | None
    unit_name: str | None
    namespace: str
    access_key: str | None
    secret_key: str | None
    security_token: str | None
    stamp_requests: bool
    tls: TlsClient | None
    binary_headers: bool
    api_timeout: float
    connect_timeout: float
    heartbeat_interval: float
    route_interval: float
