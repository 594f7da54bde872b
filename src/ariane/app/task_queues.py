"""What task frameworks need: topics for queues of any name, and delay levels for seconds."""

import re
from bisect import bisect_right
from typing import Final

DEFAULT_LEVELS: Final = "1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h"  # messageDelayLevel of brokers
_NOT_IN_NAMES: Final = re.compile(r"[^%|a-zA-Z0-9_-]")
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def topic_for(queue: str) -> str:
    """The topic of a queue: characters that RocketMQ does not allow become `_`.

    >>> topic_for("tasks.high")
    'tasks_high'
    """
    return _NOT_IN_NAMES.sub("_", queue)


class DelayLevels:
    """The broker's levels, shortest first.

    >>> DelayLevels().level_for(75), DelayLevels().level_for(0.5)
    (5, 0)
    """

    def __init__(self, levels: str = DEFAULT_LEVELS) -> None:
        self.seconds: list[int] = []
        for level in levels.split():
            match = re.fullmatch(r"(\d+)([smhd])", level)
            if match is None:
                raise ValueError(f"{level!r} is no delay level: write a number and s, m, h or d")
            self.seconds.append(int(match[1]) * _UNITS[match[2]])
        if self.seconds != sorted(self.seconds):
            raise ValueError("delay levels must grow")

    def level_for(self, seconds: float) -> int:
        """The longest level that is not longer; 0 when all are."""
        return bisect_right(self.seconds, seconds)
