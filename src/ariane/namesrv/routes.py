"""The table of routes: which broker has which queues of which topic. No I/O and no clock of its own."""

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

MASTER: Final = 0
UNIT: Final = 1  # bits of a topic's sys flag
UNIT_SUB: Final = 2
MAX_NAME: Final = 255


def is_usable_name(name: str) -> bool:
    """Whether a broker, cluster or topic may be called so here.

    Wider than the rule for users' topics: brokers are named after hosts, with dots, and register a topic of that name.
    """
    return 0 < len(name) <= MAX_NAME and name.isprintable() and " " not in name


@dataclass(frozen=True, slots=True)
class Broker:
    """Who registers."""

    cluster: str
    name: str
    id: int
    address: str
    ha_address: str = ""


@dataclass(slots=True)
class Live:
    """What is known of a broker while it registers again and again."""

    updated_ms: int
    version: DataVersion
    owner: object
    """The connection it registered on."""
    ha_address: str


@dataclass(frozen=True, slots=True)
class Master:
    """Where a slave finds its master."""

    address: str
    ha_address: str


class Routes:
    """Brokers by name, clusters, and topics with their queues."""

    def __init__(self) -> None:
        self.revision = 0
        """Grows with every change, so that whoever keeps something made from the table knows when it is old."""
        self._topics: dict[str, dict[str, QueueData]] = {}
        self._brokers: dict[str, BrokerData] = {}
        self._clusters: dict[str, set[str]] = {}
        self._live: dict[str, Live] = {}
        self._filter_servers: dict[str, list[str]] = {}

    # Brokers come and go.

    def register(
        self, broker: Broker, table: TopicConfigTable, filter_servers: list[str] | None, now_ms: int, owner: object
    ) -> Master | None:
        """Take in what a broker says of itself; a slave is told where its master is."""
        first = self._place(broker)
        changed = first or self.is_changed(broker.address, table.data_version)
        if broker.id == MASTER and changed:
            self._update_topics(broker.name, table.topic_config_table.values())
        self._live[broker.address] = Live(now_ms, table.data_version, owner, broker.ha_address)
        self._set_filter_servers(broker.address, filter_servers)
        return None if broker.id == MASTER else self._master(broker.name)

    def _place(self, broker: Broker) -> bool:
        """Put the broker's address under its id; whether that id was not there before.

        One address has one id: a slave that becomes master leaves its old place.
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
        for config in configs:
            if is_usable_name(config.topic_name):
                self._topics.setdefault(config.topic_name, {})[broker] = QueueData(
                    broker, config.read_queue_nums, config.write_queue_nums, config.perm, config.topic_sys_flag
                )
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
        return Master(address, live.ha_address) if address and live else None

    def is_changed(self, address: str, version: DataVersion) -> bool:
        """Whether a broker's topics are not those known here."""
        return self.version(address) != version

    def version(self, address: str) -> DataVersion | None:
        """The version of the topics that a broker registered last."""
        live = self._live.get(address)
        return live.version if live else None

    def touch(self, address: str, now_ms: int) -> None:
        """The broker at an address is alive."""
        if live := self._live.get(address):
            live.updated_ms = now_ms

    def unregister(self, broker: Broker) -> None:
        """Forget a broker that says goodbye. Its place stays if another took it over meanwhile."""
        self._live.pop(broker.address, None)
        self._set_filter_servers(broker.address, [])
        data = self._brokers.get(broker.name)
        if data is not None and data.broker_addrs.get(broker.id) == broker.address:
            self._remove_address(data, broker.id)

    def expired(self, oldest_ms: int) -> list[tuple[str, object]]:
        """Addresses and connections of the brokers that were last heard of before `oldest_ms`."""
        return [(address, live.owner) for address, live in self._live.items() if live.updated_ms < oldest_ms]

    def owned_by(self, owner: object) -> list[str]:
        """Addresses of the brokers that registered on a connection."""
        return [address for address, live in self._live.items() if live.owner is owner]

    def evict(self, address: str) -> None:
        """Forget the broker at an address: it is silent, or its connection is gone."""
        self._live.pop(address, None)
        self._set_filter_servers(address, [])
        for data in list(self._brokers.values()):
            for broker_id in [i for i, known in data.broker_addrs.items() if known == address]:
                self._remove_address(data, broker_id)

    def _remove_address(self, data: BrokerData, broker_id: int) -> None:
        del data.broker_addrs[broker_id]
        self.revision += 1
        if not data.broker_addrs:
            del self._brokers[data.broker_name]
            self._remove_from_clusters(data.broker_name)
            self._remove_from_topics(data.broker_name)

    def _remove_from_clusters(self, name: str) -> None:
        for cluster, names in list(self._clusters.items()):
            names.discard(name)
            if not names:
                del self._clusters[cluster]

    def _remove_from_topics(self, name: str) -> None:
        for queues in self._topics.values():
            queues.pop(name, None)
        self._topics = {topic: queues for topic, queues in self._topics.items() if queues}

    # What clients and tools ask.

    def route(self, topic: str) -> TopicRouteData | None:
        """Where the queues of a topic are; None when no living broker has any."""
        queues = self._topics.get(topic)
        if not queues:
            return None
        brokers = [self._brokers[name] for name in queues if name in self._brokers]
        if not brokers:
            return None
        return TopicRouteData(list(queues.values()), brokers, self._filters_of(brokers))

    def _filters_of(self, brokers: list[BrokerData]) -> dict[str, list[str]]:
        if not self._filter_servers:
            return {}
        addresses = [address for broker in brokers for address in broker.broker_addrs.values()]
        return {address: self._filter_servers[address] for address in addresses if address in self._filter_servers}

    def cluster_info(self) -> ClusterInfo:
        """All brokers by name, all names by cluster."""
        return ClusterInfo(self._brokers, {cluster: sorted(names) for cluster, names in self._clusters.items()})

    def topics(self) -> list[str]:
        return list(self._topics)

    def topics_of_cluster(self, cluster: str) -> list[str]:
        names = self._clusters.get(cluster, set())
        return [topic for topic, queues in self._topics.items() if not names.isdisjoint(queues)]

    def system_topics(self) -> tuple[list[str], str | None]:
        """The topics named after clusters and brokers, and the address of some broker that knows the others."""
        names = [name for cluster, brokers in self._clusters.items() for name in (cluster, *sorted(brokers))]
        addresses = (address for data in self._brokers.values() for address in data.broker_addrs.values())
        return list(dict.fromkeys(names)), next(addresses, None)

    def topics_flagged(self, condition: Callable[[int], bool]) -> list[str]:
        """Topics by sys flag. All brokers of a topic should agree on it, so the first is asked."""
        return [t for t, queues in self._topics.items() if condition(next(iter(queues.values())).topic_sys_flag)]

    # What operators do.

    def wipe_write_permission(self, broker: str) -> int:
        """Nothing more may be sent to the broker's queues; how many topics that touches."""
        return self._set_permission(broker, lambda permission: permission & ~WRITE)

    def add_write_permission(self, broker: str) -> int:
        """The broker's queues may be read and written; how many topics that touches."""
        return self._set_permission(broker, lambda _: READ | WRITE)

    def _set_permission(self, broker: str, change: Callable[[int], int]) -> int:
        touched = [queues[broker] for queues in self._topics.values() if broker in queues]
        for queue in touched:
            queue.perm = change(queue.perm)
        self.revision += 1
        return len(touched)

    def delete_topic(self, topic: str, cluster: str | None = None) -> None:
        """Forget a topic, everywhere or on the brokers of one cluster."""
        queues = self._topics.get(topic)
        if queues is None:
            return
        names = self._clusters.get(cluster, set()) if cluster else set(queues)
        for name in names:
            queues.pop(name, None)
        if not queues:
            del self._topics[topic]
        self.revision += 1
