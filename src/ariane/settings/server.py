"""The options that every server has, as the code uses them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from ariane.settings.options import Value
from ariane.settings.values import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The fields of the rows in `remoting` and `operation`; each server adds its own."""

    settings: Settings = field(repr=False)
    listen_port: int
    """0 takes any free port."""
    server_channel_max_idle_time_seconds: int
    server_socket_snd_buf_size: int
    """Bytes; 0 leaves the system's."""
    server_socket_rcv_buf_size: int
    """Bytes; 0 leaves the system's."""
    write_buffer_high_water_mark: int
    """Bytes; 0 leaves the default."""
    write_buffer_low_water_mark: int
    server_socket_backlog: int
    bind_address: str
    """The address to listen on."""
    frame_max_length: int
    """Bytes."""
    server_frame_timeout_seconds: int
    server_buffered_bytes_max: int
    server_connections_max: int
    server_connections_per_address_max: int
    metrics_exporter_type: str
    """DISABLE, or PROM: serve metrics and health over HTTP."""
    metrics_prom_exporter_host: str
    metrics_prom_exporter_port: int
    """0 takes any free port."""
    otlp_endpoint: str
    """`http://host:port` of an OpenTelemetry collector; empty: nothing is pushed."""
    otlp_headers: str
    """`name=value,name=value` that every push carries."""
    otlp_interval_ms: int
    log_file: str
    """Empty: the error output."""
    log_file_max_bytes: int
    """After which the file is rotated."""
    log_file_count: int
    """Rotated files that are kept."""
    log_format: str
    """text or json."""
    log_level: str
    """Empty: the command's."""
    log_levels: str
    """Levels of areas: `store=debug;remoting=error`."""
    admin_log_file: str
    """Empty: the common log."""
    slow_request_threshold_ms: int
    """0: no request is logged as slow."""

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The options of checked values."""
        attributes: dict[str, Any] = settings.attributes()
        return cls(settings=settings, **attributes)

    @property
    def ignored(self) -> tuple[str, ...]:
        """Names of options that were set and that have no effect here."""
        return self.settings.ignored

    def as_properties(self) -> dict[str, str]:
        """All of Apache's option names with effective values in Java's text form; one without a value is left out."""
        return self.settings.properties()

    def printed(self, important_only: bool = False) -> list[tuple[str, str]]:
        """The lines that the server prints for `-p`, or `-m` when only the important ones are wanted."""
        return self.settings.printed(important_only)

    def replaced(self, changes: Mapping[str, Value]) -> Self:
        """A copy with other values, by RocketMQ's names, for the command line and for tests."""
        return self.from_settings(self.settings.replaced(changes))

    def updated(self, key: str, value: str) -> Self:
        """A copy with one value changed at run time; NotUpdatable unless the option is on the allow-list."""
        return self.from_settings(self.settings.updated(key, value))
