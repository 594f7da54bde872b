"""The route table: which broker has which queues of which topic. No I/O, no clock."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from ariane.protocol.bodies import (
    READ,
    WRITE,
    BrokerData,
    ClusterInfo,
    DataVersion,
    QueueData,
    TopicConfig,
    TopicConfigTable,
    TopicRouteData,
)
from ariane.protocol.codes import ResponseCode
from ariane.remoting.limits import LimitExceeded, Reason

MASTER: Final = 0
MAX_NAME: Final = 255
MAX_FILTER_SERVERS: Final = 64  # of one broker
BROKERS_PER_TOPIC: Final = 10  # on average, at the limit of topics


def is_usable_name(name: str) -> bool:
    """Whether a name of a broker, cluster or topic is accepted.

    Wider than the rule for users' topics: brokers are named after hosts, with dots, and register a topic of that name.
    """
    return 0 < len(name) <= MAX_NAME and name.isprintable() and " " not in name


def _read_only(queue: QueueData) -> QueueData:
    return QueueData(
        queue.broker_name, queue.read_queue_nums, queue.write_queue_nums, queue.perm & ~WRITE, queue.topic_sys_flag
    )


@dataclass(frozen=True, slots=True)
class Broker:
    """The broker that registers."""

    cluster: str
    name: str
    id: int
    address: str
    ha_address: str = ""
    epoch: int = 0
    """The number of a master's term; 0 for brokers that have none, such as Apache's."""
    acts: bool = False
    """Whether this slave may act for a missing master."""


@dataclass(slots=True)
class Live:
    """The state of a registered address."""

    heard: float
    """When it last registered, on the monotonic clock."""
    version: DataVersion
    owner: object
    """The connection it registered on."""
    ha_address: str
    names: set[str]
    """The broker names under which the address is registered: one, unless a broker was renamed."""
    epoch: int = 0
    acts: bool = False


@dataclass(frozen=True, slots=True)
class Master:
    """The addresses of a master, for its slaves."""

    address: str
    ha_address: str
    epoch: int


class Routes:
    """Brokers by name, clusters, and topics with their queues; bounded, because any peer can register."""

    def __init__(self, max_brokers: int, max_topics: int) -> None:
        self.revision = 0
        """Grows with every change: values derived from the table are valid for one revision."""
        self._max_brokers = max_brokers
        self._max_topics = max_topics
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._topics_of: dict[str, set[str]] = {}  # by broker name: inverse of `_topics`
        self._entries = 0  # in `_topics`, of all topics
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[str, Live] = {}
        self._owned: dict[object, set[str]] = {}  # addresses by connection: inverse of `_live`
        self._filter_servers: dict[str, list[str]] = {}

    def counts(self) -> dict[str, int]:
        """The number of registered entries of each kind."""
        masters = sum(MASTER in data.broker_addrs for data in self._brokers.values())
        return {
            "brokers": len(self._live),
            "broker_names": len(self._brokers),
            "broker_names_without_master": len(self._brokers) - masters,
            "clusters": len(self._clusters),
            "topics": len(self._topics),
        }

    # Registration.

    def register(
        self, broker: Broker, table: TopicConfigTable, filter_servers: list[str] | None, now: float, owner: object
    ) -> Master | None:
        """Register a broker; returns its master. LimitExceeded, without any change, when a limit is reached.

        Of two masters of one name the one with the higher epoch stays: the other is not registered, and gets the first
        one's addresses as a slave does. With equal epochs, or none, the last wins, as in Apache's name server.
        """
        if broker.id == MASTER:
            rival = self._master(broker.name) if broker.name in self._brokers else None
            if rival is not None and rival.address != broker.address and rival.epoch > broker.epoch:
                return rival
        self._check_room(broker, table, filter_servers or [])
        first = self._place(broker)
        changed = first or self.is_changed(broker.address, table.data_version)
        if broker.id == MASTER and changed:
            self._update_topics(broker.name, table.topic_config_table.values())
        live = self._live.get(broker.address)
        if live is None:
            live = self._live[broker.address] = Live(now, table.data_version, owner, broker.ha_address, set())
        elif live.owner is not owner:
            self._disown(broker.address, live.owner)
        live.heard, live.version, live.owner, live.ha_address = now, table.data_version, owner, broker.ha_address
        live.epoch = broker.epoch
        if live.acts != broker.acts:
            live.acts = broker.acts
            self.revision += 1
        live.names.add(broker.name)
        self._owned.setdefault(owner, set()).add(broker.address)
        self._set_filter_servers(broker.address, filter_servers)
        return None if broker.id == MASTER else self._master(broker.name)

    def _check_room(self, broker: Broker, table: TopicConfigTable, filter_servers: list[str]) -> None:
        for known, name in (
            (self._live, broker.address),
            (self._brokers, broker.name),
            (self._clusters, broker.cluster),
        ):
            if len(known) >= self._max_brokers and name not in known:
                text = f"{self._max_brokers} brokers are registered, the limit (registeredBrokersMax)"
                raise _full(Reason.REGISTERED_BROKERS, text)
        if len(filter_servers) > MAX_FILTER_SERVERS or any(len(server) > MAX_NAME for server in filter_servers):
            text = f"at most {MAX_FILTER_SERVERS} filter servers can be registered by a broker"
            raise _full(Reason.REGISTERED_BROKERS, text)
        if broker.id != MASTER:
            return
        names = {config.topic_name for config in table.topic_config_table.values()}
        if len(self._topics) + len(names - self._topics.keys()) > self._max_topics:
            text = f"more than {self._max_topics} topics, the limit (registeredTopicsMax)"
            raise _full(Reason.REGISTERED_TOPICS, text)
        known_here = self._topics_of.get(broker.name, set())
        if self._entries + len(names - known_here) > self._max_topics * BROKERS_PER_TOPIC:
            text = f"the topics of all brokers exceed {BROKERS_PER_TOPIC} times registeredTopicsMax"
            raise _full(Reason.REGISTERED_TOPICS, text)

    def _place(self, broker: Broker) -> bool:
        """Set the address of the broker's id; True if the id is new.

        An address has one id: when a slave becomes master, its old id is removed.
        """
        self._clusters.setdefault(broker.cluster, set()).add(broker.name)
        data = self._brokers.setdefault(broker.name, BrokerData(broker.cluster, broker.name, {}))
        before = dict(data.broker_addrs)
        data.broker_addrs = {i: a for i, a in before.items() if a != broker.address or i == broker.id}
        data.broker_addrs[broker.id] = broker.address
        if data.broker_addrs != before:
            self.revision += 1
        return broker.id not in before

    def _update_topics(self, broker: str, configs: Iterable[TopicConfig]) -> None:
        known = self._topics_of.setdefault(broker, set())
        for config in configs:
            if is_usable_name(config.topic_name):
                self._topics.setdefault(config.topic_name, {})[broker] = QueueData(
                    broker, config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag
                )
                if config.topic_name not in known:
                    known.add(config.topic_name)
                    self._entries += 1
        self.revision += 1

    def _set_filter_servers(self, address: str, servers: list[str] | None) -> None:
        if servers is None or self._filter_servers.get(address, []) == servers:
            return
        self._filter_servers[address] = servers
        if not servers:
            del self._filter_servers[address]
        self.revision += 1

    def _master(self, name: str) -> Master | None:
        address = self._brokers[name].broker_addrs.get(MASTER)
        live = self._live.get(address) if address else None
        return Master(address, live.ha_address, live.epoch) if address and live else None

    def is_changed(self, address: str, version: DataVersion) -> bool:
        """Whether a broker's topics differ from those known."""
        return self.version(address) != version

    def version(self, address: str) -> DataVersion | None:
        """The version of the topics that a broker registered last."""
        live = self._live.get(address)
        return live.version if live else None

    def touch(self, address: str, now: float) -> None:
        """Note that the broker at an address is alive."""
        if live := self._live.get(address):
            live.heard = now

    def unregister(self, broker: Broker) -> None:
        """Remove a broker that unregisters, unless another address has taken over its id."""
        live = self._live.get(broker.address)
        if live is None or live.names <= {broker.name}:
            self._forget(broker.address)
        else:
            live.names.discard(broker.name)
        data = self._brokers.get(broker.name)
        if data is not None and data.broker_addrs.get(broker.id) == broker.address:
            self._remove_address(data, broker.id)

    def expired(self, oldest: float) -> list[tuple[str, object]]:
        """Addresses and connections of the brokers that last registered before `oldest`."""
        return [(address, live.owner) for address, live in self._live.items() if live.heard < oldest]

    def owned_by(self, owner: object) -> list[str]:
        """Addresses of the brokers that registered on a connection."""
        return list(self._owned.get(owner, ()))

    def evict(self, address: str) -> None:
        """Remove the broker at an address: it has expired, or its connection is lost."""
        live = self._live.get(address)
        self._forget(address)
        for name in live.names if live is not None else ():
            data = self._brokers.get(name)
            for broker_id in [i for i, known in data.broker_addrs.items() if known == address] if data else ():
                assert data is not None
                self._remove_address(data, broker_id)

    def _forget(self, address: str) -> None:
        live = self._live.pop(address, None)
        if live is not None:
            self._disown(address, live.owner)
        self._set_filter_servers(address, [])

    def _disown(self, address: str, owner: object) -> None:
        addresses = self._owned.get(owner)
        if addresses is not None:
            addresses.discard(address)
            if not addresses:
                del self._owned[owner]

    def _remove_address(self, data: BrokerData, broker_id: int) -> None:
        del data.broker_addrs[broker_id]
        self.revision += 1
        if not data.broker_addrs:
            del self._brokers[data.broker_name]
            self._remove_from_clusters(data.broker_name)
            for topic in self._topics_of.pop(data.broker_name, ()):
                self._remove_queues(topic, data.broker_name)

    def _remove_from_clusters(self, name: str) -> None:
        for cluster, names in list(self._clusters.items()):
            names.discard(name)
            if not names:
                del self._clusters[cluster]

    def _remove_queues(self, topic: str, broker: str) -> None:
        queues = self._topics[topic]
        if queues.pop(broker, None) is not None:
            self._entries -= 1
        if not queues:
            del self._topics[topic]

    # Queries.

    def route(self, topic: str) -> TopicRouteData | None:
        """The route of a topic; None when no live broker has queues of it."""
        queues = self._topics.get(topic)
        if not queues:
            return None
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        acting = {broker.broker_name: found for broker in brokers if (found := self._acting_master(broker))}
        if not acting:
            return TopicRouteData(list(queues.values()), brokers, self._filters_of(brokers))
        return TopicRouteData(
            [_read_only(queue) if queue.broker_name in acting else queue for queue in queues.values()],
            [acting.get(broker.broker_name, broker) for broker in brokers],
            self._filters_of(brokers),
        )

    def _acting_master(self, data: BrokerData) -> BrokerData | None:
        """The route entry of a broker without a master: the slave with the lowest id, if it may act, gets id 0.

        So ordered consumers still find a broker that locks queues. Its queues are read-only: nothing can be sent.
        """
        if MASTER in data.broker_addrs or not data.broker_addrs:
            return None
        lowest = data.broker_addrs[min(data.broker_addrs)]
        live = self._live.get(lowest)
        if live is None or not live.acts:
            return None
        addresses = {i: a for i, a in data.broker_addrs.items() if a != lowest}
        return BrokerData(data.cluster, data.broker_name, {MASTER: lowest, **addresses})

    def _filters_of(self, brokers: list[BrokerData]) -> dict[str, list[str]]:
        if not self._filter_servers:
            return {}
        addresses = [address for broker in brokers for address in broker.broker_addrs.values()]
        return {address: self._filter_servers[address] for address in addresses if address in self._filter_servers}

    def cluster_info(self) -> ClusterInfo:
        """All brokers by name, all names by cluster."""
        return ClusterInfo(self._brokers, {cluster: sorted(names) for cluster, names in self._clusters.items()})

    def topics(self) -> list[str]:
        """All topics."""
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        """The topics that a broker of the cluster has."""
        names = self._clusters.get(cluster, set())
        return [topic for topic, queues in self._topics.items() if not names.isdisjoint(queues)]

    def system_topics(self) -> tuple[list[str], str | None]:
        """The topics named after clusters and brokers, and the address of any broker, to ask for the others."""
        names = [name for cluster, brokers in self._clusters.items() for name in (cluster, *sorted(brokers))]
        addresses = (address for data in self._brokers.values() for address in data.broker_addrs.values())
        return list(dict.fromkeys(names)), next(addresses, None)

    def topics_flagged(self, condition: Callable[[int], bool]) -> list[str]:
        """Topics by sys flag, as the first broker of each topic has it."""
        return [t for t, queues in self._topics.items() if condition(next(iter(queues.values())).topic_sys_flag)]

    # Changes by operators.

    def wipe_write_permission(self, broker: str) -> int:
        """Remove write permission from the broker's queues; returns the number of topics."""
        return self._set_permission(broker, lambda permission: permission & ~WRITE)

    def add_write_permission(self, broker: str) -> int:
        """Give the broker's queues read and write permission; returns the number of topics."""
        return self._set_permission(broker, lambda _: READ | WRITE)

    def _set_permission(self, broker: str, change: Callable[[int], int]) -> int:
        touched = [queues[broker] for queues in self._topics.values() if broker in queues]
        for queue in touched:
            queue.perm = change(queue.perm)
        self.revision += 1
        return len(touched)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Remove a topic, everywhere or from the brokers of one cluster."""
        queues = self._topics.get(topic)
        if queues is None:
            return
        names = self._clusters.get(cluster, set()) if cluster else set(queues)
        for name in names.intersection(queues):
            self._topics_of[name].discard(topic)
            self._remove_queues(topic, name)
        self.revision += 1


def _full(reason: Reason, text: str) -> LimitExceeded:
    return LimitExceeded(reason, ResponseCode.SYSTEM_ERROR, text)
