"""Facts of the host that some defaults depend on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Host:
    """The host of the process. The caller collects these facts, so that reading a configuration stays pure."""

    home: str = ""
    host_name: str = "DEFAULT_BROKER"
    address: str = "127.0.0.1"
    processors: int = 1
    rocketmq_home: str | None = None
    namesrv_addr: str | None = None

    @classmethod
    def of(cls, environ: Mapping[str, str], *, host_name: str, address: str, processors: int) -> Host:
        """The host as the environment variables HOME, ROCKETMQ_HOME and NAMESRV_ADDR describe it."""
        return cls(
            home=environ.get("HOME", ""),
            host_name=host_name,
            address=address,
            processors=processors,
            rocketmq_home=environ.get("ROCKETMQ_HOME"),
            namesrv_addr=environ.get("NAMESRV_ADDR"),
        )
