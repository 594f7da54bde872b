"""Dumps messages of a store, one JSON object each."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ariane.env import Files
from ariane.message import KEYS, UNIQUE_KEY
from ariane.protocol.ids import host_text, offset_id
from ariane.protocol.properties import decode_properties
from ariane.protocol.units import decode_unit
from ariane.store.layout import Layout
from ariane.store.offline.reading import Progress, StoredLog, no_progress
from ariane.store.units.reading import Dispatched


@dataclass(frozen=True)
class Wanted:
    """Selects messages: those that match every given criterion. Times are store times in milliseconds."""

    topic: str | None = None
    queue_id: int | None = None
    key: str | None = None
    begin: int = 0
    end: int = 1 << 62

    def matches(self, message: Dispatched) -> bool:
        if self.topic is not None and message.topic != self.topic:
            return False
        if self.queue_id is not None and message.queue_id != self.queue_id:
            return False
        if not self.begin <= message.store_time <= self.end:
            return False
        return self.key is None or self._has_key(message)

    def _has_key(self, message: Dispatched) -> bool:
        properties = decode_properties(message.properties.decode(errors="replace"))
        return self.key == properties.get(UNIQUE_KEY) or self.key in properties.get(KEYS, "").split()


def dump(files: Files, layout: Layout, wanted: Wanted, progress: Progress = no_progress) -> Iterator[dict[str, Any]]:
    """The wanted messages in the order of the log."""
    stored = StoredLog(files, layout)
    for found in stored.walk(progress):
        if isinstance(found, Dispatched) and wanted.matches(found):
            yield as_json(stored, found)


def as_json(stored: StoredLog, message: Dispatched) -> dict[str, Any]:
    """A message in RocketMQ's words. A body that is text is given as text, else in base64."""
    unit = decode_unit(stored.bytes_of(message))
    properties = decode_properties(unit.properties.decode(errors="replace"))
    fields: dict[str, Any] = {
        "topic": message.topic,
        "queueId": unit.queue_id,
        "queueOffset": unit.queue_offset,
        "commitLogOffset": unit.physical_offset,
        "msgId": properties.get(UNIQUE_KEY),
        "offsetMsgId": offset_id(unit.store_host, unit.physical_offset),
        "storeTimestamp": unit.store_time,
        "bornTimestamp": unit.born_time,
        "bornHost": host_text(unit.born_host),
        "storeHost": host_text(unit.store_host),
        "sysFlag": unit.sys_flag,
        "flag": unit.flag,
        "reconsumeTimes": unit.reconsume_times,
        "preparedTransactionOffset": unit.prepared_offset,
        "properties": properties,
    }
    return fields | _body(unit.body)


def _body(body: bytes) -> dict[str, str]:
    try:
        return {"body": body.decode()}
    except UnicodeDecodeError:
        return {"bodyBase64": base64.b64encode(body).decode()}
