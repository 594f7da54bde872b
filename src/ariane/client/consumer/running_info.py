"""How a consumer is set up, under the property names of Apache's consumers: what `mqadmin consumerStatus` shows."""

from collections.abc import Mapping
from datetime import datetime, timedelta

from ariane.client.consumer.options import ConsumerOptions, LiteOptions, PushOptions
from ariane.client.options import MEBIBYTE
from ariane.protocol.bodies import SubscriptionData

CLIENT_VERSION = "V4_9_7"  # the version of RocketMQ whose protocol this client speaks
HALF_AN_HOUR = timedelta(minutes=30)


def push_properties(
    group: str,
    options: PushOptions,
    subscriptions: Mapping[str, SubscriptionData],
    parts: Mapping[str, object],
    threads: int,
    started_ms: int,
) -> dict[str, str]:
    """The properties of a push consumer; `parts` are the objects that it works with, by their names."""
    return {
        **_consumer_properties(group, options, parts, started_ms),
        "subscription": _braced({topic: wanted.sub_string for topic, wanted in subscriptions.items()}),
        "consumeThreadMin": str(options.threads),
        "consumeThreadMax": str(options.threads),
        "consumeConcurrentlyMaxSpan": str(options.max_span),
        "pullThresholdForTopic": str(options.max_cached_messages_of_topic),
        "pullThresholdSizeForTopic": _mebibytes(options.max_cached_bytes_of_topic),
        "pullInterval": _milliseconds(options.pull_interval),
        "consumeMessageBatchMaxSize": str(options.consume_batch),
        "postSubscriptionWhenPull": "false",
        "maxReconsumeTimes": str(options.max_reconsume_times),
        "suspendCurrentQueueTimeMillis": _milliseconds(options.suspend),
        "consumeTimeout": str(int(options.consume_timeout // 60)),
        "awaitTerminationMillisWhenShutdown": _milliseconds(options.close_timeout),
        "PROP_CONSUMEORDERLY": _boolean(options.orderly),
        "PROP_THREADPOOL_CORE_SIZE": str(threads),
        "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
    }


def lite_properties(
    group: str, options: LiteOptions, parts: Mapping[str, object], pull_timeout: float, started_ms: int
) -> dict[str, str]:
    """The properties of a lite pull consumer."""
    return {
        **_consumer_properties(group, options, parts, started_ms),
        "brokerSuspendMaxTimeMillis": _milliseconds(options.poll_suspend),
        "consumerTimeoutMillisWhenSuspend": _milliseconds(options.poll_suspend + pull_timeout),
        "consumerPullTimeoutMillis": _milliseconds(pull_timeout),
        "autoCommit": _boolean(options.auto_commit),
        "autoCommitIntervalMillis": _milliseconds(options.persist_interval),
        "pullThresholdForAll": str(options.max_cached_messages_in_all),
        "consumeMaxSpan": str(options.max_span),
        "topicMetadataCheckIntervalMillis": _milliseconds(options.rebalance_interval),
        "enableMsgTrace": _boolean(options.trace),
        "customizedTraceTopic": options.trace_topic,
        "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY",
    }


def _consumer_properties(
    group: str, options: ConsumerOptions, parts: Mapping[str, object], started_ms: int
) -> dict[str, str]:
    moment = options.consume_timestamp or datetime.fromtimestamp(started_ms / 1000) - HALF_AN_HOUR
    return {
        "consumerGroup": group,
        "messageModel": options.model.value,
        "consumeFromWhere": options.consume_from.value,
        "consumeTimestamp": moment.strftime("%Y%m%d%H%M%S"),
        "allocateMessageQueueStrategy": _name(options.allocate),
        **{name: _name(part) for name, part in parts.items() if part is not None},
        "pullThresholdForQueue": str(options.max_cached_messages),
        "pullThresholdSizeForQueue": _mebibytes(options.max_cached_bytes),
        "pullBatchSize": str(options.pull_batch),
        "unitMode": _boolean(options.unit_name is not None),
        "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        "PROP_NAMESERVER_ADDR": ";".join(options.addresses),
        "PROP_CLIENT_VERSION": CLIENT_VERSION,
    }


def _name(part: object) -> str:
    """The name of a function, or of an object's class; never its content."""
    return str(getattr(part, "__qualname__", None) or type(part).__qualname__)


def _milliseconds(seconds: float) -> str:
    return str(int(seconds * 1000))


def _mebibytes(size: int) -> str:
    return str(size if size < 0 else size // MEBIBYTE)


def _boolean(value: bool) -> str:
    return "true" if value else "false"


def _braced(table: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{name}={value}" for name, value in table.items()) + "}"
