"""Ask a service over the broker: the reply comes back to the caller that asked, or the caller gives up in time."""

from collections.abc import Sequence

from ariane import ConsumeFrom, ConsumeStatus, Message, Producer, PushConsumer, ReceivedMessage
from ariane.errors import ReplyTimeout

STOCK = {"tea": 12, "cup": 0}

with Producer("stock-service") as service, Producer("web") as web:

    def answer(messages: Sequence[ReceivedMessage]) -> ConsumeStatus:
        """Reply to each request; one without a reply is left to the caller's time-out."""
        for message in messages:
            pieces = STOCK.get(message.body.decode())
            if pieces is not None:
                service.reply(message, b"%d" % pieces)
        return ConsumeStatus.CONSUME_SUCCESS

    with PushConsumer("stock-service", "stock-requests", answer, consume_from=ConsumeFrom.FIRST, rebalance_interval=1):
        for item in STOCK:
            reply = web.request(Message("stock-requests", item.encode()), timeout=30)
            print(item, reply.body.decode())
        try:
            web.request(Message("stock-requests", b"unicorn"), timeout=2)
        except ReplyTimeout as error:
            print("unicorn: no answer,", type(error).__name__)
