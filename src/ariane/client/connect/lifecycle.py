"""Starting and closing a client, once each."""

import os
from enum import Enum
from types import TracebackType
from typing import Self

from ariane.client.connect.instance import Instance, Instances
from ariane.client.connect.namespaces import wrap
from ariane.client.options import ClientOptions
from ariane.env import Env
from ariane.errors import NotRunning
from ariane.remoting import RpcHook

DEFAULT_ENV = Env()
"""The environment of clients that are not given another."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=DEFAULT_ENV.random.seed)  # else the child repeats the parent's numbers


class State(Enum):
    """The state of a client."""

    NEW = "not started"
    STARTING = "starting"
    RUNNING = "running"
    CLOSED = "closed"


class Lifecycle:
    """Base of all clients: started by `start` or `async with`, and closed once."""

    def __init__(
        self, kind: str, group: str, options: ClientOptions, env: Env | None, rpc_hooks: tuple[RpcHook, ...]
    ) -> None:
        self._kind = kind
        self._group = wrap(options.namespace, group) if kind in ("producer", "consumer") else group
        self._client_options = options
        self._env = env or DEFAULT_ENV
        self._rpc_hooks = rpc_hooks
        self._state = State.NEW
        self._instance: Instance | None = None

    @property
    def group(self) -> str:
        """The group's name."""
        return self._group

    @property
    def client_id(self) -> str:
        """The id by which brokers know this client."""
        return self._running().client_id

    async def start(self) -> Self:
        """Start the client; starting twice is an error."""
        if self._state is not State.NEW:
            raise NotRunning(f"{self} is {self._state.value}: a client can be started once")
        self._state = State.STARTING
        instances = Instances.here()
        instance = await instances.acquire(self._client_options, self._env, self._rpc_hooks, self._kind, self._group)
        self._instance = instance
        try:
            await self._open(instance)
        except BaseException:
            self._state = State.CLOSED
            await instances.release(instance)
            raise
        self._state = State.RUNNING
        instances.clients.add(self)
        return self

    async def close(self) -> None:
        """Finish running work and leave the cluster; closing twice does nothing."""
        if self._state is not State.RUNNING:
            self._state = State.CLOSED
            return
        self._state = State.CLOSED
        Instances.here().clients.discard(self)
        instance = self._instance
        assert instance is not None
        try:
            await self._shut(instance)
        finally:
            await Instances.here().release(instance)

    @property
    def needs_threads(self) -> bool:
        """Whether it uses a thread pool, which the interpreter shuts down first at exit."""
        return False

    async def __aenter__(self) -> Self:
        return await self.start() if self._state is State.NEW else self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._group} {self._state.value}>"

    def _running(self) -> Instance:
        if self._state is not State.RUNNING:
            raise NotRunning(f"{self}: use it inside `with`, or between start() and close()")
        assert self._instance is not None
        return self._instance

    async def _open(self, instance: Instance) -> None:
        """Start the parts of a kind of client."""

    async def _shut(self, instance: Instance) -> None:
        """Close the parts of a kind of client."""
