"""The effective options, which requests read, and change where that is allowed."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from ariane.env import Files
from ariane.errors import ResponseError
from ariane.namesrv.config import NamesrvOptions
from ariane.protocol.codes import ResponseCode
from ariane.settings import ConfigError, NotUpdatable, format_properties, parse_properties
from ariane.settings.edit import rewrite

PATHS = ("kvConfigPath", "configStorePath")


class LiveConfig:
    """The options of the running name server."""

    def __init__(self, options: NamesrvOptions, files: Files) -> None:
        self.options = options
        self._files = files
        self._one_at_a_time = asyncio.Lock()
        self.on_change: list[Callable[[NamesrvOptions], None]] = []

    def text(self) -> str:
        """All options as `key=value` lines."""
        return format_properties(self.options.as_properties())

    async def update(self, text: str) -> None:
        """Change options, all or none, and write them to the configuration file."""
        async with self._one_at_a_time:
            await self._update(text)

    async def _update(self, text: str) -> None:
        try:
            changes = {entry.key: entry.value for entry in parse_properties(text)}
            options = self._with(changes)
        except NotUpdatable as error:
            raise ResponseError(ResponseCode.NO_PERMISSION, str(error)) from None
        except ConfigError as error:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, str(error)) from None
        if changes:
            await asyncio.to_thread(self._write, changes)
        self.options = options
        for listener in self.on_change:
            listener(options)

    def _with(self, changes: dict[str, str]) -> NamesrvOptions:
        if any(path in changes for path in PATHS):
            raise ResponseError(ResponseCode.NO_PERMISSION, "Can not update config path")
        options = self.options
        for key, value in changes.items():
            options = options.updated(key, value)
        return options

    def _write(self, changes: dict[str, str]) -> None:
        path = Path(self.options.config_store_path)
        try:
            rewrite(self._files, path, changes)
        except (OSError, UnicodeDecodeError) as error:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{path} cannot be written: {error}") from None
