"""A network that loses, delays, reorders and doubles messages, and does not connect everybody with everybody."""

from dataclasses import dataclass
from random import Random


@dataclass
class Weather:
    """How a network treats messages."""

    loss: float = 0.0
    double: float = 0.0
    delay: int = 2  # the usual; each message draws its own, so that they overtake each other
    late: float = 0.0  # how many take up to a hundred times as long


class Network:
    """Decides when, how often and whether a message arrives."""

    def __init__(self, random: Random, weather: Weather) -> None:
        self.random = random
        self.weather = weather
        self.cut: set[tuple[str, str]] = set()  # from, to
        self.counts = {"lost": 0, "doubled": 0, "late": 0, "cut off": 0}

    def arrivals(self, source: str, target: str) -> list[int]:
        """Return the delay of each copy that arrives."""
        random, weather, counts = self.random, self.weather, self.counts
        if self.cut and (source, target) in self.cut:
            counts["cut off"] += 1
            return []
        if weather.loss and random.random() < weather.loss:
            counts["lost"] += 1
            return []
        delays = [1 + int(random.random() * weather.delay)]
        if weather.double and random.random() < weather.double:
            counts["doubled"] += 1
            delays.append(1 + int(random.random() * weather.delay * 20))
        if weather.late and random.random() < weather.late:
            counts["late"] += 1
            delays[0] += int(random.random() * weather.delay * 100)
        return delays
