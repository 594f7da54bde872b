"""The TLS settings of a process: its own options, overridden by RocketMQ's `tls.properties`."""

from collections.abc import Mapping
from pathlib import Path

from ariane.env import Files
from ariane.settings import ConfigError, parse_properties


def tls_properties(values: Mapping[str, object], files: Files) -> dict[str, object]:
    """The effective `tls.*` keys: those of the file named by `tls.config.file` override those of `values`."""
    properties = {key: value for key, value in values.items() if key.startswith("tls.")}
    path = Path(str(properties.get("tls.config.file") or ""))
    if path.name and files.exists(path):
        text = _read(path, files)
        properties.update({entry.key: entry.value for entry in parse_properties(text, str(path))})
    return properties


def _read(path: Path, files: Files) -> str:
    try:
        return files.read(path).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", key="tls.config.file", file=str(path)) from None
