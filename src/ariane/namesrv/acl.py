"""Access control of a name server, off by default: guards the registration of brokers and the configuration.

RocketMQ's name server has none: any host that reaches its port can register a broker and receive a topic's messages.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ariane.access.gate import AccessGate, Level, Rule
from ariane.access.replay import ReplayGuard
from ariane.access.rules import LiveRules
from ariane.env import Env
from ariane.namesrv.config import NamesrvOptions
from ariane.protocol.codes import RequestCode as Code
from ariane.settings import ConfigError


def namesrv_rules() -> Mapping[int, Rule]:
    """The rule of every request that a name server answers. Routes are public: clients of 4.9 do not sign."""
    everybody = Rule(Level.OPEN)
    trusted = Rule(Level.TRUSTED)
    admin = Rule(Level.ADMIN)
    return {
        Code.REGISTER_BROKER: trusted,
        Code.UNREGISTER_BROKER: trusted,
        Code.QUERY_DATA_VERSION: trusted,  # renews a registration
        Code.GET_ROUTEINFO_BY_TOPIC: everybody,
        Code.GET_BROKER_CLUSTER_INFO: everybody,
        Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: everybody,
        Code.GET_TOPICS_BY_CLUSTER: everybody,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_NS: everybody,
        Code.GET_UNIT_TOPIC_LIST: everybody,
        Code.GET_HAS_UNIT_SUB_TOPIC_LIST: everybody,
        Code.GET_HAS_UNIT_SUB_UNUNIT_TOPIC_LIST: everybody,
        Code.GET_KV_CONFIG: everybody,
        Code.GET_KVLIST_BY_NAMESPACE: everybody,
        Code.PUT_KV_CONFIG: admin,
        Code.DELETE_KV_CONFIG: admin,
        Code.WIPE_WRITE_PERM_OF_BROKER: admin,
        Code.ADD_WRITE_PERM_OF_BROKER: admin,
        Code.DELETE_TOPIC_IN_NAMESRV: admin,
        Code.UPDATE_NAMESRV_CONFIG: admin,
        Code.GET_NAMESRV_CONFIG: admin,
    }


class NamesrvAccess:
    """The rules of a name server and the gate before its handlers."""

    def __init__(self, options: NamesrvOptions, env: Env) -> None:
        if not options.rocketmq_home:
            reason = "aclEnable needs the folder that has conf/plain_acl.yml: set rocketmqHome or ROCKETMQ_HOME"
            raise ConfigError(reason, key="rocketmqHome")
        self.rules = LiveRules(env.files, env.clock, Path(options.rocketmq_home), options.acl_plain_file)
        self.rules.load()
        trusted = frozenset(key.strip() for key in options.broker_access_keys.split(",") if key.strip())
        window = options.acl_replay_window_seconds
        replay = ReplayGuard(env.clock, window) if window else None
        self.gate = AccessGate(self.rules, namesrv_rules(), env.clock, trusted=trusted, replay=replay)
