"""The consumer groups of a broker, and the configuration of each."""

import logging
from collections.abc import Callable, Iterable, Iterator

from ariane.broker.names import SYSTEM_GROUPS, check_group, is_system_group
from ariane.broker.seldom_log import SeldomLog
from ariane.broker.tables.shares import Shares
from ariane.env import Clock
from ariane.protocol.bodies import DataVersion, SubscriptionGroupConfig, SubscriptionGroupTable
from ariane.protocol.codes import ResponseCode
from ariane.remoting.gates import Peer
from ariane.remoting.limits import LimitExceeded, Reason

log = logging.getLogger("ariane.broker")


class GroupTable:
    """Configuration of consumer groups by name."""

    def __init__(self, clock: Clock, auto_create_max: int, auto_create_per_account_max: int) -> None:
        self._clock = clock
        self._auto_create_max = auto_create_max
        self._auto_create_per_account_max = auto_create_per_account_max
        self._shares = Shares(auto_create_per_account_max)
        self._on_demand: dict[str, float] = {}  # created by use in this run, and when
        self._full = SeldomLog(log, clock)
        self._groups = {config.group_name: config for config in self.own()}
        self.version = DataVersion(clock.now_ms(), 0)
        self.on_change: list[Callable[[str], None]] = []

    def __contains__(self, group: str) -> bool:
        return group in self._groups

    def __iter__(self) -> Iterator[SubscriptionGroupConfig]:
        return iter(list(self._groups.values()))

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, group: str) -> SubscriptionGroupConfig | None:
        """The configuration of a group."""
        return self._groups.get(group)

    def own(self) -> list[SubscriptionGroupConfig]:
        """The groups that every broker has."""
        return [SubscriptionGroupConfig(name) for name in SYSTEM_GROUPS]

    def find(self, group: str, *, auto_create: bool, by: Peer | None = None) -> SubscriptionGroupConfig | None:
        """The group, created if it is missing and may be created by use; LimitExceeded when there are too many."""
        config = self._groups.get(group)
        if config is None and (auto_create or is_system_group(group)):
            check_group(group)
            if not is_system_group(group):
                self._check_room(group, by)
                self._shares.add(group, by)
            config = SubscriptionGroupConfig(group)
            log.info("group created on demand: %s", group)
            self._on_demand[group] = self._clock.monotonic()
            self._put(config)
        return config

    def _check_room(self, group: str, by: Peer | None) -> None:
        if len(self._groups) >= self._auto_create_max:
            reason = Reason.GROUPS
            why = f"the broker has {len(self._groups)} groups (autoCreateGroupMax={self._auto_create_max})"
        elif account := self._shares.is_used_up(by):
            reason = Reason.GROUPS_PER_ACCOUNT
            most = self._auto_create_per_account_max
            why = f"{account} created as many as one may (autoCreateGroupPerAccountMax={most})"
        else:
            return
        self._full.warning("group %s is not created: %s", group, why)
        what_to_do = "delete unused groups, or create this one with mqadmin updateSubGroup"
        remark = f"subscription group [{group}] does not exist, and is not created: {why}; {what_to_do}"
        raise LimitExceeded(reason, ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)

    def on_demand(self, seconds: float) -> list[str]:
        """The groups that were created by use in this run, at least `seconds` ago, and never configured."""
        latest = self._clock.monotonic() - seconds
        return [group for group, created in self._on_demand.items() if created <= latest]

    def was_used(self, group: str) -> None:
        """Keep a group that was created by use."""
        self._on_demand.pop(group, None)

    def update(self, config: SubscriptionGroupConfig) -> None:
        """Create a group or change it."""
        check_group(config.group_name)
        self._on_demand.pop(config.group_name, None)
        self._shares.remove(config.group_name)
        log.info("group %s: %s", "changed" if config.group_name in self._groups else "created", config)
        self._put(config)

    def disable(self, group: str) -> None:
        """Stop a group from consuming until an operator allows it again."""
        config = self._groups.get(group)
        if config is not None and config.consume_enable:
            config.consume_enable = False
            self._on_demand.pop(group, None)
            log.warning("group disabled: %s", group)
            self._put(config)

    def delete(self, group: str) -> bool:
        """Delete a group; False when there was none."""
        if self._groups.pop(group, None) is None:
            return False
        self._on_demand.pop(group, None)
        self._shares.remove(group)
        log.info("group deleted: %s", group)
        self._tell(group)
        return True

    def table(self) -> SubscriptionGroupTable:
        """The body of GET_ALL_SUBSCRIPTIONGROUP_CONFIG, and the content of subscriptionGroup.json."""
        return SubscriptionGroupTable(self.version, self._groups)

    def load(self, table: SubscriptionGroupTable) -> None:
        """Add the groups of an earlier run to those that every broker has."""
        self._groups.update(table.subscription_group_table)
        self.version = table.data_version

    def replace(self, table: SubscriptionGroupTable) -> None:
        """Replace all groups by those of a master."""
        self._groups = dict(table.subscription_group_table)
        self.version = table.data_version
        for listener in self.on_change:
            listener("")

    def apply(self, groups: dict[str, SubscriptionGroupConfig], deleted: Iterable[str], version: DataVersion) -> None:
        """Take changes of the leader of a DLedger group."""
        for name in deleted:
            self._groups.pop(name, None)
        self._groups.update(groups)
        self.version = version
        for listener in self.on_change:
            listener("")

    def _put(self, config: SubscriptionGroupConfig) -> None:
        self._groups[config.group_name] = config
        self._tell(config.group_name)

    def _tell(self, group: str) -> None:
        self.version = DataVersion(self._clock.now_ms(), self.version.counter + 1)
        for listener in self.on_change:
            listener(group)
