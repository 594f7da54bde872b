"""OpenTelemetry: the client makes a span for each send and each delivery; a failure is recorded on the latter."""

from collections.abc import Callable


def _recorder() -> Callable[[BaseException], None]:
    try:
        from opentelemetry import trace
    except ImportError:
        return lambda error: None
    return lambda error: trace.get_current_span().record_exception(error)


note_failure = _recorder()
"""Record an exception on the current span; nothing happens without OpenTelemetry."""
