"""The options of replication, derived from the broker's."""

from typing import cast

from ariane.broker.config import BrokerOptions
from ariane.ha import HaOptions
from ariane.ha.options import ReportKind, TruncateWhen


def ha_options(options: BrokerOptions) -> HaOptions:
    """Derive the options of both sides of replication."""
    return HaOptions(
        cluster=options.broker_cluster_name,
        broker=options.broker_name,
        heartbeat_interval=options.ha_send_heartbeat_interval_ms / 1000,
        housekeeping_interval=options.ha_housekeeping_interval_ms / 1000,
        transfer_batch=options.ha_transfer_batch_size,
        transfer_budget=options.max_ha_transfer_byte_in_second,
        fall_behind_max=options.ha_slave_fallbehind_max,
        slave_timeout=options.slave_timeout_ms / 1000,
        in_sync_replicas=options.in_sync_replicas,
        min_in_sync_replicas=options.min_in_sync_replicas,
        auto_in_sync_replicas=options.enable_auto_in_sync_replicas,
        confirmed_reads=options.ha_confirmed_reads,
        report=cast(ReportKind, options.ha_report),
        truncate=cast(TruncateWhen, options.ha_truncate),
        learner=options.async_learner,
        key=options.ha_key,
        allowed=tuple(part.strip() for part in options.ha_allowed_peers.split(";") if part.strip()),
        max_connections=options.ha_max_connections,
        from_last_file=options.sync_from_last_file,
    )
