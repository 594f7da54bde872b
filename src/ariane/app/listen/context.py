"""What a listener may know about a delivery, and say beside returning or raising."""

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, Protocol

from ariane import Delivery, MessageQueue, ReceivedMessage
from ariane.app.errors import InvalidPayload
from ariane.app.runtime import Runtime
from ariane.app.settings import ListenerSettings, Settings


class Receiver(Protocol):
    """What a delivery knows of its listener."""

    name: str

    def settings(self, app: Settings) -> ListenerSettings:
        """What applies to it in an application."""
        ...

    @property
    def handles_invalid(self) -> bool:
        """Whether a function gets its invalid messages."""
        ...


class Retry(Exception):
    """Return or raise it to have the message delivered again; without a delay level the listener's own applies."""

    def __init__(self, reason: str = "the listener asked for another try", *, delay_level: int | None = None) -> None:
        if delay_level is not None and not 0 <= delay_level <= 18:
            raise ValueError(f"delay_level is 0 (the broker decides) to 18, not {delay_level}")
        super().__init__(reason)
        self.delay_level = delay_level


class DeadLetter(Exception):
    """Return or raise it to send the message to the group's dead letters at once."""

    def __init__(self, reason: str = "the listener rejected the message") -> None:
        super().__init__(reason)


class Context:
    """One delivery: its messages, where they come from, and what becomes of them.

    Middlewares may keep things in `state`.
    """

    __slots__ = ("_delivery", "_state", "acked", "app", "invalid", "listener", "message", "messages", "payload")

    def __init__(self, app: Runtime, listener: Receiver, messages: list[ReceivedMessage], delivery: Delivery) -> None:
        self.app = app
        self.listener = listener
        self.message = messages[0]
        """The message; of a batch the first."""
        self.messages = messages
        self.payload: Any = None
        """The decoded payload, a list of them for a batch; None until it is decoded."""
        self.acked: int | None = None
        """Of a batch: how many messages from the first on are consumed; None: all."""
        self.invalid: list[tuple[ReceivedMessage, InvalidPayload]] = []
        """Of a batch: messages that the function does not see."""
        self._delivery = delivery
        self._state: dict[str, Any] | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """The message's properties."""
        return self.message.properties

    @property
    def reconsume_times(self) -> int:
        """How often the message has been tried before."""
        return self.message.reconsume_times

    @property
    def queue(self) -> MessageQueue:
        """The queue of the message."""
        return self._delivery.queue

    @property
    def offset(self) -> int:
        """The message's place in its queue."""
        return self.message.queue_offset

    @property
    def state(self) -> dict[str, Any]:
        """Room for what middlewares and dependencies share during this delivery."""
        if self._state is None:
            self._state = {}
        return self._state

    @property
    def delay_level(self) -> int:
        """When the message comes again if it fails: a delay level; 0: the broker decides; -1: never."""
        return self._delivery.delay_level

    @delay_level.setter
    def delay_level(self, level: int) -> None:
        self._delivery.delay_level = level

    @property
    def suspend(self) -> float | None:
        """Orderly: how many seconds the queue pauses if this delivery fails."""
        return self._delivery.suspend

    @suspend.setter
    def suspend(self, seconds: float) -> None:
        self._delivery.suspend = seconds

    def ack_first(self, count: int) -> None:
        """Of a batch: the first `count` messages are consumed, the others come again."""
        if not 0 <= count <= len(self.messages):
            raise ValueError(f"the batch has {len(self.messages)} messages: {count} of them cannot be consumed")
        self.acked = count


current: ContextVar[Context | None] = ContextVar("the delivery that is being handled", default=None)
