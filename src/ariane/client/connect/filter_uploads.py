"""Uploads the modules of WebAssembly filters to the brokers that are to run them, once to each."""

import asyncio
from pathlib import Path
from zlib import crc32

from ariane.client.connect.wire import Wire
from ariane.client.options import Selector, WasmFilter
from ariane.errors import BrokerRefused, ClientError
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.headers import RegisterMessageFilterClassRequest

TIMEOUT = 90.0  # seconds: a broker compiles one module at a time


class FilterUploads:
    """Which modules this client has, and which broker has them.

    A module that an operator removes from a broker is not uploaded again until the consumer restarts.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._filters: dict[str, WasmFilter] = {}
        self._done: dict[tuple[str, str, str, WasmFilter], asyncio.Task[None]] = {}

    def remember(self, selector: Selector) -> None:
        """Keep the module of a filter for uploads."""
        if isinstance(selector, WasmFilter):
            self._filters[selector.expression] = selector

    def known(self, digest: str) -> WasmFilter:
        """The filter with this digest."""
        if digest not in self._filters:
            raise ClientError(f"this client has no filter {digest[:12]}")
        return self._filters[digest]

    async def ensure(self, address: str, group: str, topic: str, wanted: WasmFilter) -> None:
        """Return when the broker at an address has the module for a group and topic. BrokerRefused says why not."""
        key = (address, group, topic, wanted)
        task = self._done.get(key)
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            task = self._done[key] = asyncio.get_running_loop().create_task(
                self._upload(address, group, topic, wanted), name="upload a filter"
            )
        await asyncio.shield(task)

    async def close(self) -> None:
        """Cancel uploads under way."""
        for task in self._done.values():
            task.cancel()
        await asyncio.gather(*self._done.values(), return_exceptions=True)

    async def _upload(self, address: str, group: str, topic: str, wanted: WasmFilter) -> None:
        header = RegisterMessageFilterClassRequest(
            group,
            topic,
            Path(wanted.path).name,
            crc32(wanted.module) & 0x7FFFFFFF,
            wanted.expression,
            wanted.filter_server,
        )
        code = RequestCode.REGISTER_MESSAGE_FILTER_CLASS
        try:
            await self._wire.ask(address, code, header, wanted.module, timeout=TIMEOUT)
        except BrokerRefused as error:
            if error.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
                raise ClientError(f"{address} runs no filters of users: only Ariane's brokers do") from error
            raise
