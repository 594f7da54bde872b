"""How much goes in and out, counted where it passes; rates and reports are made of these elsewhere."""

from collections.abc import Callable

Put = Callable[[str, int, int], None]  # topic, messages, bytes
Got = Callable[[str, str, int, int], None]  # group, topic, messages, bytes


class Traffic:
    """Totals of messages, and the listeners that want to know more than totals."""

    def __init__(self) -> None:
        self.messages_in = 0
        self.messages_out = 0
        self.on_put: list[Put] = []
        self.on_get: list[Got] = []

    def put(self, topic: str, messages: int, size: int) -> None:
        self.messages_in += messages
        for listener in self.on_put:
            listener(topic, messages, size)

    def got(self, group: str, topic: str, messages: int, size: int) -> None:
        self.messages_out += messages
        for listener in self.on_get:
            listener(group, topic, messages, size)
