"""The store's options, derived from the broker's."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from ariane.broker.config import BrokerOptions
from ariane.store.options import FlushKind, StoreOptions
from ariane.store.queue.entries import ENTRY_SIZE


def store_options(options: BrokerOptions, delay_ms: Callable[[int], int] | None = None) -> StoreOptions:
    """Derive the store's options. `delay_ms` returns the delay of a level, to rebuild delivery times after a crash."""
    ms = _milliseconds
    flush: FlushKind = "SYNC_FLUSH" if options.flush_disk_type == "SYNC_FLUSH" else "ASYNC_FLUSH"
    return StoreOptions(
        root=Path(options.store_path_root_dir),
        commitlog=Path(options.store_path_dledger if options.dledger_enable else options.store_path_commit_log),
        commitlog_file_size=options.mapped_file_size_commit_log,
        consumequeue_file_entries=options.mapped_file_size_consume_queue // ENTRY_SIZE,
        index_enabled=options.message_index_enable,
        index_slots=options.max_hash_slot_num,
        index_entries=options.max_index_num,
        flush=flush,
        sync_flush_timeout=ms(options.sync_flush_timeout_ms),
        flush_interval=ms(options.flush_interval_commit_log_ms),
        flush_least_pages=options.flush_commit_log_least_pages,
        flush_thorough_interval=ms(options.flush_commit_log_thorough_interval_ms),
        transient_store_pool=options.transient_store_pool_enable
        and options.broker_role != "SLAVE"
        and not options.dledger_enable,
        commit_interval=ms(options.commit_interval_commit_log_ms),
        flush_consumequeue_interval=ms(options.flush_interval_consume_queue_ms),
        flush_consumequeue_least_pages=options.flush_consume_queue_least_pages,
        flush_consumequeue_thorough_interval=ms(options.flush_consume_queue_thorough_interval_ms),
        max_message_size=options.max_message_size,
        check_crc_on_recover=options.check_crc_on_recover,
        message_index_safe=options.message_index_safe,
        file_reserved_time=timedelta(hours=options.file_reserved_time_hours),
        delete_when=options.delete_when,
        disk_max_used_percent=options.disk_max_used_space_ratio_percent,
        disk_clean_forcibly_percent=_percent(options.disk_space_clean_forcibly_ratio),
        disk_warning_percent=_percent(options.disk_space_warning_level_ratio),
        clean_file_forcibly=options.clean_file_forcibly_enable,
        clean_interval=ms(options.clean_resource_interval_ms),
        delete_commitlog_files_interval=ms(options.delete_commit_log_files_interval_ms),
        delete_consumequeue_files_interval=ms(options.delete_consume_queue_files_interval_ms),
        destroy_file_forcibly_interval=ms(options.destroy_maped_file_interval_forcibly_ms),
        max_transfer_bytes_memory=options.max_transfer_bytes_on_message_in_memory,
        max_transfer_count_memory=options.max_transfer_count_on_message_in_memory,
        max_transfer_bytes_disk=options.max_transfer_bytes_on_message_in_disk,
        max_transfer_count_disk=options.max_transfer_count_on_message_in_disk,
        access_message_in_memory_max_ratio=options.access_message_in_memory_max_ratio_percent,
        max_query_count=options.max_msgs_num_batch,
        delay_ms=delay_ms,
    )


def delay_of(options: BrokerOptions) -> Callable[[int], int]:
    """The delay of a level; levels beyond the last count as the last."""
    levels = options.delay_levels_ms
    return lambda level: levels[min(max(level, 1), len(levels)) - 1]


def _milliseconds(value: int) -> timedelta:
    return timedelta(milliseconds=value)


def _percent(ratio: float) -> int:
    return round(ratio * 100)
