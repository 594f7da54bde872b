"""Hooks around listener calls."""

from collections.abc import Sequence

from ariane.client.connect.instance import Instance
from ariane.client.consumer.listen.listener import ConsumeStatus
from ariane.client.consumer.listen.runners import Batch
from ariane.client.observe.hooks import ConsumeContext, ConsumeHook, call_hooks

_DONE = (ConsumeStatus.CONSUME_SUCCESS, ConsumeStatus.COMMIT)


def outcome(batch: Batch, limit: float) -> str:
    """The outcome of a call, in the words of RocketMQ's traces."""
    if batch.status is None:
        return "EXCEPTION" if batch.error is not None else "RETURNNULL"
    if batch.wall >= limit:
        return "TIME_OUT"
    return "SUCCESS" if batch.status in _DONE else "FAILED"


class HookWatch:
    """Calls consume hooks before and after each listener call."""

    def __init__(
        self, group: str, instance: Instance, hooks: Sequence[ConsumeHook], failure: ConsumeStatus, limit: float
    ) -> None:
        self._group = group
        self._instance = instance
        self._hooks = tuple(hooks)
        self._failure = failure
        self._limit = limit

    def before(self, batch: Batch) -> None:
        """Call the hooks before the listener."""
        instance = self._instance
        batch.context = ConsumeContext(
            self._group, batch.queue.queue, batch.messages, instance.client_id, instance.address
        )
        call_hooks([hook.before_consume for hook in self._hooks], batch.context)

    def after(self, batch: Batch) -> None:
        """Call the hooks after the listener, in reverse order."""
        context = batch.context
        assert context is not None
        context.returned = outcome(batch, self._limit)
        context.status = (batch.status or self._failure).value
        context.success = batch.status in _DONE
        call_hooks([hook.after_consume for hook in reversed(self._hooks)], context)
