"""Requests to the other brokers of the same name: the master of a slave, the slaves of a master."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ariane.broker.role import MASTER_ID
from ariane.broker.tables.offsets import COMMITTED_HERE, split_key
from ariane.errors import ArianeError, ResponseError
from ariane.protocol.bodies import ClusterInfo, ConsumerOffsetTable, KVTable
from ariane.protocol.codes import BROKER_PROMOTED, RequestCode
from ariane.protocol.command import Command
from ariane.protocol.headers import PromoteBrokerResponse, UpdateConsumerOffsetRequest
from ariane.remoting import Client

log = logging.getLogger("ariane.broker.replication")

TIMEOUT: Final = 3.0  # seconds, as Apache's slave waits
_LONGEST: Final = 20  # characters of a number


@dataclass(frozen=True, slots=True)
class PeerState:
    """The state that a broker reports of itself. The epoch of an Apache broker is 0."""

    epoch: int
    is_master: bool
    log_max: int
    log_min: int
    ha_address: str = ""
    """Where a master serves slaves; an Apache broker does not tell."""


class Peers:
    """Sends requests to other brokers. Every call raises ArianeError when there is no valid answer."""

    def __init__(self, client: Client, name: str, name_servers: Callable[[], list[str]]) -> None:
        self._client = client
        self.name = name
        """The name that the brokers share."""
        self._name_servers = name_servers

    async def ask(self, address: str, code: int, fields: dict[str, str] | None = None) -> Command:
        """Send a request; ResponseError when it is refused."""
        answer = await self._client.request(address, Command(code, fields), TIMEOUT)
        if answer.code != 0:
            raise ResponseError(answer.code, answer.remark or "no reason given")
        return answer

    async def state(self, address: str) -> PeerState:
        """The state of a broker, from its runtime information."""
        table = KVTable.decode((await self.ask(address, RequestCode.GET_BROKER_RUNTIME_INFO)).body).table
        return PeerState(
            epoch=_number(table, "brokerEpoch"),
            is_master=table.get("brokerRole", "ASYNC_MASTER") != "SLAVE",
            log_max=_number(table, "commitLogMaxOffset"),
            log_min=_number(table, "commitLogMinOffset"),
            ha_address=table.get("haServerAddr", ""),
        )

    async def same_name(self) -> dict[int, set[str]]:
        """The addresses under this broker's name by id, as all reachable name servers know them."""
        found: dict[int, set[str]] = {}
        for server in self._name_servers():
            try:
                answer = await self.ask(server, RequestCode.GET_BROKER_CLUSTER_INFO)
                data = ClusterInfo.decode(answer.body).broker_addr_table.get(self.name)
            except ArianeError as error:
                log.debug("%s does not list the brokers: %s", server, error)
                continue
            for broker_id, address in data.broker_addrs.items() if data else ():
                found.setdefault(broker_id, set()).add(address)
        return found

    async def committed_at(self, address: str) -> ConsumerOffsetTable:
        """The offsets that clients committed on a slave while it served them; of an Apache slave, all its offsets."""
        answer = await self.ask(address, RequestCode.GET_ALL_CONSUMER_OFFSET, {COMMITTED_HERE: "true"})
        return ConsumerOffsetTable.decode(answer.body)

    async def commit(self, address: str, table: ConsumerOffsetTable) -> None:
        """Commit offsets on a broker. One-way, so that an Ariane broker keeps its own where that is higher."""
        for key, queues in table.offset_table.items():
            topic, group = split_key(key)
            for queue_id, offset in queues.items():
                header = UpdateConsumerOffsetRequest(group, topic, queue_id, offset)
                await self._client.oneway(address, Command(RequestCode.UPDATE_CONSUMER_OFFSET, header.fields()))

    async def tell_promoted(self, address: str, epoch: int, log_max: int) -> None:
        """Tell a broker that this one was promoted, so that it need not wait for its next registration."""
        command = Command(BROKER_PROMOTED, PromoteBrokerResponse(epoch, log_max).fields())
        try:
            await self._client.oneway(address, command)
        except ArianeError as error:
            log.info("%s is not told of the promotion: %s", address, error)


def ha_address(address: str) -> str:
    """The port for slaves of a broker, by RocketMQ's rule.

    >>> ha_address("10.0.0.7:10911")
    '10.0.0.7:10912'
    """
    host, _, port = address.rpartition(":")
    return f"{host}:{int(port) + 1}"


def free_id(taken: dict[int, set[str]]) -> int:
    """The lowest id for a slave that no other broker of the name has.

    >>> free_id({0: {"a:1"}, 1: {"b:1"}, 3: {"c:1"}})
    2
    """
    broker_id = MASTER_ID + 1
    while taken.get(broker_id):
        broker_id += 1
    return broker_id


def _number(table: dict[str, str], name: str) -> int:
    text = table.get(name, "")
    return int(text) if len(text) <= _LONGEST and text.isascii() and text.removeprefix("-").isdecimal() else 0
