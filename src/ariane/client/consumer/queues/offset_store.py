"""Offsets of a group: kept at the brokers or, when broadcasting, in a local file."""

import logging
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from ariane.client.connect.broker_calls import BrokerCalls
from ariane.env import Files
from ariane.errors import ArianeError, ProtocolError
from ariane.message import MessageQueue
from ariane.protocol import fastjson
from ariane.protocol.bodies import queue_as_key, queue_from_key

log = logging.getLogger("ariane.client")

FILE = "offsets.json"


class OffsetStore(Protocol):
    """Offsets in memory, and the persistent ones."""

    def update(self, queue: MessageQueue, offset: int, *, only_forward: bool) -> None: ...

    def known(self, queue: MessageQueue) -> int | None:
        """The offset in memory."""
        ...

    async def read(self, queue: MessageQueue) -> int | None:
        """The offset to start from; None without one, ArianeError when it cannot be read now."""
        ...

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset that was committed last; None when none was."""
        ...

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None: ...

    def forget(self, queue: MessageQueue) -> None: ...

    def table(self, topic: str) -> dict[MessageQueue, int]: ...


class _Memory:
    """The offsets in memory."""

    def __init__(self) -> None:
        self._offsets: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int, *, only_forward: bool) -> None:
        """Set an offset; with `only_forward` only to a higher one."""
        old = self._offsets.get(queue)
        if old is None or not only_forward or offset > old:
            self._offsets[queue] = offset

    def known(self, queue: MessageQueue) -> int | None:
        """The offset in memory."""
        return self._offsets.get(queue)

    def table(self, topic: str) -> dict[MessageQueue, int]:
        """The offsets of a topic's queues."""
        return {queue: offset for queue, offset in self._offsets.items() if not topic or queue.topic == topic}


class RemoteOffsets(_Memory):
    """Offsets at the brokers: the consumers of a group share them."""

    def __init__(self, group: str, calls: BrokerCalls) -> None:
        super().__init__()
        self._group = group
        self._calls = calls

    async def read(self, queue: MessageQueue) -> int | None:
        """Ask the broker."""
        offset = await self._calls.consumer_offset(self._group, queue)
        if offset is not None:
            self.update(queue, offset, only_forward=False)
        return offset

    async def committed(self, queue: MessageQueue) -> int | None:
        """Ask the broker; what is in memory stays."""
        return await self._calls.committed(self._group, queue)

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Commit to the brokers; an offset that fails is committed next time."""
        for queue in queues:
            offset = self._offsets.get(queue)
            if offset is None:
                continue
            try:
                await self._calls.commit(self._group, queue, offset, wait=wait)
            except ArianeError as error:
                log.warning("cannot commit offset %d of %s, trying again later: %s", offset, queue, error)

    def forget(self, queue: MessageQueue) -> None:
        """Drop the offset of a queue that was released."""
        self._offsets.pop(queue, None)


def default_folder() -> Path:
    """The folder in which Apache's client keeps the offsets of broadcasting consumers."""
    return Path.home() / ".rocketmq_offsets"


class LocalOffsets(_Memory):
    """Offsets in a file, `FOLDER/CLIENT ID/GROUP/offsets.json`, in the format of Apache's client."""

    def __init__(self, folder: Path, client_id: str, group: str, files: Files) -> None:
        super().__init__()
        self.path = folder / client_id / group / FILE
        self._files = files
        self._offsets = self._load(self.path) or self._load(self.path.with_name(FILE + ".bak")) or {}

    def _load(self, path: Path) -> dict[MessageQueue, int] | None:
        if not self._files.exists(path):
            return None
        try:
            table = fastjson.loads(self._files.read(path)).get("offsetTable") or {}
            return {queue_from_key(key): int(offset) for key, offset in table.items()}
        except (ProtocolError, AttributeError, TypeError, ValueError, OSError) as error:
            log.warning("cannot read offsets from %s: %s", path, error)
            return None

    async def read(self, queue: MessageQueue) -> int | None:
        """The offset of the file when the consumer started, or one that was consumed since."""
        return self._offsets.get(queue)

    async def committed(self, queue: MessageQueue) -> int | None:
        """The offset of the file."""
        return (self._load(self.path) or {}).get(queue)

    async def persist(self, queues: Iterable[MessageQueue], *, wait: bool = False) -> None:
        """Write the file with all offsets, also of other queues: it is written whole. The previous one is kept."""
        table = {queue_as_key(queue): offset for queue, offset in self._offsets.items()}
        if not table:
            return
        try:
            self._files.make_folder(self.path.parent)
            if self._files.exists(self.path):
                self._files.replace(self.path.with_name(FILE + ".bak"), self._files.read(self.path))
            self._files.replace(self.path, fastjson.dumps({"offsetTable": table}))
        except OSError as error:
            log.warning("cannot write offsets to %s: %s", self.path, error)

    def forget(self, queue: MessageQueue) -> None:
        """Keep the offset: a queue released while its broker is away continues where it was."""
