"""The options of a running broker."""

from __future__ import annotations

from collections.abc import Callable

from ariane.broker.config.options import BrokerOptions

Listener = Callable[[BrokerOptions], None]


class LiveOptions:
    """The options as they are now: read by every part, replaced as a whole when an operator changes one."""

    def __init__(self, options: BrokerOptions) -> None:
        self.current = options
        self._listeners: list[Listener] = []

    def follow(self, listener: Listener) -> None:
        """Call a listener now and after each change."""
        listener(self.current)
        self._listeners.append(listener)

    def on_change(self, listener: Listener) -> None:
        """Call a listener after each change."""
        self._listeners.append(listener)

    def change(self, options: BrokerOptions) -> None:
        """Replace the options and call the listeners in the order of their registration."""
        self.current = options
        for listener in self._listeners:
            listener(options)
