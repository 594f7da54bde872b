"""`@app.listener(..., guarantee=guarantee)`: a listener of `ariane.app` under the guarantee."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any

from ariane.app import Context, DeadLetter, InvalidPayload, Retry
from ariane.errors import GuaranteeError
from ariane.guarantee.idempotence import Outcome, Rejected, Settlement, busy_level
from ariane.guarantee.options import GuaranteeOptions

SESSION = "ariane.guarantee.session"


def session(context: Context) -> Any:
    """The session whose commit also confirms: `session: Annotated[AsyncSession, Depends(session)]`."""
    found = context.state.get(SESSION)
    if found is None:
        raise GuaranteeError("there is a session in listeners with guarantee= only")
    return found


@dataclass(frozen=True, slots=True)
class Listening:
    """What the guarantee must know of a listener."""

    group: str
    options: GuaranteeOptions
    invalid_is_final: bool

    @classmethod
    def of(cls, context: Context, options: GuaranteeOptions) -> "Listening":
        """Read the settings of the listener that got a delivery."""
        listener = context.listener
        settings = listener.settings(context.app.settings)
        if settings.batch > 1:
            raise GuaranteeError(f"listener {listener.name}: a guarantee is for one message: leave batch= out")
        assert settings.group is not None
        if settings.max_retries >= 0:
            options = replace(options, max_reconsume_times=settings.max_retries)
        final = listener.handles_invalid or settings.on_invalid != "retry"
        return cls(settings.group, options, final)


class Calling:
    """One call of the listener's function, and what it returned or raised."""

    def __init__(self, context: Context, call_next: Callable[[Context], Awaitable[Any]], listening: Listening) -> None:
        self._context = context
        self._call_next = call_next
        self._listening = listening
        self._result: Any = None
        self._error: Exception | None = None

    async def call(self, session: Any) -> None:
        """Call it; what it refuses for good is marked for a person."""
        self._context.state[SESSION] = session
        try:
            self._result = await self._call_next(self._context)
            if isinstance(self._result, Retry | DeadLetter):
                raise self._result
        except Exception as error:
            self._error = error
            final = isinstance(error, DeadLetter) or (
                isinstance(error, InvalidPayload) and self._listening.invalid_is_final
            )
            if final:
                raise Rejected(str(error)) from error
            raise
        finally:
            self._context.state.pop(SESSION, None)

    def answer(self, settled: Settlement) -> Any:
        """Tell the application: the result, or an error that has the message delivered again or made a dead letter."""
        if settled.outcome in (Outcome.DONE, Outcome.PLAIN):
            return self._result
        if settled.outcome in (Outcome.DUPLICATE, Outcome.VOID):
            return None
        if settled.outcome is Outcome.BUSY:
            raise Retry("another consumer works on the message", delay_level=busy_level(self._listening.options))
        error = self._error or settled.error
        if settled.outcome is Outcome.DEAD and not isinstance(error, DeadLetter | InvalidPayload):
            raise DeadLetter(f"failed too often, last with {error!r}") from error
        if error is not None:
            raise error
        raise Retry(settled.outcome.value)
