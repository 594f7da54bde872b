"""Drop a changed entry from the caches of all processes: each one gets every message of a broadcasting group."""

import tempfile
import threading
from collections.abc import Sequence

from ariane import ConsumeFrom, ConsumeStatus, Message, Model, Producer, PushConsumer, ReceivedMessage

DATABASE = {"tea": 3.5, "cup": 7.0}


class PriceCache:
    """What one web server keeps in memory; here two of them live in one process."""

    def __init__(self, server: str, offsets: str) -> None:
        self.prices: dict[str, float] = {}
        self.invalidated = threading.Event()
        self.consumer = PushConsumer(
            "price-caches",
            "price-changes",
            self.invalidate,
            model=Model.BROADCASTING,
            instance_name=server,  # two servers are two clients
            offset_folder=offsets,  # a broadcasting consumer keeps its offsets itself
            consume_from=ConsumeFrom.FIRST,  # to drop an entry once too often does no harm
            rebalance_interval=1,
        )

    def price(self, item: str) -> float:
        """Read through the cache."""
        if item not in self.prices:
            self.prices[item] = DATABASE[item]
        return self.prices[item]

    def invalidate(self, messages: Sequence[ReceivedMessage]) -> ConsumeStatus:
        """Forget the items that changed. There is no retry in broadcasting, so this must not fail."""
        for message in messages:
            self.prices.pop(message.body.decode(), None)
            self.invalidated.set()
        return ConsumeStatus.CONSUME_SUCCESS


with tempfile.TemporaryDirectory() as folder, Producer("prices") as producer:
    caches = [PriceCache("web-1", folder), PriceCache("web-2", folder)]
    with caches[0].consumer, caches[1].consumer:
        print("before:", [cache.price("tea") for cache in caches])
        DATABASE["tea"] = 4.0
        producer.send(Message("price-changes", b"tea"))
        for cache in caches:
            if not cache.invalidated.wait(60):
                raise SystemExit("a cache did not hear of the change")
        print("after:", [cache.price("tea") for cache in caches])
