"""The KV configuration: namespaces of keys and values that operators set, kept on disk."""

from pathlib import Path
from typing import Final

import msgspec

from ariane.env import Files
from ariane.errors import ConfigError, ProtocolError
from ariane.protocol.bodies import Body

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"


class KvFile(Body):
    """The file `kvConfig.json`."""

    config_table: dict[str, dict[str, str]] = msgspec.field(default_factory=dict)


class KvConfig:
    """Values by namespace and key. A change is on disk before it is seen."""

    def __init__(self, files: Files, path: Path) -> None:
        self._files = files
        self._path = path
        self._table: dict[str, dict[str, str]] = {}
        self.revision = 0

    def load(self) -> None:
        """Read the file, if there is one; ConfigError when it is not what we or Apache's name server write."""
        if not self._files.exists(self._path):
            return
        try:
            self._table = KvFile.decode(self._files.read(self._path)).config_table
        except (OSError, ProtocolError) as error:
            raise ConfigError(f"{self._path} (kvConfigPath) cannot be read: {error}") from None

    def get(self, namespace: str, key: str) -> str | None:
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        return self._table.get(namespace)

    def put(self, namespace: str, key: str, value: str) -> None:
        self._store({**self._table, namespace: {**self._table.get(namespace, {}), key: value}})

    def delete(self, namespace: str, key: str) -> None:
        if key in self._table.get(namespace, {}):
            left = {name: value for name, value in self._table[namespace].items() if name != key}
            self._store({**self._table, namespace: left})

    def _store(self, table: dict[str, dict[str, str]]) -> None:
        try:
            self._files.make_folder(self._path.parent)
            self._files.replace(self._path, KvFile(table).encode(), secret=True)
        except OSError as error:
            raise ConfigError(f"{self._path} (kvConfigPath) cannot be written: {error}") from None
        self._table = table
        self.revision += 1
