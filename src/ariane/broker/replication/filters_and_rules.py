"""A slave's copies of what RocketMQ has no request for: the filters of groups and, with a shared key, access rules."""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec

from ariane.access.rules import LiveRules
from ariane.broker.config.ha_options import ha_options
from ariane.broker.config.live import LiveOptions
from ariane.broker.pull.expressions import Expressions
from ariane.errors import ArianeError
from ariane.ha import HaMaster, HaSlave, copied_tables, may_seal
from ariane.settings import ConfigError

log = logging.getLogger("ariane.broker.replication")


class _Rules(msgspec.Struct):
    """The rules files of a master, or why it cannot give them."""

    files: dict[str, bytes] = {}
    broken: str = ""


class RulesNotCopied(ArianeError):
    """The access rules of the master are not in force on this slave."""


class FiltersAndRules:
    """Gives both tables to slaves on a master, copies them on a slave. `rules` is None when access control is off.

    Rules hold secret keys: they travel encrypted, between brokers that share a key (haKey), or not at all.
    """

    def __init__(
        self, filters: Expressions, rules: LiveRules | None, master: HaMaster, options: LiveOptions,
        slave: Callable[[], HaSlave | None],
    ) -> None:  # fmt: skip
        self._filters = filters
        self._rules = rules
        self._options = options
        self._slave = slave
        self._warned = ""
        master.plain_tables = filters.encoded
        master.secret_tables = self._secret

    def _secret(self) -> bytes | None:
        if self._rules is None:
            return None
        try:
            return msgspec.json.encode(_Rules(self._rules.texts()))
        except ConfigError as error:
            return msgspec.json.encode(_Rules(broken=str(error)))

    async def copy(self, _: str) -> None:
        """Copy the tables of an Ariane master. Raises ArianeError or ValueError when that fails: nothing changed."""
        slave = self._slave()
        if slave is None or not slave.state.connected or not slave.state.ariane:
            return  # Apache's master counts a connection to its port for a slave
        options = ha_options(self._options.current)
        tables = await copied_tables(slave.state.master, options)
        if tables.plain:
            self._filters.merge(tables.plain)
        if tables.secret is not None and self._rules is not None:
            await self._take(self._rules, tables.secret)
        elif tables.secret is not None:
            self._warn("the master demands accounts and this slave does not: set aclEnable=true here too")
        elif self._rules is not None and not may_seal(options):
            self._warn("access rules are not copied from the master: set a haKey of 16 characters or more on both")

    async def _take(self, rules: LiveRules, secret: bytes) -> None:
        try:
            given = msgspec.json.decode(secret, type=_Rules)
        except msgspec.DecodeError as error:
            raise RulesNotCopied(f"the master's rules cannot be read: {error}") from None
        if given.broken:
            raise RulesNotCopied(f"the master's rules are not copied: {given.broken}")
        try:
            if await rules.mirror(given.files):
                log.warning("the access rules are now those of the master: %d files", len(given.files))
        except OSError as error:
            reason = error.strerror or error
            raise RulesNotCopied(f"the master's rules cannot be written below {rules.home}: {reason}") from None

    def _warn(self, text: str) -> None:
        if text != self._warned:
            self._warned = text
            log.warning(text)
