"""Statistics: messages and bytes by topic, group and queue; rates and latencies of the store.

`counting` counts on the hot path and spreads the counts over a `counter` for each name and key of `names`; `store` and
`latency` hold the figures of the runtime information; `texts` prints numbers as Java does. All of these are pure state
that `sampling` fills once a second.
"""

from ariane.broker.stats.counting import BrokerStats, StatsSnapshot
from ariane.broker.stats.names import StatsName
from ariane.broker.stats.store import StoreStats
from ariane.broker.stats.texts import byte_count_text, double_text

__all__ = ["BrokerStats", "StatsName", "StatsSnapshot", "StoreStats", "byte_count_text", "double_text"]
