"""Settings files: TOML and YAML with our keys, and Spring's `application.yml` or `application.properties`."""

import os
import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import yaml

from ariane.app.errors import SettingsError
from ariane.settings import parse_properties

_PLACEHOLDER = re.compile(r"\$\{([^:}]+)(?::([^}]*))?\}")


def read_settings_file(path: Path) -> dict[str, Any]:
    """The settings in a file, by our names."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"settings file {path} cannot be read: {error.strerror}") from None
    match path.suffix.lower():
        case ".toml":
            content = _parse(path, tomllib.loads, text)
        case ".yml" | ".yaml":
            content = _parse(path, yaml.safe_load, text) or {}
        case ".properties":
            content = {entry.key: entry.value for entry in parse_properties(text, str(path))}
        case other:
            raise SettingsError(f"settings file {path}: {other or 'no'} suffix; use .toml, .yaml, .yml or .properties")
    if not isinstance(content, dict):
        raise SettingsError(f"settings file {path}: expected keys and values at the top, got {type(content).__name__}")
    flat = {str(key): value for key, value in content.items()}
    if any(key.split(".")[0] in ("rocketmq", "spring") for key in flat):
        return _from_spring(_nested(flat), str(path))
    return dict(flat["ariane"]) if set(flat) == {"ariane"} else flat


def _parse(path: Path, parser: Callable[[str], Any], text: str) -> Any:
    try:
        return parser(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise SettingsError(f"settings file {path}: {error}") from None


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`{"rocketmq.name-server": x}` as `{"rocketmq": {"name-server": x}}`, at every level."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        if isinstance(value, dict):
            value = _nested({str(name): inner for name, inner in value.items()})
        *folders, last = key.split(".")
        at = tree
        for folder in folders:
            at = at.setdefault(folder, {})
        if isinstance(value, dict) and isinstance(at.get(last), dict):
            at[last].update(value)
        else:
            at[last] = value
    return tree


# -- Spring's names ----------------------------------------------------------------------------------------------------


def _seconds(value: Any) -> float:
    return float(value) / 1000


def _flag(value: Any) -> bool:
    return str(value).lower() == "true"


def _tls(value: Any) -> dict[str, Any] | None:
    return {"enabled": True} if _flag(value) else None


def _broadcast(value: Any) -> bool:
    return str(value).upper() == "BROADCASTING"


Rename = dict[str, tuple[str, Callable[[Any], Any]]]

_ACCESS: Rename = {
    "accesskey": ("access_key", str),
    "secretkey": ("secret_key", str),
    "namespace": ("namespace", str),
    "instancename": ("instance_name", str),
    "tlsenable": ("tls", _tls),
    "enablemsgtrace": ("trace", _flag),
    "customizedtracetopic": ("trace_topic", str),
}
_PRODUCER: Rename = _ACCESS | {
    "group": ("group", str),
    "sendmessagetimeout": ("send_timeout", _seconds),
    "compressmessagebodythreshold": ("compress_over", int),
    "retrytimeswhensendfailed": ("retries", int),
    "retrytimeswhensendasyncfailed": ("async_retries", int),
    "retrynextserver": ("retry_next_server", _flag),
    "maxmessagesize": ("max_message_size", int),
}
_PULL_CONSUMER: Rename = _ACCESS | {
    "group": ("group", str),
    "topic": ("topic", str),
    "messagemodel": ("broadcast", _broadcast),
    "pullbatchsize": ("pull_batch", int),
}
_CONSUMER: Rename = _ACCESS
_BINDER: Rename = {
    "nameserver": ("name_servers", str),
    "accesskey": ("access_key", str),
    "secretkey": ("secret_key", str),
    "namespace": ("namespace", str),
    "unitname": ("unit_name", str),
    "usetls": ("tls", _tls),
}
_BINDING_CONSUMER: Rename = {
    "messagemodel": ("broadcast", _broadcast),
    "pullbatchsize": ("pull_batch", int),
    "orderly": ("orderly", _flag),
    "suspendcurrentqueuetimemillis": ("suspend", _seconds),
    "maxreconsumetimes": ("max_retries", int),
    "delaylevelwhennextconsume": ("retry_delay", int),
    "pullinterval": ("pull_interval", _seconds),
}


class _Reader:
    """Translates Spring's keys, fills placeholders in, and names what it does not know."""

    def __init__(self, tree: Mapping[str, Any], file: str) -> None:
        self._tree = tree
        self._file = file

    def section(self, prefix: str, values: Any, names: Rename) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in (values or {}).items():
            rename = names.get(_relaxed(key))
            if rename is None:
                known = ", ".join(sorted(names))
                raise SettingsError(
                    f"{self._file}: {prefix}.{key} is no property that is known here (known, without dashes: {known})"
                )
            name, convert = rename
            text = self.fill(value)
            try:
                found[name] = convert(text)
            except ValueError:
                raise SettingsError(f"{self._file}: {prefix}.{key} cannot be {text!r}") from None
        return found

    def fill(self, value: Any) -> Any:
        """A value with `${NAME:default}` replaced, from the environment or from the file itself."""
        if not isinstance(value, str):
            return value

        def look_up(match: re.Match[str]) -> str:
            name, default = match.group(1), match.group(2)
            found = os.environ.get(name, os.environ.get(re.sub(r"[.-]", "_", name).upper(), self._own(name)))
            if found is None and default is None:
                raise SettingsError(
                    f"{self._file}: ${{{name}}} has no value: set the variable {name}, or write ${{{name}:default}}"
                )
            return str(found if found is not None else default)

        return _PLACEHOLDER.sub(look_up, value)

    def _own(self, name: str) -> Any:
        at: Any = self._tree
        for part in name.split("."):
            at = at.get(part) if isinstance(at, dict) else None
        return at if isinstance(at, str | int | float | bool) else None


def _relaxed(key: Any) -> str:
    """Spring's relaxed binding: `name-server`, `nameServer` and `name_server` are one."""
    return re.sub(r"[-_]", "", str(key)).lower()


def _pick(values: dict[str, Any], name: str) -> Any:
    """Take a key out, however it is written."""
    for key in list(values):
        if _relaxed(key) == name:
            return values.pop(key)
    return None


def _selector(reader: _Reader, prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    """Selector type and expression as `tags` or `sql`."""
    kind, expression = reader.fill(_pick(values, "selectortype")), reader.fill(_pick(values, "selectorexpression"))
    if kind is not None and str(kind).upper() not in ("TAG", "SQL92"):
        raise SettingsError(f"{prefix}.selector-type is TAG or SQL92, not {kind!r}")
    if expression is None:
        return {}
    return {"sql" if str(kind).upper() == "SQL92" else "tags": expression}


def _from_spring(tree: dict[str, Any], file: str) -> dict[str, Any]:
    """Our settings from `rocketmq.*`, `spring.application.name`, `spring.cloud.stream.*` and a section `ariane`."""
    reader = _Reader(tree, file)
    found: dict[str, Any] = {}
    spring = tree.get("spring") or {}
    if name := (spring.get("application") or {}).get("name"):
        found["name"] = reader.fill(name)
    _read_stream(reader, ((spring.get("cloud") or {}).get("stream")) or {}, found)
    rocketmq = dict(tree.get("rocketmq") or {})
    if (servers := _pick(rocketmq, "nameserver")) is not None:
        found["name_servers"] = reader.fill(servers)
    if (channel := _pick(rocketmq, "accesschannel")) is not None and str(reader.fill(channel)).upper() != "LOCAL":
        raise SettingsError(f"{file}: rocketmq.access-channel: only LOCAL is possible here, remove it")
    found["producer"] = reader.section("rocketmq.producer", _pick(rocketmq, "producer"), _PRODUCER)
    pull = dict(_pick(rocketmq, "pullconsumer") or {})
    found["pull_consumer"] = _selector(reader, "rocketmq.pull-consumer", pull)
    found["pull_consumer"] |= reader.section("rocketmq.pull-consumer", pull, _PULL_CONSUMER)
    consumer = dict(_pick(rocketmq, "consumer") or {})
    found["disabled_listeners"] = _switched_off(reader, _pick(consumer, "listeners") or {})
    found["consumer"] = reader.section("rocketmq.consumer", consumer, _CONSUMER)
    for key in rocketmq:
        raise SettingsError(
            f"{file}: rocketmq.{key} is no property that is known here "
            "(known: name-server, access-channel, producer, consumer, pull-consumer)"
        )
    return found | dict(tree.get("ariane") or {})


def _switched_off(reader: _Reader, listeners: Mapping[str, Any]) -> list[tuple[str, str]]:
    off = []
    for group, topics in listeners.items():
        for topic, wanted in (topics or {}).items():
            if not _flag(reader.fill(wanted)):
                off.append((str(group), str(topic)))
    return off


def _read_stream(reader: _Reader, stream: Mapping[str, Any], found: dict[str, Any]) -> None:
    """Spring Cloud Stream: the binder's cluster and the bindings."""
    rocketmq = stream.get("rocketmq") or {}
    binder = reader.section("spring.cloud.stream.rocketmq.binder", rocketmq.get("binder"), _BINDER)
    found.update(binder)
    special = rocketmq.get("bindings") or {}
    bindings: dict[str, Any] = {}
    for name, values in (stream.get("bindings") or {}).items():
        prefix = f"spring.cloud.stream.bindings.{name}"
        binding = reader.section(
            prefix,
            {key: value for key, value in values.items() if _relaxed(key) not in ("consumer", "producer")},
            {
                "destination": ("destination", str),
                "group": ("group", str),
                "contenttype": ("content_type", str),
                "binder": ("cluster", str),
            },
        )
        general = reader.section(
            f"{prefix}.consumer",
            values.get("consumer"),
            {"concurrency": ("concurrency", int), "maxattempts": ("max_retries", int)},
        )
        binding["consumer"] = general | _binding_consumer(reader, str(name), special.get(name) or {})
        bindings[str(name)] = binding
    if bindings:
        found["bindings"] = bindings


def _binding_consumer(reader: _Reader, name: str, special: Mapping[str, Any]) -> dict[str, Any]:
    """`spring.cloud.stream.rocketmq.bindings.<name>.consumer`, with its inner `push`."""
    consumer = dict(special.get("consumer") or {})
    consumer |= dict(consumer.pop("push", None) or {})
    prefix = f"spring.cloud.stream.rocketmq.bindings.{name}.consumer"
    subscription = reader.fill(_pick(consumer, "subscription"))
    chosen: dict[str, Any] = {}
    if subscription:
        is_sql = str(subscription).startswith("sql:")
        chosen = {"sql": subscription[4:]} if is_sql else {"tags": subscription}
    return chosen | reader.section(prefix, consumer, _BINDING_CONSUMER)
