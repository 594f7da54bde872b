"""RESEND_DEAD_LETTERS, a request of Ariane's own: an operator sends dead letters to their original topic again."""

import logging
from random import Random
from typing import Any

from ariane.broker.message_writer import MessageWriter
from ariane.broker.names import check_group, check_may_send
from ariane.broker.refusals import topic_is_read_only
from ariane.broker.retry.retries import original_topic, resurrected
from ariane.broker.stats import BrokerStats
from ariane.broker.tables.topics import TopicTable
from ariane.errors import ResponseError
from ariane.message import dead_letter_topic
from ariane.protocol.bodies.topics import WRITE
from ariane.protocol.codes import ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.fastjson import dumps
from ariane.protocol.headers import Header, Int32, Int64
from ariane.protocol.ids import offset_id
from ariane.protocol.units import Unit
from ariane.remoting import Connection
from ariane.store import MessageStore, PutStatus

log = logging.getLogger("ariane.broker")

MOST = 1000  # letters of one request


class ResendDeadLettersRequest(Header):
    """Which letters to resend: those of a group, from a queue offset on."""

    consumer_group: str
    offset: Int64
    count: Int32 = 1
    queue_id: Int32 = 0


class DeadLettersHandler:
    """Resends dead letters."""

    def __init__(
        self, topics: TopicTable, store: MessageStore, writer: MessageWriter, stats: BrokerStats, random: Random
    ) -> None:
        self._topics = topics
        self._store = store
        self._writer = writer
        self._stats = stats
        self._random = random

    def resend(self, _: Connection, request: Command) -> Command:
        """Send letters again from a queue offset on, each to its original topic, as new messages for all its groups.

        The letters stay in the dead-letter topic, which is a log like any other. It stops at the first letter that
        cannot be sent; the answer is an error only if that is the first of all.
        """
        header = ResendDeadLettersRequest.parse(request.fields)
        if header.count < 1 or header.count > MOST:
            remark = f"{header.count} dead letters at once are out of range 1..{MOST}"
            raise ResponseError(ResponseCode.SYSTEM_ERROR, remark)
        topic = dead_letter_topic(check_group(header.consumer_group))
        entries = self._store.queue_entries(topic, header.queue_id, header.offset, header.count)
        if not entries:
            raise ResponseError(ResponseCode.QUERY_NOT_FOUND, f"{topic} has no dead letter at {header.offset}")
        resent: list[dict[str, Any]] = []
        for offset, entry in enumerate(entries, header.offset):
            try:
                resent.append(self._resend(offset, self._store.unit_at(entry[0])))
            except ResponseError as error:
                if not resent:
                    raise
                log.warning("%s: letters up to %d were sent again, then: %s", topic, offset - 1, error)
                break
        return request.reply(body=dumps({"resent": resent}))

    def _resend(self, offset: int, letter: Unit | None) -> dict[str, Any]:
        """Send one letter; the row of the answer."""
        topic = original_topic(letter) if letter is not None else None
        config = self._topics.get(topic) if topic is not None else None
        if letter is None or topic is None or config is None:
            remark = f"dead letter {offset}: its topic {topic} does not exist here"
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, remark)
        check_may_send(topic)  # the property that names the topic may be the sender's
        if not config.perm & WRITE or config.write_queue_nums < 1:
            raise topic_is_read_only(topic)
        queue_id = self._random.randrange(config.write_queue_nums)
        result = self._writer.append(resurrected(letter, topic, queue_id))
        if result.status is not PutStatus.OK:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, result.status.value)
        self._stats.put(topic, queue_id, 1, result.size)
        return {
            "deadOffset": offset,
            "topic": topic,
            "queueId": queue_id,
            "queueOffset": result.queue_offset,
            "msgId": offset_id(self._writer.host, result.physical_offset),
        }
