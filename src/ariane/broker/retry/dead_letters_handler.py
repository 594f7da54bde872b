"""RESEND_DEAD_LETTERS, a request of Ariane's own: an operator sends dead letters to their original topic again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ariane.broker.names import check_group
from ariane.broker.permissions import RESEND_DEAD_LETTERS
from ariane.broker.retry.dead_letters import DeadLetters
from ariane.protocol.command import Command
from ariane.protocol.fastjson import dumps
from ariane.protocol.headers import Header, Int32, Int64
from ariane.remoting import Connection, Handler

if TYPE_CHECKING:
    from ariane.broker.server import Broker


class ResendDeadLettersRequest(Header):
    """Which letters: of a group, from a queue offset on."""

    consumer_group: str
    offset: Int64
    count: Int32 = 1
    queue_id: Int32 = 0


def handlers(broker: Broker) -> dict[int, Handler]:
    letters = DeadLetters(broker)

    def resend(_: Connection, request: Command) -> Command:
        header = ResendDeadLettersRequest.parse(request.fields)
        group = check_group(header.consumer_group)
        sent = letters.resend(group, header.offset, header.count, header.queue_id)
        rows = [
            {
                "deadOffset": letter.dead_offset,
                "topic": letter.topic,
                "queueId": letter.queue_id,
                "queueOffset": letter.queue_offset,
                "msgId": letter.message_id,
            }
            for letter in sent
        ]
        return request.reply(body=dumps({"resent": rows}))

    return {RESEND_DEAD_LETTERS: resend}
