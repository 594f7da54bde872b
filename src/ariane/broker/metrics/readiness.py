"""Whether a broker is ready to serve clients, and if not, why."""

from collections.abc import Callable, Iterable, Iterator

from ariane.broker.config.live import LiveOptions
from ariane.broker.registration import Registration
from ariane.ops.probes import Check
from ariane.store import MessageStore


class Readiness:
    """The checks of /ready: registered, writable, disk, and what other parts add to `more`."""

    def __init__(self, registration: Registration, store: MessageStore, options: LiveOptions) -> None:
        self._registration = registration
        self._store = store
        self._options = options
        self.more: list[Callable[[], Iterable[Check]]] = []

    def checks(self) -> Iterator[Check]:
        """Every check with its reason."""
        yield self._registered()
        health = self._store.health
        yield Check("writable", health.writable, health.text or "the store takes messages")
        yield self._disk()
        for more in self.more:
            yield from more()

    def _registered(self) -> Check:
        servers = self._registration.name_servers
        if not servers:
            return Check("registered", True, "no name server is configured: clients do not find this broker by one")
        known = [server for server in servers if server in self._registration.registered]
        missing = [server for server in servers if server not in known]
        if missing:
            return Check("registered", bool(known), f"not registered with {', '.join(missing)}")
        return Check("registered", True, f"with {', '.join(known)}")

    def _disk(self) -> Check:
        used = max(self._store.retention.disk_ratios())
        limit = self._options.current.disk_space_warning_level_ratio
        return Check("disk", used <= limit, f"{used:.0%} used; sends are refused above {limit:.0%}")
