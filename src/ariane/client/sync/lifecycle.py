"""Lifecycle for threads, derived from ariane.client.connect.lifecycle by scripts/derive_sync.py."""

from types import TracebackType
from typing import Self

from ariane.client.connect.lifecycle import Lifecycle as AsyncLifecycle
from ariane.client.sync.portal import Portal


class Lifecycle:
    """Base of all clients: started by `start` or `async with`, and closed once."""

    _portal: Portal
    _client: AsyncLifecycle

    @property
    def group(self) -> str:
        """The group's name."""
        return self._client.group

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        return self._client.client_id

    def start(self) -> Self:
        """Start the client; starting twice is an error."""
        self._portal.run(self._client.start())
        return self

    def close(self) -> None:
        """Finish running work and leave the cluster; closing twice does nothing."""
        self._portal.run(self._client.close())

    def __enter__(self) -> Self:
        self._portal.run(self._client.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._portal.run(self._client.__aexit__(kind, error, trace))

    def __repr__(self) -> str:
        return repr(self._client)
