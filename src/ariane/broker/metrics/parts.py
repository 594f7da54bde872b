"""Adds the figures of a broker's parts that are single numbers to the registry."""

from collections.abc import Callable, Mapping
from pathlib import Path

from ariane.broker.config.live import LiveOptions
from ariane.broker.pull.longpoll import LongPoll
from ariane.broker.registration import Registration
from ariane.broker.send.flow import FlowControl
from ariane.broker.tables.clients import ClientTable
from ariane.broker.tables.offsets import OffsetTable
from ariane.broker.timers.timers import Timers
from ariane.env import Files
from ariane.ops.metrics import Registry
from ariane.store import MessageStore


def add_store(registry: Registry, store: MessageStore, options: LiveOptions, files: Files) -> None:
    """Disk, flushing and failures of the store."""

    def folders() -> dict[str, Path]:
        return {"store": Path(options.current.store_path_root_dir), "commitlog": store.log.folder}

    def of_disk(figure: Callable[[Path], float]) -> Callable[[], Mapping[str, float]]:
        return lambda: {name: figure(path) for name, path in folders().items()}

    registry.gauge("ariane_store_writable", "1 while the store takes messages", lambda: int(store.writable))
    registry.gauge("ariane_store_queues", "Queues of the store", lambda: len(store.table))
    registry.counter("ariane_puts_failed_total", "Messages that could not be stored", lambda: store.stats.put_failed)
    registry.gauges(
        "ariane_disk_used_ratio", "Used part of a disk", "folder", of_disk(lambda path: files.usage(path).used_ratio)
    )
    registry.gauges("ariane_disk_free_bytes", "Free bytes", "folder", of_disk(lambda path: files.usage(path).free))
    registry.gauge(
        "ariane_disk_refuse_ratio",
        "Used part of a disk from which sends are refused",
        lambda: options.current.disk_space_warning_level_ratio,
    )


def add_clients(
    registry: Registry, clients: ClientTable, offsets: OffsetTable, longpoll: LongPoll, flow: FlowControl
) -> None:
    """Consumers, their pulls and what is refused."""
    registry.gauge("ariane_long_polls", "Pulls that wait for a message", lambda: len(longpoll))
    registry.counter(
        "ariane_subscription_conflicts_total",
        "How often the members of a group were found to disagree",
        lambda: clients.inconsistencies_seen,
    )
    registry.refusals(lambda: {f"send: {reason}": count for reason, count in flow.refused.items()})
    registry.refusals(lambda: {"commit: would move an offset back": offsets.refused})


def add_timers(registry: Registry, timers: Timers) -> None:
    """Messages that wait for their delivery time."""
    registry.gauge("ariane_timers_pending", "Messages that wait for their delivery time", lambda: timers.pending)
    registry.gauges(
        "ariane_timers_due",
        "Messages by when they are due",
        "within",
        timers.due_within,
    )
    registry.counters(
        "ariane_timers_total",
        "Timed messages that were delivered, cancelled, or could not be read",
        "outcome",
        lambda: {"delivered": timers.delivered, "cancelled": timers.cancelled, "dropped": timers.dropped},
    )


def add_filters(registry: Registry, failures: Mapping[str, int]) -> None:
    """Filters that read bodies."""
    registry.counters(
        "ariane_filter_failures_total",
        "Pulls cut short because a group's filter failed, or had used up its time in this second (time)",
        "reason",
        lambda: dict(failures),
    )


def add_registration(registry: Registry, registration: Registration) -> None:
    """Whether each name server knows the broker."""
    registry.gauges(
        "ariane_registered",
        "1 when the name server took the last registration",
        "name_server",
        lambda: {server: int(server in registration.registered) for server in registration.name_servers},
    )
