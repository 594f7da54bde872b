"""The rules of all files together: loaded at start, reloaded when a file changes, changed by administrators."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ariane.access.accounts import Account
from ariane.access.addresses import AddressPattern
from ariane.access.counters import AccessCounters
from ariane.access.rules_file import RulesFile, format_rules, parse_rules, read_rules
from ariane.env import Clock, Files
from ariane.settings import ConfigError

log = logging.getLogger("ariane.access")

DEFAULT_FILE: Final = "conf/plain_acl.yml"
FOLDER: Final = "conf/acl"
COPIED: Final = "conf/acl.copied"
"""Files on their way from a master: written first, so that a crash leaves all of them or none in force."""
WATCH_SECONDS: Final = 2.0
"""Interval of checks for changed files; RocketMQ's is 5 s."""
_DEEPEST: Final = 8  # depth of nested folders

Change = Callable[[Mapping[str, Any]], Mapping[str, Any]]


@dataclass(frozen=True)
class Rules:
    """The rules in force. Of two accounts with one access key the first applies; the global white lists are merged."""

    files: tuple[RulesFile, ...] = ()
    accounts: Mapping[str, Account] = field(default_factory=dict)
    white: tuple[AddressPattern, ...] = ()

    @classmethod
    def join(cls, files: Iterable[RulesFile]) -> Rules:
        """The rules of files, in their order."""
        files = tuple(files)
        accounts: dict[str, Account] = {}
        for file in files:
            for account in file.accounts:
                accounts.setdefault(account.access_key, account)
        return cls(files, accounts, tuple(pattern for file in files for pattern in file.white))

    def is_white(self, address: bytes) -> bool:
        """Whether a packed address is on the global white list."""
        return any(pattern.matches(address) for pattern in self.white)

    def file_of(self, access_key: str) -> RulesFile | None:
        """The file whose account applies."""
        holds = (file for file in self.files if any(account.access_key == access_key for account in file.accounts))
        return next(holds, None)

    def warnings(self) -> list[str]:
        """Warnings: valid settings that are probably mistakes."""
        found = [warning for file in self.files for warning in file.warnings]
        if any(pattern.everybody for pattern in self.white):
            found.append("the global white list lets everybody in: remove `*` from globalWhiteRemoteAddresses")
        for account in self.accounts.values():
            if account.white.everybody:
                found.append(f"{account.access_key} needs no secret key from any address: narrow whiteRemoteAddress")
        for file in self.files:
            for account in file.accounts:
                first = self.file_of(account.access_key)
                if first is not file and first is not None:
                    found.append(f"{file.path}: {account.access_key} is in {first.path} too, which counts")
        return found


class LiveRules:
    """The rules files below a folder: `conf/acl/**.yml`, then the default file. `current` is replaced as a whole.

    A file that becomes broken, or empty, keeps its last good rules; the rules of a removed file are dropped.
    """

    def __init__(
        self,
        files: Files,
        clock: Clock,
        home: Path,
        default: str = DEFAULT_FILE,
        counters: AccessCounters | None = None,
    ) -> None:
        self._files = files
        self._clock = clock
        self.home = home
        self.default = home / default
        self.counters = AccessCounters()
        self.current = Rules()
        self.on_change: list[Callable[[], None]] = []
        """Called when other rules are in force."""
        self._texts: dict[Path, bytes] = {}
        self._good: dict[Path, RulesFile] = {}
        self._broken: set[Path] = set()
        self._half_copied = False
        self._changing = asyncio.Lock()

    def load(self) -> None:
        """Load all files; ConfigError for the first mistake, or when there is no file at all."""
        self._finish_copy()
        try:
            texts = {path: self._files.read(path) for path in self._paths()}
        except OSError as error:
            raise ConfigError(f"cannot be read: {error.strerror}", file=str(error.filename)) from None
        if not texts:
            raise ConfigError(
                "aclEnable is true and there is no rules file: write one with an administrator's account",
                file=str(self.default),
            )
        self._good = {path: read_rules(texts.__getitem__, path) for path in texts}
        self._texts = texts
        self._take_over()
        log.info("%d accounts of %d files are in force", len(self.current.accounts), len(texts))

    async def refresh(self) -> None:
        """Reload files that have changed on the disk."""
        async with self._changing:
            await self._refresh()

    async def _refresh(self) -> None:
        try:
            await asyncio.to_thread(self._finish_copy)
        except ConfigError as error:  # the files are half those of the master: none of them counts
            if not self._half_copied:
                log.error("%s; the rules in force stay", error)
            self._half_copied = True
            return
        self._half_copied = False
        texts = await asyncio.to_thread(self._read)
        if texts == self._texts:
            return
        good: dict[Path, RulesFile] = {}
        broken: set[Path] = set()
        for path, text in texts.items():
            if self._texts.get(path) == text and path in self._good and path not in self._broken:
                good[path] = self._good[path]
                continue
            try:
                good[path] = _whole(read_rules(texts.__getitem__, path), self._good.get(path))
            except ConfigError as error:
                broken.add(path)
                if self._texts.get(path) != text:
                    self.counters.reload_failures += 1
                    log.error("%s; the last good rules of this file stay in force", error)
                if path in self._good:
                    good[path] = self._good[path]
        for path in self._texts.keys() - texts.keys():
            log.warning("%s is gone, and its accounts with it", path)
        self._texts, self._good, self._broken = texts, good, broken
        self._take_over()
        self.counters.reloads += 1
        log.info("%d accounts of %d files are in force", len(self.current.accounts), len(good))

    async def change(self, path: Path, change: Change) -> None:
        """Change a file and reload it: ConfigError when the result is wrong, OSError when it cannot be written."""
        async with self._changing:
            exists = self._files.exists(path)
            before = read_rules(self._files.read, path) if exists else RulesFile(str(path))
            text = format_rules(change(before.data), before.version, self._clock.now_ms())
            parse_rules(text, str(path))
            await asyncio.to_thread(self._files.replace, path, text.encode(), secret=True)
            await self._refresh()

    # Copies of a master's files.

    def texts(self) -> dict[str, bytes]:
        """The text of each file by its name below the folder of rules; the default file has no name.

        ConfigError while one is broken: its text is not what is in force.
        """
        for path in self._broken:
            raise ConfigError("it is broken, and its last good rules are in force", file=str(path))
        folder = self.home / FOLDER
        return {
            "" if path == self.default else path.relative_to(folder).as_posix(): text
            for path, text in self._texts.items()
        }

    async def mirror(self, texts: Mapping[str, bytes]) -> bool:
        """Replace all files by those of another broker; True when they were different.

        All of them come into force together, on the disk and in memory. ConfigError when one is wrong, OSError when
        they cannot be written: then nothing changes.
        """
        async with self._changing:
            wanted = {self._path_of(name): text for name, text in texts.items()}
            if not wanted or len(wanted) != len(texts):
                raise ConfigError("the copied rules have no file, or one of them twice", file=str(self.default))
            if wanted == self._texts and not self._broken and not self._files.exists(self.home / COPIED):
                return False
            good = await asyncio.to_thread(lambda: {path: read_rules(wanted.__getitem__, path) for path in wanted})
            await asyncio.to_thread(self._write_copy, texts, wanted)
            paths = self._paths()
            self._texts, self._broken = {path: wanted[path] for path in paths}, set()
            self._good = {path: good[path] for path in paths}
            self._take_over()
            self.counters.reloads += 1
            return True

    def _path_of(self, name: str) -> Path:
        """Where a copied file belongs; its name must not lead out of the folder of rules."""
        if not name:
            return self.default
        parts = name.split("/")
        outside = any(part in ("", ".", "..") or not part.isprintable() or "\\" in part for part in parts)
        if outside or len(parts) > _DEEPEST or not name.endswith((".yml", ".yaml")):
            raise ConfigError(f"{name!r} is no name of a rules file", file=str(self.home / FOLDER))
        return self.home / FOLDER / name

    def _write_copy(self, texts: Mapping[str, bytes], wanted: Mapping[Path, bytes]) -> None:
        """Write the files, after a note of all of them by which `load` finishes that after a crash."""
        note = {name: text.decode() for name, text in texts.items()}
        self._files.make_folder(self.home / "conf")
        self._files.replace(self.home / COPIED, json.dumps(note).encode(), secret=True)
        self._place(wanted)

    def _place(self, wanted: Mapping[Path, bytes]) -> None:
        for path, text in wanted.items():
            self._files.make_folder(path.parent)
            self._files.replace(path, text, secret=True)
        for path in set(self._paths()) - set(wanted):
            log.warning("%s is removed: the master has no such file", path)
            self._files.remove(path)
            self._files.sync_folder(path.parent)
        self._files.remove(self.home / COPIED)
        self._files.sync_folder(self.home / "conf")

    def _finish_copy(self) -> None:
        """Finish a copy that a crash interrupted."""
        note = self.home / COPIED
        if not self._files.exists(note):
            return
        try:
            content: dict[str, str] = json.loads(self._files.read(note))
            wanted = {self._path_of(name): text.encode() for name, text in content.items()}
        except (ValueError, AttributeError, OSError):
            reason = "a copy of the master's rules was interrupted, and this note of it cannot be read: delete it"
            raise ConfigError(f"{reason}, and check the rules files", file=str(note)) from None
        try:
            self._place(wanted)
        except OSError as error:
            raise ConfigError(f"cannot be finished: {error.strerror or error}", file=str(note)) from None

    def holds(self, path: str) -> Path | None:
        """The rules file that a request names; None when no such file is in force."""
        wanted = Path(path)
        return next((known for known in self._texts if known == wanted), None)

    def _take_over(self) -> None:
        self.current = Rules.join(self._good.values())
        self.counters.broken_files = len(self._broken)
        for warning in self.current.warnings():
            log.warning("%s", warning)
        for listener in self.on_change:
            listener()

    def _read(self) -> dict[Path, bytes]:
        """Read all files. One that cannot be read keeps its rules."""
        found: dict[Path, bytes] = {}
        for path in self._paths():
            try:
                found[path] = self._files.read(path)
            except OSError as error:
                log.error("%s cannot be read: %s", path, error)
                found[path] = self._texts.get(path, b"")
        return found

    def _paths(self) -> list[Path]:
        return [*self._below(self.home / FOLDER, 0), *([self.default] if self._files.exists(self.default) else [])]

    def _below(self, folder: Path, depth: int) -> list[Path]:
        paths: list[Path] = []
        for name in self._files.list(folder):
            path = folder / name
            if self._files.is_folder(path):
                paths += self._below(path, depth + 1) if depth < _DEEPEST else []
            elif name.endswith((".yml", ".yaml")) and path != self.default:
                paths.append(path)
        return paths


def _whole(file: RulesFile, before: RulesFile | None) -> RulesFile:
    """A file that became empty is treated as one being written."""
    if before is not None and before.data and not file.data:
        raise ConfigError("the file has become empty", file=file.path)
    return file
