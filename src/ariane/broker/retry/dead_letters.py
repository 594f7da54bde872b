"""Dead letters in the hands of an operator: sent again to the topic they were meant for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ariane.broker.refusals import topic_is_read_only
from ariane.broker.retry.retries import original_topic, resurrected
from ariane.errors import ResponseError
from ariane.message import dead_letter_topic
from ariane.protocol.bodies.topics import WRITE
from ariane.protocol.codes import ResponseCode
from ariane.protocol.ids import offset_id
from ariane.protocol.units import Unit
from ariane.store import PutStatus

if TYPE_CHECKING:
    from ariane.broker.server import Broker

log = logging.getLogger("ariane.broker")

MOST = 1000  # letters of one request


@dataclass(frozen=True, slots=True)
class Resent:
    """A dead letter that was sent again: where it lay, and where it is now."""

    dead_offset: int
    topic: str
    queue_id: int
    queue_offset: int
    message_id: str


class DeadLetters:
    """The dead letters of a broker's groups."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def resend(self, group: str, offset: int, count: int = 1, queue_id: int = 0) -> list[Resent]:
        """Send letters again from a queue offset on, each to its original topic, as fresh messages for all its groups.

        The letters stay where they are: the dead-letter queue is a log like any other. It stops at the first letter
        that cannot be sent, and says why unless letters before it were sent.
        """
        if count < 1 or count > MOST:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, f"{count} dead letters at once are out of range 1..{MOST}")
        topic = dead_letter_topic(group)
        entries = self._broker.store.queue_entries(topic, queue_id, offset, count)
        if not entries:
            raise ResponseError(ResponseCode.QUERY_NOT_FOUND, f"{topic} has no dead letter at {offset}")
        resent: list[Resent] = []
        for at, (physical, _, _) in enumerate(entries, offset):
            try:
                resent.append(self._resend(at, self._broker.store.unit_at(physical)))
            except ResponseError as error:
                if not resent:
                    raise
                log.warning("%s: letters up to %d were sent again, then: %s", topic, at - 1, error)
                break
        return resent

    def _resend(self, offset: int, letter: Unit | None) -> Resent:
        topic = original_topic(letter) if letter is not None else None
        config = self._broker.topics.get(topic) if topic is not None else None
        if letter is None or topic is None or config is None:
            raise ResponseError(ResponseCode.TOPIC_NOT_EXIST, f"dead letter {offset}: its topic {topic} is not here")
        if not config.perm & WRITE or config.write_queue_nums < 1:
            raise topic_is_read_only(topic)
        queue_id = self._broker.env.random.randrange(config.write_queue_nums)
        result = self._broker.writer.append(resurrected(letter, topic, queue_id))
        if result.status is not PutStatus.OK:
            raise ResponseError(ResponseCode.SYSTEM_ERROR, result.status.value)
        self._broker.stats.put(topic, queue_id, 1, result.size)
        message_id = offset_id(self._broker.writer.host, result.physical_offset)
        return Resent(offset, topic, queue_id, result.queue_offset, message_id)
