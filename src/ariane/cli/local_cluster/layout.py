"""The layouts of RocketMQ's classic configuration sets, and the options of each member."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

STEP: Final = 10  # from one broker's ports to the next one's
METRICS: Final = 4  # from a broker's port to the one of its metrics
MEMBER: Final = 5  # from a broker's port to the one of its DLedger member


class LayoutName(StrEnum):
    """The layouts, named as RocketMQ's folders of configuration files are."""

    NO_SLAVE = "2m-noslave"
    ASYNC = "2m-2s-async"
    SYNC = "2m-2s-sync"
    DLEDGER = "dledger"


@dataclass(frozen=True)
class Role:
    """A broker of a layout: the name of its files, and the options that make its role."""

    name: str
    options: dict[str, str]


def _pairs(master: str, slaves: bool) -> list[Role]:
    found = []
    for broker in ("broker-a", "broker-b"):
        options = {"brokerName": broker, "brokerId": "0", "brokerRole": master}
        if master == "SYNC_MASTER":
            options["writesAwaitSlavesSeconds"] = "30"
        found.append(Role(broker, options))
        if slaves:
            found.append(Role(f"{broker}-s", {"brokerName": broker, "brokerId": "1", "brokerRole": "SLAVE"}))
    return found


GROUP: Final = "RaftNode00"
ROLES: Final = {
    LayoutName.NO_SLAVE: _pairs("ASYNC_MASTER", slaves=False),
    LayoutName.ASYNC: _pairs("ASYNC_MASTER", slaves=True),
    LayoutName.SYNC: _pairs("SYNC_MASTER", slaves=True),
    LayoutName.DLEDGER: [
        Role(
            f"broker-n{number}",
            {
                "brokerName": GROUP,
                "enableDLegerCommitLog": "true",
                "dLegerGroup": GROUP,
                "dLegerSelfId": f"n{number}",
            },
        )
        for number in range(3)
    ],
}


@dataclass(frozen=True)
class Member:
    """A process of the cluster: `ariane COMMAND -c CONFIG`."""

    name: str
    command: str
    role: str
    port: int
    metrics_port: int
    options: dict[str, str]

    @property
    def ports(self) -> list[int]:
        """All that it listens on: a broker also for the VIP channel, and for slaves or the group's members."""
        if self.command == "namesrv":
            return [self.port, self.metrics_port]
        beside = MEMBER if "dLegerGroup" in self.options else 1
        return [self.port - 2, self.port, self.port + beside, self.metrics_port]


def members_of(layout: LayoutName, folder: Path, namesrv_port: int, broker_port: int) -> list[Member]:
    """The members of a layout, the name server first; all listen on loopback and keep small files."""
    home = folder / "namesrv"
    shared = {"bindAddress": "127.0.0.1", "metricsExporterType": "PROM"}
    metrics = broker_port - METRICS
    names = {
        **shared,
        "listenPort": str(namesrv_port),
        "metricsPromExporterPort": str(metrics),
        "rocketmqHome": str(home),
        "kvConfigPath": str(home / "kvConfig.json"),
    }
    found = [Member("namesrv", "namesrv", "name server", namesrv_port, metrics, names)]
    ports = [broker_port + STEP * number for number in range(len(ROLES[layout]))]
    for role, port in zip(ROLES[layout], ports, strict=True):
        options = {
            "brokerClusterName": "DefaultCluster",
            **role.options,
            **shared,
            "brokerIP1": "127.0.0.1",
            "brokerIP2": "127.0.0.1",
            "namesrvAddr": f"127.0.0.1:{namesrv_port}",
            "listenPort": str(port),
            "metricsPromExporterPort": str(port + METRICS),
            "storePathRootDir": str(folder / role.name / "store"),
            "mappedFileSizeCommitLog": str(64 << 20),
            "maxHashSlotNum": "50000",
            "maxIndexNum": "200000",
        }
        if layout is LayoutName.DLEDGER:
            options["dLegerPeers"] = ";".join(f"n{n}-127.0.0.1:{p + MEMBER}" for n, p in enumerate(ports))
        kind = role.options.get("brokerRole", "DLedger member")
        found.append(Member(role.name, "broker", kind, port, port + METRICS, options))
    return found
