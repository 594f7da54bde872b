"""`console.toml` in the console's folder: where notices go, who may log in by OpenID Connect, schemas of bodies.

It is read at the start, and only there: the web pages change none of it, because it names hosts, files and secrets.
"""

import tomllib
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from ariane.console.rights import Role
from ariane.errors import ConfigError

T = TypeVar("T")
FILE: Final = "console.toml"
SECURITY: Final = ("none", "starttls", "tls")
FORMS: Final = ("json", "dingtalk", "feishu")


@dataclass(frozen=True)
class MailOptions:
    """The server that sends mail."""

    server: str
    sender: str
    to: tuple[str, ...]
    port: int = 587
    security: str = "starttls"
    user: str = ""
    password_file: str = ""


@dataclass(frozen=True)
class WebhookOptions:
    """An address that gets each notice as a POST. Its path may be a secret, and no page shows it."""

    url: str = field(repr=False)
    form: str = "json"


@dataclass(frozen=True)
class OidcOptions:
    """An OpenID Connect provider."""

    issuer: str
    client_id: str
    client_secret_file: str = ""
    url: str = ""
    """Where browsers find the console, when that is not where it listens."""
    scopes: tuple[str, ...] = ("openid", "profile", "email")
    name_claim: str = "preferred_username"
    role_claim: str = "groups"
    viewers: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    admins: tuple[str, ...] = ()

    def role_of(self, values: list[str]) -> Role | None:
        """The highest role that the values of the role claim give; None for nobody we know."""
        for role, wanted in ((Role.ADMIN, self.admins), (Role.OPERATOR, self.operators), (Role.VIEWER, self.viewers)):
            if any(value in wanted for value in values):
                return role
        return None


@dataclass(frozen=True)
class SchemaOptions:
    """How the bodies of a topic are encoded."""

    avro: str = ""
    """A schema file (.avsc)."""
    protobuf: str = ""
    """A file of descriptors, as `protoc --include_imports --descriptor_set_out` writes it."""
    message: str = ""
    """The message type in it."""
    skip: int = 0
    """Bytes before the encoded value; 5 for those of a schema registry."""


@dataclass(frozen=True)
class ConfigFile:
    """The whole file."""

    mail: MailOptions | None = None
    webhook: WebhookOptions | None = None
    oidc: OidcOptions | None = None
    schemas: dict[str, SchemaOptions] = field(default_factory=dict)
    folder: Path = Path()
    """Where relative paths begin."""

    def secret(self, name: str) -> str:
        """The content of a file that holds a secret."""
        try:
            return (self.folder / name).read_text("utf-8").strip()
        except OSError as error:
            raise ConfigError(f"{FILE}: {name}: {error.strerror}") from None


def read_config(folder: Path) -> ConfigFile:
    """Read the file of a folder; an empty one when there is none. ConfigError for what it does not know."""
    path = folder / FILE
    try:
        data = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return ConfigFile(folder=folder)
    except (OSError, ValueError) as error:
        raise ConfigError(f"{path}: {error}") from None
    unknown = data.keys() - {"mail", "webhook", "oidc", "schemas"}
    if unknown:
        raise ConfigError(f"{path}: unknown section {sorted(unknown)[0]}")
    mail = _section(path, data, "mail", MailOptions)
    webhook = _section(path, data, "webhook", WebhookOptions)
    oidc = _section(path, data, "oidc", OidcOptions)
    if mail is not None and mail.security not in SECURITY:
        raise ConfigError(f"{path}: mail.security is one of {', '.join(SECURITY)}")
    if webhook is not None and (urlsplit(webhook.url).scheme not in ("http", "https") or webhook.form not in FORMS):
        raise ConfigError(f"{path}: webhook.url is an address of http or https, form one of {', '.join(FORMS)}")
    if oidc is not None and not (oidc.viewers or oidc.operators or oidc.admins):
        raise ConfigError(f"{path}: oidc gives nobody a role: set viewers, operators or admins")
    schemas = {
        topic: _options(path, f"schemas.{topic}", table, SchemaOptions)
        for topic, table in _table(path, "schemas", data.get("schemas", {})).items()
    }
    for topic, one in schemas.items():
        if bool(one.avro) == bool(one.protobuf) or bool(one.protobuf) != bool(one.message):
            raise ConfigError(f"{path}: schemas.{topic} needs avro, or protobuf with message")
    return ConfigFile(mail, webhook, oidc, schemas, folder)


def _section(path: Path, data: dict[str, Any], name: str, kind: type[T]) -> T | None:
    return None if name not in data else _options(path, name, data[name], kind)


def _table(path: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {name} is a table")
    return value


def _options(path: Path, name: str, value: Any, kind: type[T]) -> T:
    table = _table(path, name, value)
    known = {one.name: one for one in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for key, found in table.items():
        if key not in known:
            raise ConfigError(f"{path}: unknown option {name}.{key}")
        if isinstance(found, list) and all(isinstance(one, str) for one in found):
            found = tuple(found)
        wanted: Any = tuple if str(known[key].type).startswith("tuple") else int if known[key].type is int else str
        if not isinstance(found, wanted) or isinstance(found, bool):
            raise ConfigError(f"{path}: {name}.{key} has a value of the wrong kind")
        values[key] = found
    for key, one in known.items():
        if one.default is MISSING and key not in values:
            raise ConfigError(f"{path}: {name}.{key} is missing")
    return kind(**values)
