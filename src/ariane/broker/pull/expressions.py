"""The expressions of consumer groups, kept over restarts in consumerFilter.json."""

from __future__ import annotations

from ariane.broker.config import BrokerOptions
from ariane.broker.periodic import Periodic
from ariane.broker.tables.clients import ClientTable, ConsumerGroup
from ariane.broker.tables.persistence import Persistence
from ariane.env import Clock
from ariane.filter import Bloom, ConsumerFilters, ExpressionCompiler, Subscription
from ariane.filter.option_rows import expression_limits
from ariane.protocol import fastjson
from ariane.remoting import Reason, Refusals

SAVE = 10.0  # seconds


def new_compiler(options: BrokerOptions, clock: Clock, refusals: Refusals) -> ExpressionCompiler:
    """The compiler of all expressions that clients send, with the limits of the options."""
    return ExpressionCompiler(
        expression_limits(options), clock.monotonic, lambda limit: refusals.count(Reason(f"filter_{limit}"))
    )


def new_filters(options: BrokerOptions, compiler: ExpressionCompiler) -> ConsumerFilters:
    """An empty table with the Bloom filter of the options: its size is part of the file."""
    bloom = Bloom(options.max_error_rate_of_bloom_filter_percent, options.expect_consumer_num_use_filter)
    return ConsumerFilters(bloom, options.filter_data_clean_time_span_ms, compiler.compile_kind)


class Expressions:
    """Keeps the table of filters in step with heartbeats and with its file."""

    def __init__(self, filters: ConsumerFilters, clients: ClientTable, persistence: Persistence, clock: Clock) -> None:
        self._filters = filters
        self._clock = clock
        self._file = persistence.table("consumerFilter.json", self._encode, self._decode)
        self._saving = Periodic(clock, SAVE, self._save, name="save filters")
        clients.on_heartbeat.append(self._heard)
        clients.on_gone.append(lambda group: filters.unregister_group(group, clock.now_ms()))

    def start(self) -> None:
        """Load the file and start saving it."""
        self._file.load()
        self._saving.start()

    async def stop(self) -> None:
        """Stop, and save once more."""
        await self._saving.stop()
        await self._save()

    async def _save(self) -> None:
        await self._file.save()

    def _heard(self, group: ConsumerGroup) -> None:
        wanted = [
            Subscription(s.topic, s.sub_string, s.expression_type, s.sub_version) for s in group.subscriptions.values()
        ]
        self._filters.register_group(group.name, wanted, self._clock.now_ms())

    def encoded(self) -> bytes:
        """The table as its file has it, for slaves."""
        return self._encode()

    def merge(self, data: bytes) -> None:
        """Add what a master has and this broker has not; ValueError when it is no such table."""
        self._filters.merge(fastjson.loads(data), self._clock.now_ms())

    def _encode(self) -> bytes:
        return fastjson.dumps(self._filters.dump(self._clock.now_ms()))

    def _decode(self, data: bytes) -> None:
        self._filters.load(fastjson.loads(data), self._clock.now_ms())
