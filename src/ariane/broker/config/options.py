"""The broker's options as the code uses them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

from ariane.broker.config.checks import delay_levels_ms
from ariane.broker.config.effective import effective
from ariane.broker.config.table import BROKER_TABLE
from ariane.settings import Host, Settings
from ariane.settings.server import ServerOptions

CONSUMEQUEUE_ENTRY_BYTES = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerOptions(ServerOptions):
    """Every option that the broker reads, typed, checked and immutable; the names are RocketMQ's in snake case.

    >>> options = BrokerOptions.load("brokerName = a\\nflushDiskType = SYNC_FLUSH", file="broker.conf")
    >>> options.broker_name, options.flush_disk_type, options.fast_listen_port
    ('a', 'SYNC_FLUSH', 10909)
    """

    rocketmq_home: str
    """The folder of `conf/plain_acl.yml`."""
    namesrv_addr: str | None
    """`host:port;host:port`; None: registers nowhere."""
    broker_ip1: str
    """The address that is advertised to clients."""
    broker_ip2: str
    """The address that is advertised to slaves."""
    broker_name: str
    broker_cluster_name: str
    broker_id: int
    """0 master, above 0 slave, -1 a DLedger member."""
    broker_permission: int
    """0 none, 2 write, 4 read, 6 both."""
    default_topic_queue_nums: int
    """At most so many queues for a topic created on send."""
    auto_create_topic_enable: bool
    cluster_topic_enable: bool
    broker_topic_enable: bool
    auto_create_subscription_group: bool
    msg_trace_topic_name: str
    trace_topic_enable: bool
    flush_consumer_offset_interval_ms: int
    reject_transaction_message: bool
    send_thread_pool_queue_capacity: int
    """Sends that may wait before SYSTEM_BUSY."""
    pull_thread_pool_queue_capacity: int
    query_thread_pool_queue_capacity: int
    end_transaction_pool_queue_capacity: int
    long_polling_enable: bool
    short_polling_time_mills: int
    notify_consumer_ids_changed_enable: bool
    region_id: str
    register_broker_timeout_mills: int
    slave_read_enable: bool
    """Consumers that are far behind are sent to a slave."""
    disable_consume_if_consumer_read_slowly: bool
    consumer_fallbehind_threshold: int
    """Bytes."""
    broker_fast_failure_enable: bool
    wait_time_mills_in_send_queue: int
    start_accept_send_request_time_stamp_ms: int
    """Since the epoch; sends before it are refused."""
    trace_on: bool
    expect_consumer_num_use_filter: int
    """Sizes the Bloom filter of consumerFilter.json."""
    max_error_rate_of_bloom_filter_percent: int
    filter_data_clean_time_span_ms: int
    filter_support_retry: bool
    enable_property_filter: bool
    compressed_register: bool
    force_register: bool
    register_name_server_period_ms: int
    transaction_time_out_ms: int
    """Age of a half message before its first check."""
    transaction_check_max: int
    """Checks before a half message is given up."""
    transaction_check_interval_ms: int
    acl_enable: bool
    store_reply_message_enable: bool
    enable_detail_stat: bool
    auto_delete_unused_stats: bool
    connect_timeout_millis: int
    client_channel_max_idle_time_seconds: int
    use_tls: bool
    """Speak TLS to name servers and to the master."""
    store_path_root_dir: str
    store_path_commit_log: str
    """As effective: below the root unless set."""
    mapped_file_size_commit_log: int
    """Bytes."""
    mapped_file_size_consume_queue: int
    """Bytes, a multiple of 20."""
    flush_interval_commit_log_ms: int
    commit_interval_commit_log_ms: int
    """How long the transient store pool gathers messages."""
    flush_interval_consume_queue_ms: int
    clean_resource_interval_ms: int
    delete_commit_log_files_interval_ms: int
    delete_consume_queue_files_interval_ms: int
    destroy_maped_file_interval_forcibly_ms: int
    delete_when: str
    """Hours of the day, `04;16`."""
    disk_max_used_space_ratio_percent: int
    file_reserved_time_hours: int
    max_message_size: int
    """Bytes of a body."""
    check_crc_on_recover: bool
    flush_commit_log_least_pages: int
    flush_consume_queue_least_pages: int
    flush_commit_log_thorough_interval_ms: int
    flush_consume_queue_thorough_interval_ms: int
    max_transfer_bytes_on_message_in_memory: int
    max_transfer_count_on_message_in_memory: int
    max_transfer_bytes_on_message_in_disk: int
    max_transfer_count_on_message_in_disk: int
    access_message_in_memory_max_ratio_percent: int
    message_index_enable: bool
    max_hash_slot_num: int
    max_index_num: int
    max_msgs_num_batch: int
    message_index_safe: bool
    ha_listen_port: int
    """listenPort + 1, whatever the file says; 0 takes any free port."""
    ha_send_heartbeat_interval_ms: int
    ha_housekeeping_interval_ms: int
    ha_transfer_batch_size: int
    """Bytes."""
    ha_master_address: str | None
    """The master's address for copies; None: the name servers are asked for it."""
    ha_slave_fallbehind_max: int
    """Bytes."""
    slave_timeout_ms: int
    """How long a send to a SYNC_MASTER waits for its copies."""
    broker_role: str
    """ASYNC_MASTER, SYNC_MASTER or SLAVE: the role at start, unless a promotion has changed it since."""
    in_sync_replicas: int
    """Copies, the master's included, that a send to a SYNC_MASTER waits for."""
    min_in_sync_replicas: int
    enable_auto_in_sync_replicas: bool
    writes_await_slaves_seconds: int
    """How long a restarted SYNC_MASTER waits for its slaves before producers are told of it."""
    async_learner: bool
    """A slave whose copy never counts."""
    sync_from_last_file: bool
    """An empty slave gets the last file of the log only, as from Apache's master."""
    max_ha_transfer_byte_in_second: int
    """Bytes to all slaves together; 0: no limit."""
    enable_slave_acting_master: bool
    """While no master is registered, the slave with the lowest id locks queues for ordered consuming."""
    ha_confirmed_reads: bool
    ha_report: str
    """What a slave reports: flushed, received, or auto: flushed to an Ariane master."""
    ha_truncate: str
    """When a slave drops bytes that its master does not have: promoted, always or never."""
    ha_key: str = field(repr=False)
    ha_allowed_peers: str
    ha_max_connections: int
    flush_disk_type: str
    """SYNC_FLUSH or ASYNC_FLUSH."""
    sync_flush_timeout_ms: int
    message_delay_level: str
    """As text; see `delay_levels_ms`."""
    flush_delay_offset_interval_ms: int
    clean_file_forcibly_enable: bool
    offset_check_in_slave: bool
    disk_fall_recorded: bool
    os_page_cache_busy_time_out_mills: int
    default_query_max_num: int
    transient_store_pool_enable: bool
    """Counts for a master with ASYNC_FLUSH only, as in RocketMQ."""
    enable_schedule_message_stats: bool
    """Count delayed messages when they are delivered."""
    store_path_dledger: str
    """The folder of a ledger's entries, as effective: below the root unless set."""
    dledger_enable: bool
    """Whether this broker is a member of a DLedger group."""
    dledger_group: str
    dledger_peers: str
    """`n0-host:port;n1-host:port`."""
    dledger_self_id: str
    preferred_leader_id: str
    """Ids of members, separated by semicolons."""
    dledger_heartbeat_ms: int
    """Between members that all run Ariane."""
    dledger_election_ms: int
    dledger_scrub_rate: int
    """Bytes a second of the ledger that are read again to find damaged entries; 0 reads none."""
    dledger_durable_ack: bool
    """Acknowledge what a majority has on disk; otherwise in memory, for comparisons."""
    filter_expression_max_length: int
    """Characters of an SQL92 expression."""
    filter_expression_max_tokens: int
    """Names, values, operators and brackets of an SQL92 expression: what it costs to compile and to evaluate."""
    filter_expression_max_depth: int
    filter_group_millis_per_second: int
    """Time that the filters of a group that read bodies may use in a second."""
    filter_upload_enable: bool
    """Let consumers upload filters in WebAssembly."""
    filter_modules_max: int
    """Filters of all groups and topics."""
    filter_module_max_bytes: int
    filter_memory_max_bytes: int
    """Memory that one filter may use."""
    filter_fuel_per_message: int
    """About the instructions that a filter may execute for one message."""
    filter_message_max_millis: int
    """Time of a filter for one message, by the clock."""
    filter_compile_max_seconds: int
    """Processor time for compiling a filter."""
    dlq_topic_perm: int
    """Permission of a dead-letter topic created on demand; the documents say 2, 4.9.7 makes it 6."""
    timer_wheel_enable: bool
    """Accept messages with a delivery time."""
    timer_max_delay_sec: int
    auto_create_topic_max: int
    """Topics beyond which none is created by a send."""
    auto_create_topic_per_account_max: int
    auto_create_group_max: int
    """Groups beyond which none is created by use."""
    auto_create_group_per_account_max: int
    consumer_offset_max: int
    """Pairs of a topic and a group whose committed offsets are kept."""
    consumer_offset_per_account_max: int
    queue_lock_max: int
    """Locks for ordered consuming that are held at once."""
    acl_plain_file: str
    """The default rules file, below `rocketmq_home`."""
    acl_replay_window_seconds: int
    """Above 0: requests must be stamped, and each is accepted once within this time."""
    broker_access_key: str | None
    """With `broker_secret_key`: signs what this broker asks of name servers and of its master."""
    broker_secret_key: str | None = field(repr=False)
    client_max: int
    """Clients in groups: a client in two groups counts twice."""
    client_per_account_max: int
    client_group_max: int
    """Groups that one connection is in."""
    heartbeat_max_bytes: int
    long_poll_max: int
    long_poll_per_connection_max: int
    long_poll_bytes_max: int
    rebalance_lock_max_live_time_ms: int
    disk_space_warning_level_ratio: float
    disk_space_clean_forcibly_ratio: float
    metrics_queue_lag_max: int
    """Queues whose lag is shown by itself, the largest first."""
    metrics_client_poll_interval_ms: int
    """How often consumers are asked for their own figures; 0: never."""

    @classmethod
    def load(cls, text: str = "", *, file: str = "", host: Host | None = None) -> Self:
        """The options of a `broker.conf`; a ConfigError names the line that is wrong."""
        return cls.from_settings(Settings.load(BROKER_TABLE, text, file=file, host=host or Host()))

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """The options of checked values, after the rules that hold between them."""
        settings = effective(settings)
        attributes: dict[str, Any] = settings.attributes()
        attributes["store_path_commit_log"] = attributes["store_path_commit_log"] or _commitlog_path(settings)
        for name in ("dledger_group", "dledger_peers", "dledger_self_id", "preferred_leader_id"):
            attributes[name] = attributes[name] or ""
        attributes["store_path_dledger"] = attributes["store_path_dledger"] or _ledger_path(settings)
        attributes["mapped_file_size_consume_queue"] = _whole_entries(attributes["mapped_file_size_consume_queue"])
        return cls(settings=settings, **attributes)

    @property
    def fast_listen_port(self) -> int:
        """The second port that clients with the VIP channel use: two below `listen_port`."""
        return self.listen_port - 2 if self.listen_port > 2 else 0

    @property
    def delay_levels_ms(self) -> tuple[int, ...]:
        """The delay of each level in milliseconds, level 1 first."""
        return delay_levels_ms(self.message_delay_level)


def _commitlog_path(settings: Settings) -> str:
    return f"{settings['storePathRootDir']}/commitlog"


def _ledger_path(settings: Settings) -> str:
    return f"{settings['storePathRootDir']}/dledger-{settings['dLegerSelfId']}/data"


def _whole_entries(size: int) -> int:
    return -(-size // CONSUMEQUEUE_ENTRY_BYTES) * CONSUMEQUEUE_ENTRY_BYTES
