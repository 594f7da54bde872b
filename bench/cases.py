"""The cases, and the ratio to Apache's figure that each is meant to reach."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """One row of the table: what the load process runs, and the targets (None: shown for information)."""

    name: str
    kind: str
    arguments: dict[str, object] = field(default_factory=dict)
    flush: str = "ASYNC_FLUSH"
    backlog: bool = False
    client: str = "java"
    cpu_target: float | None = None
    rate_target: float | None = None
    p99_target: float | None = None


def cases(millis: int, backlog: int) -> list[Case]:
    """All cases, by Apache's client and by ours.

    `millis` is the length of a timed one, `backlog` the number of messages to drain.
    """
    timed: dict[str, object] = {"millis": millis}
    drained: dict[str, object] = {"count": backlog}
    sync = [
        Case(f"sync send {size} B, {threads} threads", "sync", timed | {"size": size, "threads": threads},
             cpu_target=0.25 if threads > 1 else None, rate_target=1.5 if threads > 1 else None)
        for size in (128, 1024) for threads in (1, 16, 64, 128)
    ]  # fmt: skip
    python = [
        Case(f"Python client: {name}", kind, arguments, backlog=kind == "push", client="python")
        for name, kind, arguments in (
            ("sync send 128 B, 16 threads", "sync", timed | {"size": 128, "threads": 16}),
            ("async send, 1,000 in flight", "async", timed | {"size": 128, "window": 1000}),
            ("push-consume a backlog", "push", drained | {"batch": 32}),
        )
    ]
    return [
        *sync,
        Case("async send, 2,000 in flight", "async", timed | {"size": 128, "threads": 4, "window": 2000}),
        Case("one-way send", "oneway", timed | {"size": 128, "threads": 4}),
        Case(
            "batches of 32", "batch", timed | {"size": 128, "threads": 16, "batch": 32}, cpu_target=0.5, rate_target=1.3
        ),
        Case("push-consume a backlog", "push", drained, backlog=True, cpu_target=0.25, rate_target=1.2),
        Case("pulls of 32", "pull", {}, backlog=True, cpu_target=0.25, rate_target=1.2),
        Case("latency at 1,000/s", "latency", timed | {"size": 128, "rate": 1000}, p99_target=0.7),
        *python,
        Case(
            "SYNC_FLUSH, 64 threads",
            "sync",
            timed | {"size": 128, "threads": 64},
            "SYNC_FLUSH",
            cpu_target=0.5,
            rate_target=1.0,
        ),
    ]
