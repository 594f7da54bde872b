"""The role that a promotion gave to a broker, kept over restarts in config/role.json."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

import msgspec

from ariane.broker.config import BrokerOptions
from ariane.broker.role import RoleKind
from ariane.env import Files
from ariane.store import ConfigFile

log = logging.getLogger("ariane.broker.replication")

FILE_NAME: Final = "role.json"


class _Content(msgspec.Struct, rename="camel"):
    configured: str
    """brokerRole and brokerId of broker.conf when this was written; after a change there this record is ignored."""
    role: RoleKind
    broker_id: int
    shares_log: bool = False


class RoleRecord:
    """The role at the next start: that of broker.conf or, after a promotion, the role it gave."""

    def __init__(self, files: Files, options: BrokerOptions) -> None:
        self._file = ConfigFile(Path(options.store_path_root_dir) / "config" / FILE_NAME, files)
        self._configured = f"{options.broker_role} {options.broker_id}"
        self.role = RoleKind(options.broker_role)
        self.broker_id = options.broker_id
        self.shares_log = False
        """Whether a slave has ever followed this broker, or it was a slave: only then can another broker replace it."""

    def load(self) -> None:
        """Load the role of the last run, unless broker.conf was changed since."""
        kept = self._file.load(lambda text: msgspec.json.decode(text, type=_Content))
        if kept is None:
            return
        self.shares_log = kept.shares_log
        if kept.configured != self._configured:
            log.warning("brokerRole was changed in the configuration: %s counts no more", self._file.path)
            return
        if kept.role is not self.role:
            log.warning("the role is %s by a promotion, not that of the configuration", kept.role.value)
        self.role, self.broker_id = kept.role, kept.broker_id

    def save(self, role: RoleKind, broker_id: int) -> None:
        """Keep a role. Blocks until it is on the disk; OSError when it cannot be written."""
        self.role, self.broker_id = role, broker_id
        content = _Content(self._configured, role, broker_id, self.shares_log)
        self._file.save(msgspec.json.encode(content).decode())

    def is_followed(self) -> None:
        """A slave follows this broker."""
        if not self.shares_log:
            self.shares_log = True
            try:
                self.save(self.role, self.broker_id)
            except OSError as error:  # after a restart this broker follows no other one until a slave has come
                log.error("%s cannot be written: %s", self._file.path, error)
