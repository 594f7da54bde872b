"""Options of the console."""

from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path

from ariane.client.options import ClientOptions
from ariane.errors import ConfigError


@dataclass(frozen=True)
class ConsoleOptions:
    """Where the console listens, where it keeps its files, and which clusters it shows."""

    clusters: dict[str, ClientOptions]
    """How each cluster is reached, by the name that pages show."""
    folder: Path
    listen: str = "127.0.0.1"
    port: int = 8082
    tls_cert: Path | None = None
    tls_key: Path | None = None
    session_hours: float = 8.0
    sample_seconds: float = 15.0
    """How often rates, lag and disk are sampled for the history."""
    history_days: float = 7.0
    secure_cookies: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        if not self.clusters:
            raise ConfigError("the console needs at least one cluster")
        if bad := [name for name in self.clusters if "/" in name]:
            raise ConfigError(f"the profile {bad[0]} has a slash in its name, which cannot be part of an address")
        if (self.tls_cert is None) != (self.tls_key is None):
            raise ConfigError("TLS needs both a certificate (--tls-cert) and its key (--tls-key)")
        object.__setattr__(self, "secure_cookies", self.tls_cert is not None)

    @property
    def url(self) -> str:
        """Where a browser on this machine finds the console."""
        host = "127.0.0.1" if self.listen in ("", "0.0.0.0") else "[::1]" if self.listen == "::" else self.listen
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return f"{'https' if self.tls_cert else 'http'}://{host}:{self.port}/"

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach it."""
        if self.listen == "localhost":
            return True
        try:
            return ip_address(self.listen).is_loopback
        except ValueError:
            return False
