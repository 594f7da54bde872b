"""Returns failed messages to the broker, which delivers them again later or makes them dead letters."""

import logging

from ariane.client.connect.instance import Instance
from ariane.client.connect.namespaces import wrap
from ariane.client.decoding import is_body_as_stored
from ariane.client.options import ClientOptions
from ariane.client.producer.internal import InternalProducer
from ariane.errors import ArianeError
from ariane.message import (
    DELAY,
    MAX_RECONSUME_TIMES,
    ORIGIN_MESSAGE_ID,
    RECONSUME_TIME,
    RETRY_TOPIC,
    TRANSACTION_PREPARED,
    Message,
    ReceivedMessage,
    retry_topic,
)
from ariane.protocol.codes import RequestCode
from ariane.protocol.headers import ConsumerSendMsgBackRequest
from ariane.protocol.units import COMPRESSED, COMPRESSION_TYPE

log = logging.getLogger("ariane.client")

INNER_GROUP = "CLIENT_INNER_PRODUCER"
NO_LIMIT = (1 << 31) - 1


class SendBack:
    """Sends messages back; when the broker refuses, sends a copy to the group's retry topic."""

    def __init__(self, group: str, instance: Instance, options: ClientOptions, max_reconsume_times: int) -> None:
        self._group = group
        self._namespace = options.namespace
        self._instance = instance
        self._most = max_reconsume_times
        self._producer = InternalProducer(instance, INNER_GROUP, options)

    async def send(self, message: ReceivedMessage, delay_level: int) -> bool:
        """Send one message back; False when neither way worked."""
        header = ConsumerSendMsgBackRequest(
            message.physical_offset,
            self._group,
            delay_level,
            message.message_id,
            wrap(self._namespace, message.topic),
            max_reconsume_times=self._most,
        )
        try:
            address = await self._instance.calls.master(message.queue)
            await self._instance.wire.ask(address, RequestCode.CONSUMER_SEND_MSG_BACK, header, timeout=5.0)
        except ArianeError as error:
            log.warning(
                "%s: the broker did not take message %s back, sending a copy: %s",
                self._group,
                message.message_id,
                error,
            )
            return await self.send_copy(message, min(message.reconsume_times + 1, NO_LIMIT))
        return True

    async def send_copy(self, message: ReceivedMessage, reconsume_times: int) -> bool:
        """Send a copy to the retry topic; the broker makes it a dead letter when it was retried too often."""
        properties = {name: value for name, value in message.properties.items() if name != TRANSACTION_PREPARED}
        properties[ORIGIN_MESSAGE_ID] = properties.get(ORIGIN_MESSAGE_ID) or message.message_id
        properties[RETRY_TOPIC] = wrap(self._namespace, message.topic)
        properties[RECONSUME_TIME] = str(reconsume_times)
        properties[MAX_RECONSUME_TIMES] = str(self._most)
        properties[DELAY] = str(3 + message.reconsume_times)
        stored_flag = message.sys_flag & (COMPRESSED | COMPRESSION_TYPE) if is_body_as_stored(message) else 0
        again = Message.with_properties(retry_topic(self._group), message.body, properties, message.flag)
        try:
            await self._producer.send(again, stored_flag)
        except ArianeError as error:
            log.warning("%s: cannot send a copy of message %s: %s", self._group, message.message_id, error)
            return False
        except Exception:  # catch everything: the message must not be lost with this task
            log.exception("%s: cannot send a copy of message %s", self._group, message.message_id)
            return False
        return True
