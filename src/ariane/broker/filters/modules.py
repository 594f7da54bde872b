"""The filter modules that consumers have uploaded: by group and topic, kept in `config/filters.json` and its folder."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

from ariane.broker.config.live import LiveOptions
from ariane.broker.tables.persistence import Persistence
from ariane.env import Clock, Files
from ariane.errors import ResponseError
from ariane.filter.guarded import Decide
from ariane.filter.option_rows import sandbox_limits
from ariane.filter.wasm import WasmRuntime, digest_of
from ariane.protocol.bodies import FilterList, FilterRecord
from ariane.protocol.codes import ResponseCode

log = logging.getLogger("ariane.broker")


class FilterModules:
    """One module for each group and topic; several may share one file."""

    def __init__(self, persistence: Persistence, files: Files, clock: Clock, options: LiveOptions) -> None:
        self._files = files
        self._options = options
        self.runtime = WasmRuntime(sandbox_limits(options.current), clock.monotonic)
        self._table = persistence.table("filters.json", self._encode, self._decode)
        self._folder = self._table.path.parent / "filters"
        self._records: dict[tuple[str, str], FilterRecord] = {}
        self.on_change: list[Callable[[], None]] = []
        """Called when a module was added, replaced or removed."""

    def start(self) -> None:
        """Read what the last run had. Modules are compiled when they are first used."""
        self._table.load()
        options = self._options.current
        if options.filter_upload_enable and not options.acl_enable:
            log.warning("filterUploadEnable without aclEnable: every client that reaches it may upload filters")

    async def stop(self) -> None:
        """Stop compiling."""
        await self.runtime.close()

    def all(self) -> list[FilterRecord]:
        """Every record, sorted."""
        return [self._records[key] for key in sorted(self._records)]

    def find(self, group: str, topic: str) -> FilterRecord | None:
        """The record of a group for a topic."""
        return self._records.get((group, topic))

    async def put(self, record: FilterRecord, module: bytes) -> None:
        """Keep a module, which must compile unless filter servers run it; ResponseError when there is no room."""
        key = (record.consumer_group, record.topic)
        most = self._options.current.filter_modules_max
        if key not in self._records and len(self._records) >= most:
            remark = f"the broker has {most} filters, as many as it keeps (filterModulesMax): remove one first"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        if not record.filter_server:
            await self.runtime.add(module)
        await asyncio.to_thread(self._write, record.sha256, module)
        before = self._records.get(key)
        self._records[key] = record
        await self._changed(before)

    async def remove(self, group: str, topic: str) -> bool:
        """Remove a module; False when there is none."""
        before = self._records.pop((group, topic), None)
        if before is None:
            return False
        await self._changed(before)
        return True

    async def read(self, digest: str) -> bytes:
        """The bytes of a module; OSError when they are not there or damaged."""
        module = await asyncio.to_thread(self._files.read, self._path(digest))
        if digest_of(module) != digest:
            raise OSError(f"{self._path(digest)} is damaged: remove the filter, and let its consumers upload it again")
        return module

    def decide(self, group: str, topic: str, digest: str) -> Decide:
        """The decision of a group's module; FilterBusy, FilterFailed, or ResponseError when it is not here."""
        record = self._records.get((group, topic))
        if record is None or record.sha256 != digest:
            other = "none" if record is None else record.sha256[:12]
            remark = f"the filter {digest[:12]} of {group} for {topic} is not on this broker, which has {other}"
            raise ResponseError(ResponseCode.FILTER_DATA_NOT_EXIST, f"{remark}: restart the consumer to upload it")
        return self.runtime.decide(digest, lambda: self.read(digest))

    async def _changed(self, before: FilterRecord | None) -> None:
        for listener in self.on_change:
            listener()
        await self._table.save()
        await self._table.confirm()
        if before is not None and all(one.sha256 != before.sha256 for one in self._records.values()):
            self.runtime.forget(before.sha256)
            await asyncio.to_thread(self._remove_file, before.sha256)

    def _write(self, digest: str, module: bytes) -> None:
        if not self._files.exists(self._path(digest)):
            self._files.make_folder(self._folder)
        self._files.replace(self._path(digest), module)

    def _remove_file(self, digest: str) -> None:
        if self._files.exists(self._path(digest)):
            self._files.remove(self._path(digest))

    def _path(self, digest: str) -> Path:
        return self._folder / f"{digest}.wasm"

    def _encode(self) -> bytes:
        return FilterList(self.all()).encode()

    def _decode(self, data: bytes) -> None:
        for record in FilterList.decode(data).filters:
            if _is_digest(record.sha256):
                self._records[record.consumer_group, record.topic] = record
            else:
                log.error("filters.json: the filter of %s has no valid digest", record.consumer_group)


def _is_digest(text: str) -> bool:
    return len(text) == 64 and set(text) <= set("0123456789abcdef")
