"""Asks the connected consumers for their own figures once a minute, as rocketmq-exporter does through the broker."""

import asyncio
import logging
from typing import Final

from ariane.broker.tables.clients import ClientInfo, ClientTable
from ariane.errors import ArianeError
from ariane.ops.metrics import label_text
from ariane.protocol.bodies import ConsumerRunningInfo
from ariane.protocol.codes import V3_1_8_SNAPSHOT, RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import GetConsumerRunningInfoRequest

log = logging.getLogger("ariane.broker")

TIMEOUT: Final = 5.0  # seconds for a client to answer
AT_ONCE: Final = 16  # clients asked at a time
MOST: Final = 5000  # clients asked in a round

Figures = tuple[float, float, float, float, float, float]
"""Failed messages, failed a second, consumed a second, ms of consuming, ms of a pull, pulled a second."""


class ConsumerPoll:
    """Keeps the figures that consumers reported in the last round; each round replaces all of them."""

    def __init__(self, clients: ClientTable) -> None:
        self._clients = clients
        self._rows: list[tuple[str, Figures]] = []

    def rows(self) -> list[tuple[str, Figures]]:
        """Labels (clientAddr, clientId, group, topic) and figures of each consumer and topic."""
        return self._rows

    async def round(self) -> None:
        """Ask every consumer. One that does not answer is left out of this round."""
        asked = [
            (group.name, member, set(group.subscriptions))
            for group in self._clients.consumer_groups()
            for member in group.members.values()
            if member.version >= V3_1_8_SNAPSHOT
        ][:MOST]
        turn = asyncio.Semaphore(AT_ONCE)

        async def ask(group: str, member: ClientInfo, topics: set[str]) -> list[tuple[str, Figures]]:
            async with turn:
                return await _ask(group, member, topics)

        answers = await asyncio.gather(*(ask(*one) for one in asked))
        self._rows = [row for answer in answers for row in answer]


async def _ask(group: str, member: ClientInfo, topics: set[str]) -> list[tuple[str, Figures]]:
    fields = GetConsumerRunningInfoRequest(group, member.client_id).fields()
    try:
        answer = await member.connection.request(Command(RequestCode.GET_CONSUMER_RUNNING_INFO, fields), TIMEOUT)
        if answer.code != ResponseCode.SUCCESS:
            return []
        statuses = ConsumerRunningInfo.decode(answer.body).status_table
    except ArianeError as error:
        log.debug("consumer %s of group %s gives no figures: %s", member.client_id, group, error)
        return []
    return [
        (
            label_text(
                {"clientAddr": member.connection.peer, "clientId": member.client_id, "group": group, "topic": topic}
            ),
            (
                status.consume_failed_msgs,
                status.consume_failed_tps,
                status.consume_ok_tps,
                status.consume_rt,
                status.pull_rt,
                status.pull_tps,
            ),
        )
        for topic, status in statuses.items()
        if topic in topics  # known topics only: a client must not be able to create series at will
    ]
