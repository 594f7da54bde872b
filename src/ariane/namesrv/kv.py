"""The KV configuration: namespaces of keys and values that operators set, kept on disk."""

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from ariane.env import Files
from ariane.errors import ConfigError, ProtocolError
from ariane.protocol.bodies import Body
from ariane.protocol.codes import ResponseCode
from ariane.remoting.limits import LimitExceeded, Reason

ORDER_TOPIC_CONFIG: Final = "ORDER_TOPIC_CONFIG"
LONGEST_NAME: Final = 255  # characters of a namespace or key
LONGEST_VALUE: Final = 1 << 16

Table = dict[str, dict[str, str]]


class KvFile(Body):
    """The file `kvConfig.json`."""

    config_table: Table = msgspec.field(default_factory=dict)


@dataclass(slots=True)
class _Change:
    namespace: str
    key: str
    value: str | None
    """None deletes the key."""
    done: asyncio.Future[None]


class KvConfig:
    """Values by namespace and key. A change is visible after it is durable.

    Changes are written by a thread, one write at a time; those that arrive during a write are written together next.
    """

    def __init__(self, files: Files, path: Path, max_bytes: int) -> None:
        self._files = files
        self._path = path
        self._max_bytes = max_bytes
        self._table: Table = {}
        self._size = 0
        self._waiting: list[_Change] = []
        self._writer: asyncio.Task[None] | None = None
        self.revision = 0
        """Grows with every write."""

    def load(self) -> None:
        """Read the file, if it exists; ConfigError when it is malformed."""
        if not self._files.exists(self._path):
            return
        try:
            self._table = KvFile.decode(self._files.read(self._path)).config_table
        except (OSError, ProtocolError) as error:
            raise ConfigError(f"{self._path} (kvConfigPath) cannot be read: {error}") from None
        self._size = _size_of(self._table)

    @property
    def size(self) -> int:
        """Characters of all names and values."""
        return self._size

    def get(self, namespace: str, key: str) -> str | None:
        """The value of a key."""
        return self._table.get(namespace, {}).get(key)

    def namespace(self, namespace: str) -> dict[str, str] | None:
        """All values of a namespace."""
        return self._table.get(namespace)

    async def put(self, namespace: str, key: str, value: str) -> None:
        """Set a value; returns when it is durable. ResponseError when it is too large, ConfigError when not written."""
        for what, text, most in (
            ("namespace", namespace, LONGEST_NAME),
            ("key", key, LONGEST_NAME),
            ("value", value, LONGEST_VALUE),
        ):
            if len(text) > most:
                remark = f"the {what} has {len(text)} characters, at most {most}"
                raise LimitExceeded(Reason.KV_CONFIG, ResponseCode.SYSTEM_ERROR, remark)
        await self._change(namespace, key, value)

    async def delete(self, namespace: str, key: str) -> None:
        """Delete a key, if it is there; returns when that is durable. The namespace stays, as in RocketMQ."""
        await self._change(namespace, key, None)

    async def _change(self, namespace: str, key: str, value: str | None) -> None:
        loop = asyncio.get_running_loop()
        change = _Change(namespace, key, value, loop.create_future())
        self._waiting.append(change)
        if self._writer is None:
            self._writer = loop.create_task(self._write())
        await change.done

    async def _write(self) -> None:
        """Write waiting changes until there are none."""
        try:
            while self._waiting:
                changes, self._waiting = self._waiting, []
                table = {name: dict(values) for name, values in self._table.items()}
                size, changed = self._apply(table, changes)
                error: Exception | None = None
                if changed:
                    error = await asyncio.to_thread(self._save, table)
                if changed and error is None:
                    self._table, self._size = table, size
                    self.revision += 1
                for change in changes:
                    if change.done.done():
                        continue
                    if error is None:
                        change.done.set_result(None)
                    else:
                        change.done.set_exception(error)
        finally:
            self._writer = None

    def _apply(self, table: Table, changes: list[_Change]) -> tuple[int, bool]:
        """Apply the changes that fit; the others fail. Returns the new size and whether anything changed."""
        size, changed = self._size, False
        for change in changes:
            values = table.get(change.namespace, {})
            old = values.get(change.key)
            if old == change.value:
                continue
            if change.value is None:
                del values[change.key]
                size -= len(change.key) + len(old or "")
                changed = True
                continue
            grown = size + len(change.value) - len(old or "")
            grown += len(change.key) if old is None else 0
            grown += 0 if change.namespace in table else len(change.namespace)
            if grown > self._max_bytes:
                remark = f"the KV configuration would exceed {self._max_bytes} bytes (kvConfigMaxBytes)"
                change.done.set_exception(LimitExceeded(Reason.KV_CONFIG, ResponseCode.SYSTEM_ERROR, remark))
                for name in [name for name, kept in table.items() if not kept]:  # make room for later changes
                    del table[name]
                    size -= len(name)
                    changed = True
                continue
            table.setdefault(change.namespace, {})[change.key] = change.value
            size, changed = grown, True
        return size, changed

    def _save(self, table: Table) -> ConfigError | None:
        try:
            self._files.make_folder(self._path.parent)
            self._files.replace(self._path, KvFile(table).encode(), secret=True)
        except OSError as error:
            return ConfigError(f"{self._path} (kvConfigPath) cannot be written: {error}")
        return None


def _size_of(table: Table) -> int:
    return sum(
        len(name) + sum(len(key) + len(value) for key, value in values.items()) for name, values in table.items()
    )
