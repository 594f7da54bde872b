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

WORLD = Env()
"""The world that clients live in unless they are given another."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORLD.random.seed)  # or parent and child would make the same choices


class State(Enum):
    """Where a client is in its life."""

    NEW = "not started"
    STARTING = "starting"
    RUNNING = "running"
    CLOSED = "closed"


class Lifecycle:
    """What all clients share. A client is started by `start` or `async with`, and closed once."""

    def __init__(
        self, kind: str, group: str, options: ClientOptions, env: Env | None, rpc_hooks: tuple[RpcHook, ...]
    ) -> None:
        self._kind = kind
        self._group = wrap(options.namespace, group) if kind in ("producer", "consumer") else group
        self._client_options = options
        self._env = env or WORLD
        self._rpc_hooks = rpc_hooks
        self._state = State.NEW
        self._instance: Instance | None = None

    @property
    def group(self) -> str:
        """The group's name."""
        return self._group

    @property
    def client_id(self) -> str:
        """How brokers call this client."""
        return self._running().client_id

    async def start(self) -> Self:
        """Connect and begin; starting twice is an error."""
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
        """Finish what is under way and leave; closing twice does nothing."""
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
        """Whether it works in a pool of threads, which the interpreter ends before anything else."""
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
        """What a kind of client does to start."""

    async def _shut(self, instance: Instance) -> None:
        """What a kind of client does to leave."""
