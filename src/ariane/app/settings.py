"""Settings of an application: from keywords, the environment (`ARIANE_...`), a TOML or YAML file, then defaults.

The first source that has a value wins. An unknown key is an error that names it.
"""

import difflib
import logging
import os
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr, ValidationError
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from ariane.app.errors import SettingsError
from ariane.app.files import read_settings_file
from ariane.message import is_valid_name

log = logging.getLogger("ariane.app")

PREFIX: Final = "ARIANE_"
CONFIG_VARIABLE: Final = "ARIANE_CONFIG"
DEFAULT_NAME_SERVER: Final = "127.0.0.1:9876"
_OF_OTHERS: Final = ("ARIANE_CONFIG", "ARIANE_PURE", "ARIANE_OPT_LEVEL", "ARIANE_GUARANTEE_")  # build, guarantee

OnInvalid = Literal["retry", "dead_letter", "skip"]
StartAt = Literal["last", "first"] | datetime


def _split(value: object) -> object:
    return tuple(part.strip() for part in value.split(";") if part.strip()) if isinstance(value, str) else value


def _valid_name(name: str) -> str:
    if not is_valid_name(name):
        raise ValueError("a name has letters, digits and the characters - _ % | only")
    return name


def _as_range(value: object) -> object:
    return (value,) if isinstance(value, int) else value


Addresses = Annotated[tuple[str, ...], BeforeValidator(_split)]
Levels = Annotated[tuple[int, ...], BeforeValidator(_as_range)]
Positive = Annotated[float, Field(gt=0)]


class Section(BaseModel):
    """A group of settings: frozen, and without unknown keys."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class TlsSettings(Section):
    """How to speak TLS with servers."""

    enabled: bool = True
    trust_cert_path: str | None = None
    cert_path: str | None = None
    key_path: str | None = None
    key_password: SecretStr | None = None
    insecure: bool = False
    """Accept any certificate."""


class ClusterSettings(Section):
    """Where a cluster is, and how to be let in."""

    name_servers: Addresses | None = None
    """`"a:9876;b:9876"` or a list; else NAMESRV_ADDR, else 127.0.0.1:9876."""
    namespace: str = ""
    access_key: str | None = None
    secret_key: SecretStr | None = None
    security_token: SecretStr | None = None
    tls: TlsSettings | None = None
    instance_name: str | None = None
    unit_name: str | None = None


class ProducerSettings(Section):
    """The template's producer."""

    group: str | None = None
    """The application's name when not given."""
    send_timeout: Positive = 3.0
    retries: Annotated[int, Field(ge=0)] = 2
    async_retries: Annotated[int, Field(ge=0)] = 2
    retry_next_server: bool = False
    max_message_size: Annotated[int, Field(gt=0)] = 4 << 20
    compress_over: Annotated[int, Field(gt=0)] = 4096
    latency_faults: bool = False
    vip_channel: bool = False
    trace: bool = False
    trace_topic: str | None = None
    instance_name: str | None = None
    namespace: str | None = None
    access_key: str | None = None
    secret_key: SecretStr | None = None
    tls: TlsSettings | None = None


class ListenerSettings(Section):
    """Everything a listener can be told; the keywords of `@app.listener`."""

    topic: str | None = None
    """Listen to this topic instead of the one in the code."""
    group: str | None = None
    tags: str = "*"
    sql: str | None = None
    """A SQL92 expression over properties, instead of tags."""
    orderly: bool = False
    broadcast: bool = False
    """Every instance gets every message, instead of sharing them."""
    concurrency: Annotated[int, Field(ge=1, le=1000)] = 20
    batch: Annotated[int, Field(ge=1, le=1024)] = 1
    """With a parameter of type `list[...]`: at most so many messages a call."""
    max_retries: Annotated[int, Field(ge=-1)] = -1
    """-1: 16 for concurrent listeners, without end for orderly ones."""
    retry_delay: Levels = ()
    """Delay level of the next try; several: one for each try, the last one for all after it."""
    suspend: Positive = 1.0
    """Seconds that an orderly queue pauses after a failure."""
    start_at: StartAt = "last"
    """Where a group without an offset begins."""
    timeout: Positive = 900.0
    """Seconds after which a message that a listener still holds is delivered again."""
    reply: bool = False
    """Send what the function returns as reply to the request."""
    reply_timeout: Positive = 3.0
    on_invalid: OnInvalid = "retry"
    """What happens to a payload that is not of the declared type."""
    enabled: bool = True
    pull_batch: Annotated[int, Field(ge=1, le=1024)] = 32
    pull_interval: Annotated[float, Field(ge=0)] = 0.0
    trace: bool = False
    trace_topic: str | None = None
    cluster: str | None = None
    """A name of `clusters`; the main one when not given."""
    name_servers: Addresses | None = None
    namespace: str | None = None
    access_key: str | None = None
    secret_key: SecretStr | None = None
    tls: TlsSettings | None = None
    instance_name: str | None = None


class PullConsumerSettings(Section):
    """The consumer of `app.receive`."""

    group: str | None = None
    topic: str | None = None
    tags: str = "*"
    sql: str | None = None
    broadcast: bool = False
    start_at: StartAt = "last"
    pull_batch: Annotated[int, Field(ge=1, le=1024)] = 10
    trace: bool = False
    trace_topic: str | None = None
    instance_name: str | None = None
    namespace: str | None = None
    access_key: str | None = None
    secret_key: SecretStr | None = None
    tls: TlsSettings | None = None


class BindingSettings(Section):
    """Where a function's messages come from (`<function>-in-0`) or go to (`<function>-out-0`)."""

    destination: str
    """A topic, `topic:tag` for outputs, several topics with commas for inputs."""
    group: str | None = None
    cluster: str | None = None
    content_type: str | None = None
    poll_interval: Positive = 1.0
    """Seconds between two calls of a source that is a plain function."""
    hash_key: str | None = None
    """Outputs: name of the payload's field whose equal values stay in order."""
    consumer: ListenerSettings = ListenerSettings()


class HealthSettings(Section):
    """The HTTP endpoint with /health, /ready and /metrics of `ariane app run`."""

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    enabled: bool = True


class Settings(BaseSettings):
    """All settings of an application."""

    model_config = SettingsConfigDict(
        extra="forbid",
        frozen=True,
        env_prefix=PREFIX,
        env_nested_delimiter="__",
        nested_model_default_partial_update=True,
    )

    name: Annotated[str, AfterValidator(_valid_name)] = "ariane-app"
    """Letters, digits, `-`, `_`, `%` and `|`: it is the producer's group unless that is set."""
    name_servers: Addresses | None = None
    namespace: str = ""
    access_key: str | None = None
    secret_key: SecretStr | None = None
    security_token: SecretStr | None = None
    tls: TlsSettings | None = None
    instance_name: str | None = None
    unit_name: str | None = None
    producer: ProducerSettings = ProducerSettings()
    consumer: ListenerSettings = ListenerSettings()
    """Defaults of all listeners; keywords of a listener win over them."""
    pull_consumer: PullConsumerSettings = PullConsumerSettings()
    listeners: dict[str, ListenerSettings] = {}
    """By a listener's name; they win over its keywords."""
    disabled_listeners: tuple[tuple[str, str], ...] = ()
    """Pairs of group and topic that do not listen (Spring's `rocketmq.consumer.listeners`)."""
    bindings: dict[str, BindingSettings] = {}
    clusters: dict[str, ClusterSettings] = {}
    health: HealthSettings = HealthSettings()
    stop_timeout: Positive = 30.0
    """Seconds that handlers under way get when the application stops."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return init_settings, env_settings, InitSettingsSource(settings_cls, _FILE_VALUES.get())

    @property
    def cluster(self) -> ClusterSettings:
        """The main cluster."""
        return ClusterSettings.model_construct(**{name: getattr(self, name) for name in ClusterSettings.model_fields})

    def cluster_named(self, name: str | None) -> ClusterSettings:
        """A cluster by its name, the main one for None."""
        if name is None:
            return self.cluster
        try:
            return self.clusters[name]
        except KeyError:
            known = ", ".join(self.clusters) or "none"
            raise SettingsError(
                f"there is no cluster {name!r}: add clusters.{name}.name_servers to the settings (known: {known})"
            ) from None


_FILE_VALUES: ContextVar[dict[str, Any]] = ContextVar("values of the settings file", default={})  # noqa: B039


class SettingsKeywords(TypedDict, total=False):
    """Keywords of `Ariane`; see `Settings`."""

    name_servers: str | Sequence[str]
    namespace: str
    access_key: str
    secret_key: str
    security_token: str
    tls: TlsSettings | Mapping[str, Any]
    instance_name: str
    unit_name: str
    producer: ProducerSettings | Mapping[str, Any]
    consumer: ListenerSettings | Mapping[str, Any]
    pull_consumer: PullConsumerSettings | Mapping[str, Any]
    listeners: Mapping[str, ListenerSettings | Mapping[str, Any]]
    bindings: Mapping[str, BindingSettings | Mapping[str, Any]]
    clusters: Mapping[str, ClusterSettings | Mapping[str, Any]]
    health: HealthSettings | Mapping[str, Any]
    stop_timeout: float


def load_settings(config: str | Path | None = None, /, **values: Any) -> Settings:
    """Settings from all sources; the file is `config` or the one that ARIANE_CONFIG names."""
    _check_variables()
    named = config or os.environ.get(CONFIG_VARIABLE)
    token = _FILE_VALUES.set(read_settings_file(Path(named)) if named else {})
    try:
        return Settings(**values)
    except ValidationError as error:
        where = f" (in {named}, {PREFIX}... or keywords)" if named else ""
        raise SettingsError(f"settings: {explain(error, Settings)}{where}") from None
    finally:
        _FILE_VALUES.reset(token)


def _check_variables() -> None:
    """A misspelt variable is an error; one that looks like no setting may belong to somebody else, and is told."""
    for name in os.environ:
        if not name.upper().startswith(PREFIX) or name.startswith(_OF_OTHERS):
            continue
        first, nested, _ = name[len(PREFIX) :].lower().partition("__")
        if first in Settings.model_fields:
            continue
        if nested or difflib.get_close_matches(first, Settings.model_fields, 1):
            raise SettingsError(f"environment variable {name}: {_unknown(first, Settings)}")
        log.warning("environment variable %s is no setting of an application and is ignored", name)


def explain(error: ValidationError, top: type[BaseModel]) -> str:
    """One sentence for each wrong key."""
    sentences = []
    for each in error.errors(include_url=False, include_context=False):
        key = ".".join(str(part) for part in each["loc"])
        if each["type"] == "extra_forbidden":
            section = _section(top, each["loc"][:-1])
            sentences.append(f"{key}: {_unknown(str(each['loc'][-1]), section)}")
        else:
            sentences.append(f"{key}: {each['msg']}, not {each['input']!r}")
    return "; ".join(sentences)


def _section(top: type[BaseModel], path: tuple[int | str, ...]) -> type[BaseModel] | None:
    """The model at a path of keys."""
    model: Any = top
    for part in path:
        if isinstance(model, type) and issubclass(model, BaseModel):
            field = model.model_fields.get(str(part))
            model = _model_in(field.annotation) if field is not None else model
    return model if isinstance(model, type) and issubclass(model, BaseModel) else None


def _model_in(annotation: Any) -> Any:
    """The section inside `Section`, `Section | None` or `dict[str, Section]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for inner in getattr(annotation, "__args__", ()):
        if (found := _model_in(inner)) is not None:
            return found
    return None


def _unknown(key: str, section: type[BaseModel] | None) -> str:
    known = [] if section is None else list(section.model_fields)
    near = difflib.get_close_matches(key, known, 1)
    if near:
        return f"no such setting; did you mean {near[0]!r}?"
    return f"no such setting; there are {', '.join(known)}" if known else "no such setting"
