"""Headers of administration: topics, groups, statistics, access control."""

from ariane.protocol.headers.header import Header, Int32, Int64


class CreateTopicRequest(Header):
    topic: str
    default_topic: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32
    topic_filter_type: str
    topic_sys_flag: Int32 | None = None
    order: bool = False


class DeleteTopicRequest(Header):
    topic: str


class DeleteSubscriptionGroupRequest(Header):
    group_name: str
    remove_offset: bool = False


class GetBrokerConfigResponse(Header):
    version: str


class GetTopicStatsInfoRequest(Header):
    topic: str


class GetConsumeStatsRequest(Header):
    consumer_group: str
    topic: str | None = None


class GetConsumeStatsInBrokerRequest(Header):
    is_order: bool


class GetConsumerConnectionListRequest(Header):
    consumer_group: str


class GetProducerConnectionListRequest(Header):
    producer_group: str


class QueryTopicConsumeByWhoRequest(Header):
    topic: str


class QueryConsumeTimeSpanRequest(Header):
    topic: str
    group: str


class QueryCorrectionOffsetRequest(Header):
    compare_group: str
    topic: str
    filter_groups: str | None = None


class QueryConsumeQueueRequest(Header):
    topic: str
    queue_id: Int32 = 0
    index: Int64 = 0
    count: Int32 = 0
    consumer_group: str | None = None


class CloneGroupOffsetRequest(Header):
    src_group: str
    dest_group: str
    topic: str | None = None
    offline: bool = False


class ViewBrokerStatsDataRequest(Header):
    stats_name: str
    stats_key: str


class CreateAccessConfigRequest(Header):
    access_key: str
    secret_key: str | None = None
    white_remote_address: str | None = None
    admin: bool = False
    default_topic_perm: str | None = None
    default_group_perm: str | None = None
    topic_perms: str | None = None
    group_perms: str | None = None


class DeleteAccessConfigRequest(Header):
    access_key: str


class UpdateGlobalWhiteAddrsConfigRequest(Header):
    global_white_addrs: str
    acl_file_full_path: str | None = None


class GetBrokerAclConfigResponse(Header):
    version: str
    broker_name: str
    broker_addr: str
    cluster_name: str
    all_acl_file_version: str | None = None


class PromoteBrokerRequest(Header):
    """PROMOTE_BROKER, a request of Ariane's own."""

    broker_name: str
    """The name of the broker that is meant, so that a wrong address promotes nothing."""
    force: bool = False
    """Promote although the master still answers, or another slave has more of the log."""
    sync: bool = False
    """Become a SYNC_MASTER, else an ASYNC_MASTER."""


class PromoteBrokerResponse(Header):
    broker_epoch: Int64
    log_max: Int64
    """The end of the log, where the epoch begins."""
