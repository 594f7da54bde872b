"""Builds the access control of a broker from its options."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from ariane.access.accounts import PUB
from ariane.access.gate import AccessGate
from ariane.access.known import KnownFirst
from ariane.access.replay import ReplayGuard
from ariane.access.rules import WATCH_SECONDS, LiveRules
from ariane.broker.acl.table import TopicsOf, UnitAt, broker_rules
from ariane.broker.config import BrokerOptions
from ariane.broker.periodic import Periodic
from ariane.env import Env
from ariane.protocol.command import Command
from ariane.remoting import ACCOUNT, Peer
from ariane.settings import ConfigError


class BrokerAccess:
    """The rules, the gate before all handlers, and the watch on the rules files."""

    def __init__(self, options: BrokerOptions, env: Env, unit_at: UnitAt, topics_of: TopicsOf) -> None:
        if not options.rocketmq_home:
            reason = "aclEnable needs the folder that has conf/plain_acl.yml: set rocketmqHome or ROCKETMQ_HOME"
            raise ConfigError(reason, key="rocketmqHome")
        self.rules = LiveRules(env.files, env.clock, Path(options.rocketmq_home), options.acl_plain_file)
        self.rules.load()
        self._clock = env.clock
        window = options.acl_replay_window_seconds
        gate = AccessGate(
            self.rules,
            broker_rules(unit_at, topics_of, options.broker_cluster_name),
            env.clock,
            replay=ReplayGuard(env.clock, window) if window else None,
        )
        self._check_again = gate.check_again
        self.gate = KnownFirst(self.rules, self.rules.counters, gate.check)

    def follow(self, check_all: Callable[[Callable[[Peer, Command], None]], None]) -> None:
        """Have requests that wait checked again whenever the rules change."""
        self.rules.on_change.append(lambda: check_all(self._check_again))

    def may_write(self, peer: Peer, topic: str) -> bool:
        """Whether the account that a connection used last may write to a topic."""
        rules = self.rules.current
        account = rules.accounts.get(peer.attributes.get(ACCOUNT, ""))
        return rules.is_white(peer.peer_host[:-4]) if account is None else account.may(topic, PUB)

    def is_white(self, peer: Peer) -> bool:
        """Whether the address of a connection is on the global white list."""
        return self.rules.current.is_white(peer.peer_host[:-4])

    def periodic(self) -> Periodic:
        """The watch on the files."""
        return Periodic(self._clock, WATCH_SECONDS, self.rules.refresh, name="watch access rules")
