"""Looks at name servers and brokers that run: Ariane's and Apache's."""

import asyncio
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from ariane.cli.doctor.finding import Finding, error, fine, warning
from ariane.cli.servers.host import reach_warning
from ariane.env import Clock
from ariane.errors import ArianeError, ResponseError
from ariane.protocol.bodies import BrokerData, ClusterInfo, KVTable, TopicList, TopicRouteData
from ariane.protocol.codes import RequestCode
from ariane.protocol.command import Command
from ariane.remoting import Client

TIMEOUT: Final = 5.0  # seconds for an answer
MOST_SKEW: Final = 5.0  # seconds
MOST_BEHIND: Final = 64 * 1024 * 1024  # bytes of the log that a slave may lack
MOST_UNDISPATCHED: Final = 64 * 1024 * 1024
MOST_TOPICS: Final = 2000  # whose routes are asked for
MASTER: Final = 0
RUNTIME = re.compile(r"\[ ([\d,]+) days, (\d+) hours, (\d+) minutes, (\d+) seconds \]")

Info = dict[str, str]


class ClusterCheck:
    """Asks every name server and every broker that they know, and compares what they say."""

    def __init__(self, client: Client, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self.found: list[Finding] = []

    async def look(self, name_servers: Iterable[str], expected: str | None = None) -> list[Finding]:
        """Everything that is found; `expected` is the name of a broker that should be registered."""
        infos = await asyncio.gather(*(self._name_server(address) for address in name_servers))
        known = [(address, info) for address, info in infos if info is not None]
        if not known:
            return self.found
        self._compare(known)
        brokers: dict[str, BrokerData] = {}
        for _, info in known:
            brokers.update(info.broker_addr_table)
        if not brokers:
            self.found.append(warning("no-brokers", "no broker is registered", "start one with these name servers"))
        elif expected is not None and expected not in brokers:
            text = f"broker {expected} is not registered; registered are {', '.join(sorted(brokers))}"
            self.found.append(warning("not-registered", text, "start it, or look at its log if it runs"))
        await asyncio.gather(*(self._broker(data) for data in brokers.values()))
        await self._topics(known[0][0], brokers)
        return self.found

    async def _name_server(self, address: str) -> tuple[str, ClusterInfo | None]:
        try:
            answer = await self._ask(address, RequestCode.GET_BROKER_CLUSTER_INFO)
            info = ClusterInfo.decode(answer.body)
        except ArianeError as problem:
            advice = "start it, or correct namesrvAddr"
            self.found.append(error("name-server", f"the name server {address} cannot be asked: {problem}", advice))
            return address, None
        self.found.append(fine("name-server", f"{address} answers"))
        return address, info

    def _compare(self, known: list[tuple[str, ClusterInfo]]) -> None:
        """Every broker should be registered with every name server."""
        everything = {
            (name, number, address)
            for _, info in known
            for name, data in info.broker_addr_table.items()
            for number, address in data.broker_addrs.items()
        }
        for server, info in known:
            table = info.broker_addr_table
            for name, number, address in sorted(everything):
                if name not in table or table[name].broker_addrs.get(number) != address:
                    text = (
                        f"broker {name} ({address}) is not registered with the name server {server}, but with another"
                    )
                    self.found.append(warning("name-servers-differ", text, "list every name server in its namesrvAddr"))

    async def _broker(self, data: BrokerData) -> None:
        addresses = dict(data.broker_addrs)
        infos = await asyncio.gather(*(self._reach(data.broker_name, address) for address in addresses.values()))
        by_id = {number: info for number, info in zip(addresses, infos, strict=True) if info is not None}
        if MASTER not in addresses:
            text = f"broker {data.broker_name} has no master: its topics cannot be written"
            self.found.append(error("no-master", text, "start the master, or promote a slave"))
        for number, info in by_id.items():
            self._look_at(data.broker_name, addresses[number], info)
            if number != MASTER and MASTER in by_id:
                self._look_at_slave(data.broker_name, addresses[number], by_id[MASTER], info)

    async def _reach(self, name: str, address: str) -> Info | None:
        """The runtime information of a broker at the address that clients are told."""
        try:
            answer = await self._ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)
            self.found.append(fine("broker", f"{name} answers at {address}"))
            return dict(KVTable.decode(answer.body).table)
        except ResponseError as problem:
            text = f"broker {name} at {address} does not show its state: {problem}"
            advice = "give a file by -c, with brokerAccessKey and brokerSecretKey of an account that may ask"
            self.found.append(warning("broker-access", text, advice))
        except ArianeError as problem:
            text = f"broker {name} is registered as {address}, which cannot be reached from here: {problem}"
            reach = reach_warning(address.rpartition(":")[0], "brokerIP1")
            advice = "set brokerIP1 to an address that clients can reach, and open its port"
            self.found.append(error("broker-address", text, f"{reach}; {advice}" if reach else advice))
        return None

    def _look_at(self, name: str, address: str, info: Info) -> None:
        skew = self._skew(info)
        if skew is not None and abs(skew) > MOST_SKEW:
            text = f"the clock of broker {name} ({address}) is {abs(skew):.0f} s {'ahead' if skew > 0 else 'behind'}"
            advice = "run a time service: store times, delays and lookups by time follow these clocks"
            self.found.append(warning("clock-skew", text, advice))
        used = _number(info.get("commitLogDiskRatio"))
        if used >= 0.90:
            text = f"the disk of broker {name} ({address}) is {used:.0%} full: it refuses messages, or will soon"
            self.found.append(error("broker-disk", text, "free some room, or lower fileReservedTime"))
        elif used >= 0.75:
            text = f"the disk of broker {name} ({address}) is {used:.0%} full: old messages are deleted early"
            self.found.append(warning("broker-disk", text, "free some room, or lower fileReservedTime"))
        behind = _number(info.get("dispatchBehindBytes"))
        if behind > MOST_UNDISPATCHED:
            text = f"broker {name} ({address}) has {behind:.0f} bytes that are in no queue yet"
            self.found.append(warning("dispatch", text, "consumers get these late; look at its load and its log"))
        conflicts = int(_number(info.get("inconsistentSubscriptionGroups")))
        if conflicts:
            groups = info.get("inconsistentSubscriptionGroupNames") or f"{conflicts} groups"
            text = f"members of these groups subscribe to different things at broker {name}: {groups}"
            advice = "make all members of a group subscribe to the same topics and tags: they miss messages"
            self.found.append(error("group-conflict", text, advice))

    def _look_at_slave(self, name: str, address: str, master: Info, slave: Info) -> None:
        behind = _number(master.get("commitLogMaxOffset")) - _number(slave.get("commitLogMaxOffset"))
        if behind > MOST_BEHIND:
            text = f"slave {address} of broker {name} lacks {behind:.0f} bytes of the log"
            self.found.append(warning("slave-behind", text, "look at its log, its disk and the network between"))

    def _skew(self, info: Info) -> float | None:
        """Seconds by which a broker's clock is ahead: its start and how long it has run tell its time."""
        match = RUNTIME.fullmatch(info.get("runtime", ""))
        if match is None or not info.get("bootTimestamp", "").isdigit():
            return None
        days, hours, minutes, seconds = (int(part.replace(",", "")) for part in match.groups())
        running = ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        return int(info["bootTimestamp"]) / 1000 + running - self._clock.now_ms() / 1000

    async def _topics(self, name_server: str, brokers: dict[str, BrokerData]) -> None:
        """Topics whose every broker is without a master."""
        headless = {name for name, data in brokers.items() if MASTER not in data.broker_addrs}
        if not headless:
            return
        try:
            answer = await self._ask(name_server, RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
            topics = TopicList.decode(answer.body).topic_list[:MOST_TOPICS]
            routes = await asyncio.gather(*(self._route(name_server, topic) for topic in topics))
        except ArianeError:
            return
        lost: dict[str, list[str]] = defaultdict(list)
        for topic, holders in zip(topics, routes, strict=True):
            if holders and holders <= headless:
                lost[", ".join(sorted(holders))].append(topic)
        for names, found in lost.items():
            text = f"{len(found)} topics are on {names} only, without a master: {', '.join(sorted(found)[:10])}"
            self.found.append(error("topic-without-master", text, "start the master, or promote a slave"))

    async def _route(self, name_server: str, topic: str) -> set[str]:
        answer = await self._ask(name_server, RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        return {data.broker_name for data in TopicRouteData.decode(answer.body).broker_datas}

    async def _ask(self, address: str, code: int, fields: dict[str, str] | None = None) -> Command:
        answer = await self._client.request(address, Command(code, fields), TIMEOUT)
        if answer.code != 0:
            raise ResponseError(answer.code, answer.remark or "no reason given")
        return answer


def _number(text: str | None) -> float:
    try:
        return float(text or 0)
    except ValueError:
        return 0.0
