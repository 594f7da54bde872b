"""Clients that send and consume all the time: what a runbook must not disturb."""

import threading
from types import TracebackType
from typing import Self

from ariane import ConsumeFrom, ConsumeStatus, Delivery, Message, Producer, PushConsumer, ReceivedMessage, SendStatus
from ariane.errors import ArianeError
from tests.peers import until

PATIENCE = 120.0
PAUSE = 0.005  # seconds between two sends
QUICK = {"route_interval": 1.0, "heartbeat_interval": 1.0}  # clients notice a change sooner than in half a minute


class Load:
    """A producer and a consumer group of a topic. Counts what was sent, refused and consumed."""

    def __init__(self, namesrv: str, topic: str, *, repeat: bool = False, **options: object) -> None:
        self.topic = topic
        self.group = f"{topic}-group"
        self.sent: list[bytes] = []
        self.brokers: set[str] = set()
        """Brokers that stored a message since this was last cleared."""
        self.queues: set[int] = set()
        self.failures: list[str] = []
        """Sends that raised, or that were not stored as promised."""
        self.consumed: set[bytes] = set()
        self._repeat = repeat  # as an application that sends again what could not be sent
        self._producer = Producer(f"{topic}-producer", name_servers=namesrv, **QUICK, **options)  # type: ignore[arg-type]
        self._consumer = PushConsumer(
            self.group,
            topic,
            self._consume,
            consume_from=ConsumeFrom.FIRST,
            name_servers=namesrv,
            persist_interval=0.5,
            rebalance_interval=1.0,
            **QUICK,  # type: ignore[arg-type]
            **options,
        )
        self._stopped = threading.Event()
        self._sending = threading.Thread(target=self._send, name=f"send to {topic}", daemon=True)

    def _consume(self, messages: list[ReceivedMessage], delivery: Delivery) -> ConsumeStatus:
        self.consumed.update(message.body for message in messages)
        return ConsumeStatus.CONSUME_SUCCESS

    def _send(self) -> None:
        number = 0
        while not self._stopped.wait(PAUSE):
            body = b"%d" % number
            try:
                result = self._producer.send(Message(self.topic, body, keys=[f"k{number}"]))
            except ArianeError as error:
                if not self._repeat:
                    self.failures.append(f"{number}: {error}")
                    number += 1
                continue
            number += 1
            self.brokers.add(result.queue.broker_name)
            self.queues.add(result.queue.queue_id)
            if result.status is not SendStatus.SEND_OK:
                self.failures.append(f"{number}: {result.status} at {result.queue.broker_name}")
            self.sent.append(body)

    def __enter__(self) -> Self:
        self._producer.start()
        self._consumer.start()
        self._sending.start()
        until(lambda: self.consumed, PATIENCE, f"the first message of {self.topic}")
        self.failures.clear()  # a topic that does not exist yet
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._stopped.set()
        self._sending.join()
        try:
            if error is None:
                assert not self.failures, self.failures[:5]
                until(lambda: self.consumed.issuperset(self.sent), PATIENCE, f"every message of {self.topic}")
        finally:
            self._consumer.close()
            self._producer.close()

    def await_sends_to(self, *brokers: str) -> None:
        """Return when each of these brokers, and no other, stores messages."""

        def seen() -> bool:
            self.brokers.clear()
            start = len(self.sent)
            until(lambda: len(self.sent) > start + 40, PATIENCE, "forty sends")
            return self.brokers == set(brokers)

        until(seen, PATIENCE, f"sends to {', '.join(brokers)}")
