"""The rule of every request that a broker answers; a request without one is refused.

Needs are computed from the same parsed header or body that the handler uses, so that no request can show the gate one
topic and the handler another. A request that names a message by its log offset needs rights on that message's topic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from ariane.access.accounts import EITHER, FILTER, PUB, SUB
from ariane.access.gate import Level, Need, Rule
from ariane.broker.request_bodies import body_of
from ariane.broker.unit_copy import properties_of, topic_of
from ariane.errors import ResponseError
from ariane.message import (
    CHECK_MAX_TIME_TOPIC,
    HALF_TOPIC,
    REAL_TOPIC,
    REPLY_TOPIC_SUFFIX,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
    TIMER_TOPIC,
    retry_topic,
)
from ariane.protocol.bodies import CheckClientRequestBody, HeartbeatData, LockBatchRequestBody
from ariane.protocol.codes import (
    BROKER_PROMOTED,
    GET_FILTER,
    GET_FILTER_LIST,
    PROMOTE_BROKER,
    REMOVE_FILTER,
    RESEND_DEAD_LETTERS,
    ResponseCode,
)
from ariane.protocol.codes import RequestCode as Code
from ariane.protocol.command import Command
from ariane.protocol.fast.pulling import pulling_in
from ariane.protocol.fast.sending import sending_in
from ariane.protocol.headers import (
    CloneGroupOffsetRequest,
    ConsumerSendMsgBackRequest,
    EndTransactionRequest,
    GetConsumerConnectionListRequest,
    GetConsumerListByGroupRequest,
    GetConsumerRunningInfoRequest,
    GetConsumerStatusRequest,
    GetConsumeStatsRequest,
    GetMaxOffsetRequest,
    GetTopicStatsInfoRequest,
    QueryConsumeQueueRequest,
    QueryConsumerOffsetRequest,
    QueryConsumeTimeSpanRequest,
    QueryCorrectionOffsetRequest,
    QueryMessageRequest,
    QueryTopicConsumeByWhoRequest,
    RegisterMessageFilterClassRequest,
    ResetOffsetRequest,
    SendMessageRequest,
    SendMessageRequestV2,
    UnregisterClientRequest,
    UpdateConsumerOffsetRequest,
    ViewMessageRequest,
)
from ariane.protocol.units import Unit

UnitAt = Callable[[int], Unit | None]
TopicsOf = Callable[[str], Iterable[str]]

_REDIRECTED = (SCHEDULE_TOPIC, TIMER_TOPIC, HALF_TOPIC, CHECK_MAX_TIME_TOPIC)  # these hold messages of other topics


def broker_rules(
    unit_at: UnitAt = lambda _: None, topics_of: TopicsOf = lambda _: (), cluster: str = "DefaultCluster"
) -> Mapping[int, Rule]:
    """The table.

    `unit_at` finds the message at a log offset, `topics_of` the topics in which a group has offsets; the cluster
    names the topic of replies.
    """
    placed = _Placed(unit_at)
    reply_topic = f"{cluster}_{REPLY_TOPIC_SUFFIX}"

    def reply(request: Command) -> Iterator[Need]:
        kind = SendMessageRequest if request.code == Code.SEND_REPLY_MESSAGE else SendMessageRequestV2
        topic = kind.parse(request.fields).topic
        if topic != reply_topic:
            yield topic, PUB

    def clone(request: Command) -> Iterator[Need]:
        header = CloneGroupOffsetRequest.parse(request.fields)
        yield retry_topic(header.src_group), SUB
        yield retry_topic(header.dest_group), SUB
        named = header.topic and not header.topic.isspace()
        for topic in (header.topic,) if named and header.topic else topics_of(header.src_group):
            yield topic, SUB

    send = Rule(Level.ACCOUNT, "PUB on the topic; on `%RETRY%group`: SUB on the group", _send)
    topic_either = "PUB or SUB on the topic"
    both = "SUB on topic and group"
    account = Rule(Level.ACCOUNT)
    admin = Rule(Level.ADMIN)
    trusted = Rule(Level.TRUSTED)
    return {
        # Messages.
        Code.SEND_MESSAGE: send,
        Code.SEND_MESSAGE_V2: Rule(
            Level.ACCOUNT,
            "PUB on the topic; on `%RETRY%group`: SUB on the group and on the sending group (`CLIENT_INNER_PRODUCER`)",
            _send_v2,
        ),
        Code.SEND_BATCH_MESSAGE: send,
        Code.SEND_REPLY_MESSAGE: Rule(Level.ACCOUNT, "nothing on the cluster's reply topic, PUB on others", reply),
        Code.SEND_REPLY_MESSAGE_V2: Rule(Level.ACCOUNT, "nothing on the cluster's reply topic, PUB on others", reply),
        Code.PULL_MESSAGE: Rule(Level.ACCOUNT, both, _pull),
        Code.CONSUMER_SEND_MSG_BACK: Rule(
            Level.ACCOUNT, "SUB on the group and on the topic of the message", placed.send_back
        ),
        Code.END_TRANSACTION: Rule(Level.ACCOUNT, "PUB on the topic of the half message", placed.end_transaction),
        Code.QUERY_MESSAGE: Rule(
            Level.ACCOUNT, "SUB on the topic", lambda r: _topic(QueryMessageRequest.parse(r.fields).topic)
        ),
        Code.VIEW_MESSAGE_BY_ID: Rule(Level.ACCOUNT, "SUB on the topic of the message", placed.view),
        # Clients, their offsets and locks.
        Code.HEART_BEAT: Rule(Level.ACCOUNT, "of each consumer: SUB on the group and its topics", _heartbeat),
        Code.UNREGISTER_CLIENT: Rule(Level.ACCOUNT, "SUB on the consumer group, if one is named", _unregister),
        Code.CHECK_CLIENT_CONFIG: Rule(Level.ACCOUNT, both, _check_client),
        Code.GET_CONSUMER_LIST_BY_GROUP: Rule(
            Level.ACCOUNT,
            "SUB on the group",
            lambda r: _group(GetConsumerListByGroupRequest.parse(r.fields).consumer_group),
        ),
        Code.QUERY_CONSUMER_OFFSET: Rule(Level.ACCOUNT, both, _query_offset),
        Code.UPDATE_CONSUMER_OFFSET: Rule(Level.ACCOUNT, both, _update_offset),
        Code.GET_MAX_OFFSET: Rule(Level.ACCOUNT, topic_either, _queue),
        Code.GET_MIN_OFFSET: Rule(Level.ACCOUNT, topic_either, _queue),
        Code.SEARCH_OFFSET_BY_TIMESTAMP: Rule(Level.ACCOUNT, topic_either, _queue),
        Code.GET_EARLIEST_MSG_STORETIME: Rule(Level.ACCOUNT, topic_either, _queue),
        Code.LOCK_BATCH_MQ: Rule(Level.ACCOUNT, "SUB on the group and the topic of each queue", _locks),
        Code.UNLOCK_BATCH_MQ: Rule(Level.ACCOUNT, "SUB on the group and the topic of each queue", _locks),
        # Looking at one's own topics and groups.
        Code.GET_TOPIC_STATS_INFO: Rule(Level.ACCOUNT, topic_either, _topic_stats),
        Code.GET_TOPIC_CONFIG: Rule(Level.ACCOUNT, topic_either, _topic_stats),
        Code.QUERY_TOPIC_CONSUME_BY_WHO: Rule(
            Level.ACCOUNT, topic_either, lambda r: _topic(QueryTopicConsumeByWhoRequest.parse(r.fields).topic, EITHER)
        ),
        Code.GET_CONSUME_STATS: Rule(Level.ACCOUNT, "SUB on the group, and on a topic that is named", _consume_stats),
        Code.GET_CONSUMER_CONNECTION_LIST: Rule(
            Level.ACCOUNT,
            "SUB on the group",
            lambda r: _group(GetConsumerConnectionListRequest.parse(r.fields).consumer_group),
        ),
        Code.GET_CONSUMER_RUNNING_INFO: Rule(
            Level.ACCOUNT,
            "SUB on the group",
            lambda r: _group(GetConsumerRunningInfoRequest.parse(r.fields).consumer_group),
        ),
        Code.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Rule(Level.ACCOUNT, both, _status),
        Code.INVOKE_BROKER_TO_RESET_OFFSET: Rule(Level.ACCOUNT, both, _reset),
        Code.QUERY_CONSUME_TIME_SPAN: Rule(Level.ACCOUNT, both, _time_span),
        Code.QUERY_CONSUME_QUEUE: Rule(Level.ACCOUNT, "SUB on the topic, and on the group if one is named", _look),
        Code.QUERY_CORRECTION_OFFSET: Rule(Level.ACCOUNT, both, _correction),
        Code.CLONE_GROUP_OFFSET: Rule(
            Level.ACCOUNT, "SUB on both groups and the topic, or all topics of the first group", clone
        ),
        Code.GET_SYSTEM_TOPIC_LIST_FROM_BROKER: account,
        Code.GET_BROKER_RUNTIME_INFO: account,
        # Requests between slaves and masters; Apache's brokers do not sign theirs.
        BROKER_PROMOTED: trusted,
        Code.GET_ALL_TOPIC_CONFIG: trusted,
        Code.GET_ALL_SUBSCRIPTIONGROUP_CONFIG: trusted,
        Code.GET_ALL_CONSUMER_OFFSET: trusted,
        Code.GET_ALL_DELAY_OFFSET: trusted,
        # Operation.
        Code.UPDATE_AND_CREATE_TOPIC: admin,
        Code.DELETE_TOPIC_IN_BROKER: admin,
        Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: admin,
        Code.DELETE_SUBSCRIPTIONGROUP: admin,
        Code.UPDATE_BROKER_CONFIG: admin,
        Code.GET_BROKER_CONFIG: admin,
        Code.GET_PRODUCER_CONNECTION_LIST: admin,
        Code.GET_ALL_PRODUCER_INFO: admin,
        Code.GET_BROKER_CONSUME_STATS: admin,
        Code.VIEW_BROKER_STATS_DATA: admin,
        Code.CONSUME_MESSAGE_DIRECTLY: admin,
        Code.CLEAN_EXPIRED_CONSUMEQUEUE: admin,
        Code.DELETE_EXPIRED_COMMITLOG: admin,
        Code.CLEAN_UNUSED_TOPIC: admin,
        Code.RESUME_CHECK_HALF_MESSAGE: admin,
        RESEND_DEAD_LETTERS: admin,
        PROMOTE_BROKER: admin,
        # Filters that users bring.
        Code.REGISTER_MESSAGE_FILTER_CLASS: Rule(
            Level.SIGNED, "SUB on topic and group, and the group in `filterGroups`", _upload_filter
        ),
        Code.REGISTER_FILTER_SERVER: admin,
        GET_FILTER_LIST: admin,
        GET_FILTER: admin,
        REMOVE_FILTER: admin,
        # The rules themselves.
        Code.UPDATE_AND_CREATE_ACL_CONFIG: admin,
        Code.DELETE_ACL_CONFIG: admin,
        Code.UPDATE_GLOBAL_WHITE_ADDRS_CONFIG: admin,
        Code.GET_BROKER_CLUSTER_ACL_INFO: admin,
        Code.GET_BROKER_CLUSTER_ACL_CONFIG: admin,
    }


def _topic(name: str, right: int = SUB) -> Iterable[Need]:
    return ((name, right),)


def _group(name: str) -> Iterable[Need]:
    return ((retry_topic(name), SUB),)


def _both(topic: str, group: str) -> Iterable[Need]:
    return ((topic, SUB), (retry_topic(group), SUB))


def _send(request: Command) -> Iterable[Need]:
    topic = sending_in(request).kind.topic
    return ((topic, SUB if topic.startswith(RETRY_PREFIX) else PUB),)


def _send_v2(request: Command) -> Iterable[Need]:
    topic = sending_in(request).kind.topic
    if not topic.startswith(RETRY_PREFIX):
        return ((topic, PUB),)
    sender = SendMessageRequestV2.parse(request.fields).producer_group
    return ((topic, SUB), (retry_topic(sender), SUB))


def _pull(request: Command) -> Iterable[Need]:
    kind = pulling_in(request).kind
    return _both(kind.topic, kind.consumer_group)


def _upload_filter(request: Command) -> Iterable[Need]:
    header = RegisterMessageFilterClassRequest.parse(request.fields)
    group = retry_topic(header.consumer_group)
    return ((header.topic, SUB), (group, SUB), (group, FILTER))


def _heartbeat(request: Command) -> Iterator[Need]:
    for consumer in body_of(HeartbeatData, request).consumer_data_set:
        yield retry_topic(consumer.group_name), SUB
        for subscription in consumer.subscription_data_set:
            yield subscription.topic, SUB


def _unregister(request: Command) -> Iterator[Need]:
    group = UnregisterClientRequest.parse(request.fields).consumer_group
    if group:  # some clients send the field empty
        yield retry_topic(group), SUB


def _check_client(request: Command) -> Iterable[Need]:
    body = body_of(CheckClientRequestBody, request)
    return _both(body.subscription_data.topic, body.group)


def _query_offset(request: Command) -> Iterable[Need]:
    header = QueryConsumerOffsetRequest.parse(request.fields)
    return _both(header.topic, header.consumer_group)


def _update_offset(request: Command) -> Iterable[Need]:
    header = request.parsed(UpdateConsumerOffsetRequest)
    return _both(header.topic, header.consumer_group)


def _queue(request: Command) -> Iterable[Need]:
    return _topic(GetMaxOffsetRequest.parse(request.fields).topic, EITHER)


def _locks(request: Command) -> Iterator[Need]:
    body = body_of(LockBatchRequestBody, request)
    yield retry_topic(body.consumer_group), SUB
    for topic in {queue.topic for queue in body.mq_set}:
        yield topic, SUB


def _topic_stats(request: Command) -> Iterable[Need]:
    return _topic(GetTopicStatsInfoRequest.parse(request.fields).topic, EITHER)


def _consume_stats(request: Command) -> Iterator[Need]:
    header = GetConsumeStatsRequest.parse(request.fields)
    yield retry_topic(header.consumer_group), SUB
    if header.topic:
        yield header.topic, SUB


def _status(request: Command) -> Iterable[Need]:
    header = GetConsumerStatusRequest.parse(request.fields)
    return _both(header.topic, header.group)


def _reset(request: Command) -> Iterable[Need]:
    header = ResetOffsetRequest.parse(request.fields)
    return _both(header.topic, header.group)


def _time_span(request: Command) -> Iterable[Need]:
    header = QueryConsumeTimeSpanRequest.parse(request.fields)
    return _both(header.topic, header.group)


def _look(request: Command) -> Iterator[Need]:
    header = QueryConsumeQueueRequest.parse(request.fields)
    yield header.topic, SUB
    if header.consumer_group:
        yield retry_topic(header.consumer_group), SUB


def _correction(request: Command) -> Iterable[Need]:
    header = QueryCorrectionOffsetRequest.parse(request.fields)
    return _both(header.topic, header.compare_group)


class _Placed:
    """Requests that name a message by its log offset."""

    def __init__(self, unit_at: UnitAt) -> None:
        self._unit_at = unit_at

    def view(self, request: Command) -> Iterator[Need]:
        yield from self._read(ViewMessageRequest.parse(request.fields).offset)

    def send_back(self, request: Command) -> Iterator[Need]:
        header = ConsumerSendMsgBackRequest.parse(request.fields)
        yield retry_topic(header.group), SUB
        yield from self._read(header.offset)

    def end_transaction(self, request: Command) -> Iterator[Need]:
        unit = self._unit_at(EndTransactionRequest.parse(request.fields).commit_log_offset)
        if unit is None:  # refuse: while the decision waits for recovery, a message may be stored here
            raise ResponseError(ResponseCode.SYSTEM_ERROR, "Find prepared transaction message failed")
        yield _origin(unit), PUB

    def _read(self, offset: int) -> Iterator[Need]:
        """No needs when there is no message: the handler answers with the error."""
        unit = self._unit_at(offset)
        if unit is not None:
            yield _origin(unit), SUB


def _origin(unit: Unit) -> str:
    """The real topic of a message: delayed and half messages are stored in a system topic."""
    topic = topic_of(unit)
    return properties_of(unit).get(REAL_TOPIC, topic) if topic in _REDIRECTED else topic
