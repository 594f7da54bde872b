"""The table of request codes: which handler answers which request."""

from __future__ import annotations

from typing import Any

from ariane.broker.admin.access import access_is_off
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
from ariane.broker.pull.handler import PullHandler
from ariane.broker.retry import dead_letters_handler, send_back
from ariane.broker.send.handler import SendHandler
from ariane.broker.send.reply import ReplyHandler
from ariane.broker.tables import clients_handler, offsets_handler, queue_locks_handler, topics_handler
from ariane.broker.transactions import handler as transactions
from ariane.protocol.codes import RequestCode as Code
from ariane.protocol.codes import ResponseCode
from ariane.protocol.headers import (
    CreateAccessConfigRequest,
    DeleteAccessConfigRequest,
    UpdateGlobalWhiteAddrsConfigRequest,
)
from ariane.remoting import Handler


def request_table(
    broker: Any,
    send: SendHandler,
    reply: ReplyHandler,
    pull: PullHandler,
    topics: AdminTopicsHandler,
    groups: AdminGroupsHandler,
    clients: AdminClientsHandler,
    offsets: AdminOffsetsHandler,
    config: AdminConfigHandler,
    queries: AdminQueriesHandler,
    relay: RelayHandler,
    reset: ResetHandler,
    runtime: RuntimeInfoHandler,
    stats: AdminStatsHandler,
    store: AdminStoreHandler,
) -> dict[int, Handler]:
    """The handler of every request that a broker answers."""
    parts: dict[int, Handler] = {}
    for concern in (
        clients_handler,
        offsets_handler,
        queue_locks_handler,
        topics_handler,
        send_back,
        dead_letters_handler,
        transactions,
    ):
        parts.update(concern.handlers(broker))
    return {
        **parts,
        # Messages.
        Code.SEND_MESSAGE: send.send,
        Code.SEND_MESSAGE_V2: send.send,
        Code.SEND_BATCH_MESSAGE: send.send,
        Code.SEND_REPLY_MESSAGE: reply.reply,
        Code.SEND_REPLY_MESSAGE_V2: reply.reply_v2,
        Code.PULL_MESSAGE: pull.pull,
        # Operation.
        Code.DELETE_TOPIC_IN_BROKER: topics.delete,
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: topics.system,
        Code.QUERY_TOPIC_CONSUME_BY_WHO: topics.consumed_by,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: groups.update,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: groups.all,
        Code.DELETE_SUBSCRIPTIONGROUP: groups.delete,
        Code.GET_CONSUMER_CONNECTION_LIST: clients.consumers,
        Code.GET_PRODUCER_CONNECTION_LIST: clients.producers,
        Code.GET_ALL_PRODUCER_INFO: clients.all_producers,
        Code.GET_ALL_CONSUMER_OFFSET: offsets.all_consumers,
        Code.GET_ALL_DELAY_OFFSET: offsets.all_delays,
        Code.CLONE_GROUP_OFFSET: offsets.clone,
        Code.QUERY_CORRECTION_OFFSET: offsets.correction,
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
        # Access control, which is not there.
        Code.UPDATE_AND_CREATE_ACL_CONFIG: access_is_off(
            ResponseCode.UPDATE_AND_CREATE_ACL_CONFIG_FAILED, CreateAccessConfigRequest
        ),
        Code.DELETE_ACL_CONFIG: access_is_off(ResponseCode.DELETE_ACL_CONFIG_FAILED, DeleteAccessConfigRequest),
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: access_is_off(
            ResponseCode.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG_FAILED, UpdateGlobalWhiteAddrsConfigRequest
        ),
        Code.GET_BROKER_CLUSTER_ACL_INFO: access_is_off(ResponseCode.SYSTEM_ERROR),
        Code.GET_BROKER_CLUSTER_ACL_CONFIG: access_is_off(ResponseCode.SYSTEM_ERROR),
    }
