"""The table of request codes: which handler answers which request."""

from ariane.broker.acl.handler import AclHandler
from ariane.broker.admin.clients import AdminClientsHandler
from ariane.broker.admin.config import AdminConfigHandler
from ariane.broker.admin.groups import AdminGroupsHandler
from ariane.broker.admin.offsets import AdminOffsetsHandler
from ariane.broker.admin.queries import AdminQueriesHandler
from ariane.broker.admin.relay import RelayHandler
from ariane.broker.admin.reset import ResetHandler
from ariane.broker.admin.runtime import RuntimeInfoHandler
from ariane.broker.admin.stats import AdminStatsHandler
from ariane.broker.admin.store import AdminStoreHandler
from ariane.broker.admin.topics import AdminTopicsHandler
from ariane.broker.filters.handler import FiltersHandler
from ariane.broker.pull.handler import PullHandler
from ariane.broker.replication.handover import Handover
from ariane.broker.retry.dead_letters import DeadLettersHandler
from ariane.broker.retry.send_back import SendBackHandler
from ariane.broker.send.handler import SendHandler
from ariane.broker.send.reply import ReplyHandler
from ariane.broker.tables.clients_handler import ClientsHandler
from ariane.broker.tables.offsets_handler import OffsetsHandler
from ariane.broker.tables.queue_locks import QueueLocksHandler
from ariane.broker.tables.topics_handler import TopicsHandler
from ariane.broker.transactions.handler import TransactionHandler
from ariane.protocol.codes import (
    BROKER_PROMOTED,
    GET_FILTER,
    GET_FILTER_LIST,
    PROMOTE_BROKER,
    REMOVE_FILTER,
    RESEND_DEAD_LETTERS,
)
from ariane.protocol.codes import RequestCode as Code
from ariane.remoting import Handler


def request_table(
    send: SendHandler,
    reply: ReplyHandler,
    pull: PullHandler,
    send_back: SendBackHandler,
    transactions: TransactionHandler,
    clients: ClientsHandler,
    offsets: OffsetsHandler,
    locks: QueueLocksHandler,
    topics: TopicsHandler,
    dead_letters: DeadLettersHandler,
    admin_topics: AdminTopicsHandler,
    admin_groups: AdminGroupsHandler,
    admin_clients: AdminClientsHandler,
    admin_offsets: AdminOffsetsHandler,
    config: AdminConfigHandler,
    queries: AdminQueriesHandler,
    relay: RelayHandler,
    reset: ResetHandler,
    runtime: RuntimeInfoHandler,
    stats: AdminStatsHandler,
    store: AdminStoreHandler,
    acl: AclHandler,
    handover: Handover,
    filters: FiltersHandler,
) -> dict[int, Handler]:
    """The handler of every request that a broker answers."""
    return {
        # Messages.
        Code.SEND_MESSAGE: send.send,
        Code.SEND_MESSAGE_V2: send.send,
        Code.SEND_BATCH_MESSAGE: send.send,
        Code.SEND_REPLY_MESSAGE: reply.reply,
        Code.SEND_REPLY_MESSAGE_V2: reply.reply_v2,
        Code.PULL_MESSAGE: pull.pull,
        Code.CONSUMER_SEND_MSG_BACK: send_back.take_back,
        Code.END_TRANSACTION: transactions.end,
        # Clients, their offsets and locks.
        Code.HEART_BEAT: clients.heartbeat,
        Code.UNREGISTER_CLIENT: clients.unregister,
        Code.CHECK_CLIENT_CONFIG: clients.check_config,
        Code.GET_CONSUMER_LIST_BY_GROUP: clients.members,
        Code.QUERY_CONSUMER_OFFSET: offsets.query,
        Code.UPDATE_CONSUMER_OFFSET: offsets.update,
        Code.GET_MAX_OFFSET: offsets.max_offset,
        Code.GET_MIN_OFFSET: offsets.min_offset,
        Code.SEARCH_OFFSET_BY_TIMESTAMP: offsets.by_time,
        Code.GET_EARLIEST_MSG_STORETIME: offsets.earliest_time,
        Code.LOCK_BATCH_MQ: locks.lock,
        Code.UNLOCK_BATCH_MQ: locks.unlock,
        # Operation.
        Code.UPDATE_AND_CREATE_TOPIC: topics.create,
        Code.GET_ALL_TOPIC_CONFIG: topics.all,
        Code.GET_TOPIC_CONFIG: topics.one,
        Code.GET_TOPIC_STATS_INFO: topics.stats,
        Code.DELETE_TOPIC_IN_BROKER: admin_topics.delete,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: admin_topics.system,
        Code.QUERY_TOPIC_CONSUME_BY_WHO: admin_topics.consumed_by,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: admin_groups.update,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: admin_groups.all,
        Code.DELETE_SUBSCRIPTIONGROUP: admin_groups.delete,
        Code.GET_CONSUMER_CONNECTION_LIST: admin_clients.consumers,
        Code.GET_PRODUCER_CONNECTION_LIST: admin_clients.producers,
        Code.GET_ALL_PRODUCER_INFO: admin_clients.all_producers,
        Code.GET_ALL_CONSUMER_OFFSET: admin_offsets.all_consumers,
        Code.GET_ALL_DELAY_OFFSET: admin_offsets.all_delays,
        Code.CLONE_GROUP_OFFSET: admin_offsets.clone,
        Code.QUERY_CORRECTION_OFFSET: admin_offsets.correction,
        Code.RESUME_CHECK_HALF_MESSAGE: transactions.resume,
        RESEND_DEAD_LETTERS: dead_letters.resend,
        PROMOTE_BROKER: handover.promote,
        BROKER_PROMOTED: handover.promoted,
        Code.GET_BROKER_CONFIG: config.get,
        Code.UPDATE_BROKER_CONFIG: config.update,
        Code.QUERY_MESSAGE: queries.by_key,
        Code.VIEW_MESSAGE_BY_ID: queries.by_place,
        Code.GET_CONSUMER_RUNNING_INFO: relay.running_info,
        Code.CONSUME_MESSAGE_DIRECTLY: relay.consume_directly,
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: relay.status,
        Code.INVOKE_BROKER_TO_RESET_OFFSET: reset.reset,
        Code.GET_BROKER_RUNTIME_INFO: runtime.info,
        Code.GET_CONSUME_STATS: stats.of_group,
        Code.GET_BROKER_CONSUME_STATS: stats.of_broker,
        Code.QUERY_CONSUME_TIME_SPAN: stats.time_span,
        Code.VIEW_BROKER_STATS_DATA: stats.view,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE: store.clean_queues,
        Code.DELETE_EXPIRED_COMMITLOG: store.delete_files,
        Code.CLEAN_UNUSED_TOPIC: store.clean_topics,
        Code.QUERY_CONSUME_QUEUE: store.look,
        # Filters that users bring.
        Code.REGISTER_MESSAGE_FILTER_CLASS: filters.upload,
        Code.REGISTER_FILTER_SERVER: filters.register_server,
        GET_FILTER_LIST: filters.list,
        GET_FILTER: filters.get,
        REMOVE_FILTER: filters.remove,
        # Access control.
        Code.UPDATE_AND_CREATE_ACL_CONFIG: acl.update,
        Code.DELETE_ACL_CONFIG: acl.delete,
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: acl.update_white_addresses,
        Code.GET_BROKER_CLUSTER_ACL_INFO: acl.versions,
        Code.GET_BROKER_CLUSTER_ACL_CONFIG: acl.config,
    }
