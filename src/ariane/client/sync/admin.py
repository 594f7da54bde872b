"""Admin for threads, derived from ariane.client.admin.admin by scripts/derive_sync.py."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Unpack

from ariane.client.admin.access import AccessAccount, AccessRules, AccessVersion
from ariane.client.admin.admin import Admin as AsyncAdmin
from ariane.client.admin.brokers import BrokerProgress, BrokerStatus, PendingTimers
from ariane.client.admin.dead_letters import DeadLetter, DeadLetterCount, Resent
from ariane.client.admin.lag import GroupLag
from ariane.client.admin.messages import MessageTrack, TraceRecord
from ariane.client.admin.offsets import OffsetReset
from ariane.client.admin.requests import FOREVER
from ariane.client.admin.topics import GrownTopic
from ariane.client.admin.transactions import HalfMessage
from ariane.client.options import ClientKeywords, ClientOptions
from ariane.client.results import PullResult, SendResult
from ariane.client.sync.lifecycle import Lifecycle
from ariane.client.sync.portal import Portal
from ariane.env import Env
from ariane.message import TRACE_TOPIC, MessageQueue, ReceivedMessage
from ariane.protocol.bodies import (
    READ,
    WRITE,
    BrokerStatsData,
    ClusterInfo,
    ConsumeMessageDirectlyResult,
    ConsumerConnection,
    ConsumerRunningInfo,
    ConsumeStats,
    FilterRecord,
    ProducerConnection,
    ProducerInfo,
    QueryConsumeQueueResponseBody,
    SubscriptionGroupConfig,
    SubscriptionGroupTable,
    TopicConfigTable,
    TopicRouteData,
    TopicStatsTable,
)


class Admin(Lifecycle):
    """Administers a cluster. `address=` selects one broker; the default is all masters of the cluster."""

    _client: AsyncAdmin

    def __init__(
        self, *, options: ClientOptions | None = None, env: Env | None = None, **keywords: Unpack[ClientKeywords]
    ) -> None:
        self._portal = Portal.get()
        self._client = AsyncAdmin(options=options, env=env, **keywords)

    def copy_topics(self, source: str, target: str) -> tuple[list[str], list[str]]:
        """Create the topics and groups of the broker at one address on another, with their settings.

        Topics that brokers keep for themselves are left out, and those that carry the source's name. Returns the names.
        """
        return self._portal.run(self._client.copy_topics(source, target))

    @property
    def options(self) -> ClientOptions:
        """The options of this client."""
        return self._client.options

    def cluster_info(self, name_server: str | None = None) -> ClusterInfo:
        """Brokers and clusters, as a name server has them: this one, or the one in use."""
        return self._portal.run(self._client.cluster_info(name_server))

    def masters(self, cluster: str | None = None) -> list[str]:
        """The addresses of all masters, or of one cluster's; ClientError when there is no such cluster."""
        return self._portal.run(self._client.masters(cluster))

    def addresses(self, cluster: str | None = None) -> list[str]:
        """The addresses of all brokers, slaves among them, or of one cluster's."""
        return self._portal.run(self._client.addresses(cluster))

    def name_servers(self) -> list[str]:
        """The addresses of the name servers."""
        return self._portal.run(self._client.name_servers())

    def route(self, topic: str) -> TopicRouteData:
        """The brokers and queues of a topic; RouteMissing when there is none."""
        return self._portal.run(self._client.route(topic))

    def topics(self, cluster: str | None = None) -> list[str]:
        """The names of all topics, or of those with a queue in one cluster."""
        return self._portal.run(self._client.topics(cluster))

    def system_topics(self, address: str) -> list[str]:
        """The topics that a broker keeps for itself."""
        return self._portal.run(self._client.system_topics(address))

    def topic_clusters(self, topic: str) -> list[str]:
        """The clusters that have a topic."""
        return self._portal.run(self._client.topic_clusters(topic))

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read."""
        return self._portal.run(self._client.queues(topic))

    def create_topic(
        self,
        topic: str,
        *,
        queues: int = 8,
        write_queues: int | None = None,
        perm: int = READ | WRITE,
        order: bool = False,
        sys_flag: int = 0,
        address: str | None = None,
        cluster: str | None = None,
    ) -> None:
        """Create a topic, or change it: on all masters, on those of one cluster, or on one broker."""
        self._portal.run(
            self._client.create_topic(
                topic,
                queues=queues,
                write_queues=write_queues,
                perm=perm,
                order=order,
                sys_flag=sys_flag,
                address=address,
                cluster=cluster,
            )
        )

    def grow_topic(self, topic: str, queues: int) -> list[GrownTopic]:
        """Add queues to a topic on each of its masters, keeping its other settings; never removes any."""
        return self._portal.run(self._client.grow_topic(topic, queues))

    def close_queues(self, topic: str, keep: int) -> list[MessageQueue]:
        """Stop sends to all but the first `keep` queues of each master; returns those queues, which stay readable."""
        return self._portal.run(self._client.close_queues(topic, keep))

    def drop_queues(self, topic: str, keep: int) -> None:
        """Remove all but the first `keep` queues of each master, which must be consumed and closed for sends."""
        self._portal.run(self._client.drop_queues(topic, keep))

    def delete_topic(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete a topic on all masters, or on those of one cluster, and at all name servers."""
        self._portal.run(self._client.delete_topic(topic, cluster=cluster))

    def delete_topic_at_name_servers(self, topic: str, *, cluster: str | None = None) -> None:
        """Delete the routes of a topic alone."""
        self._portal.run(self._client.delete_topic_at_name_servers(topic, cluster=cluster))

    def topic_configs(self, address: str) -> TopicConfigTable:
        """The topics of one broker, with their configuration."""
        return self._portal.run(self._client.topic_configs(address))

    def topic_stats(self, topic: str) -> TopicStatsTable:
        """First and last offset of each queue of a topic."""
        return self._portal.run(self._client.topic_stats(topic))

    def topic_groups(self, topic: str) -> list[str]:
        """The groups that consume a topic, or have an offset in it."""
        return self._portal.run(self._client.topic_groups(topic))

    def counter(self, address: str, name: str, key: str) -> BrokerStatsData:
        """A counter of a broker over the last minute, hour and day: `TOPIC_PUT_NUMS` of a topic, `GROUP_GET_NUMS`
        of `topic@group`."""
        return self._portal.run(self._client.counter(address, name, key))

    def set_order(self, topic: str, queues: str) -> None:
        """Fix the queues of an ordered topic, as `broker-a:4;broker-b:4`: they stay when a broker leaves."""
        self._portal.run(self._client.set_order(topic, queues))

    def add_order(self, topic: str, queues: str) -> None:
        """Fix the queues of an ordered topic on one broker, as `broker-a:4`, and keep those of the others."""
        self._portal.run(self._client.add_order(topic, queues))

    def allocation(self, topic: str, clients: list[str]) -> dict[str, list[MessageQueue]]:
        """How the default strategy would divide a topic's queues among clients, given in their order."""
        return self._portal.run(self._client.allocation(topic, clients))

    def create_group(self, config: SubscriptionGroupConfig | str, *, address: str | None = None) -> None:
        """Create a consumer group, or change it; a name alone gives a group with the default settings."""
        self._portal.run(self._client.create_group(config, address=address))

    def delete_group(self, group: str, *, remove_offsets: bool = False, address: str | None = None) -> None:
        """Delete a consumer group."""
        self._portal.run(self._client.delete_group(group, remove_offsets=remove_offsets, address=address))

    def groups(self, address: str) -> SubscriptionGroupTable:
        """The consumer groups of one broker."""
        return self._portal.run(self._client.groups(address))

    def group_names(self, *, system: bool = False) -> list[str]:
        """The names of all groups of all masters; with `system` also those of brokers and tools."""
        return self._portal.run(self._client.group_names(system=system))

    def consume_stats(self, group: str, topic: str | None = None) -> ConsumeStats:
        """The offsets of a group by queue."""
        return self._portal.run(self._client.consume_stats(group, topic))

    def consumer_connections(self, group: str, *, address: str | None = None) -> ConsumerConnection:
        """The consumers of a group that are online; BrokerRefused with code CONSUMER_NOT_ONLINE when there are none."""
        return self._portal.run(self._client.consumer_connections(group, address=address))

    def producer_connections(self, group: str, topic: str) -> ProducerConnection:
        """The producers of a group that are online."""
        return self._portal.run(self._client.producer_connections(group, topic))

    def producers(self, address: str) -> dict[str, list[ProducerInfo]]:
        """All producers that a broker knows, by group."""
        return self._portal.run(self._client.producers(address))

    def consumer_running_info(
        self, group: str, client_id: str, *, stack: bool = False, address: str | None = None
    ) -> ConsumerRunningInfo:
        """The running info of a consumer: its queues, offsets, rates and, with `stack`, its threads."""
        return self._portal.run(self._client.consumer_running_info(group, client_id, stack=stack, address=address))

    def consume_directly(
        self, group: str, client_id: str, offset_id: str, *, address: str
    ) -> ConsumeMessageDirectlyResult:
        """Have one client consume one message of the broker at `address` now, whatever its offsets are."""
        return self._portal.run(self._client.consume_directly(group, client_id, offset_id, address=address))

    def min_offset(self, queue: MessageQueue) -> int:
        """The first offset that the broker still has."""
        return self._portal.run(self._client.min_offset(queue))

    def max_offset(self, queue: MessageQueue) -> int:
        """The offset that the next message will get."""
        return self._portal.run(self._client.max_offset(queue))

    def search_offset(self, queue: MessageQueue, timestamp: int) -> int:
        """The offset of the first message stored at or after a time in milliseconds."""
        return self._portal.run(self._client.search_offset(queue, timestamp))

    def earliest_store_time(self, queue: MessageQueue) -> int:
        """The store time of the oldest message, in milliseconds."""
        return self._portal.run(self._client.earliest_store_time(queue))

    def committed(self, group: str, queue: MessageQueue) -> int | None:
        """The offset that a group committed; None when it never did."""
        return self._portal.run(self._client.committed(group, queue))

    def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Commit an offset for a group."""
        self._portal.run(self._client.commit(group, queue, offset))

    def reset_offset(self, group: str, topic: str, timestamp: int, *, force: bool = True) -> dict[MessageQueue, int]:
        """Move a group whose consumers are online to a time in milliseconds (-1: the end); returns the new offsets."""
        return self._portal.run(self._client.reset_offset(group, topic, timestamp, force=force))

    def reset_offline(
        self, group: str, topic: str, timestamp: int, *, force: bool = True, dry_run: bool = False
    ) -> list[OffsetReset]:
        """Commit the offsets of a time for a group without consumers; `dry_run` shows them and commits nothing.

        Without `force` a queue only moves back, never over messages that were not consumed.
        """
        return self._portal.run(self._client.reset_offline(group, topic, timestamp, force=force, dry_run=dry_run))

    def reset(self, group: str, topic: str, timestamp: int, *, force: bool = True) -> list[OffsetReset]:
        """Move a group to a time in milliseconds (-1: the end), whether its consumers are online or not."""
        return self._portal.run(self._client.reset(group, topic, timestamp, force=force))

    def skip_backlog(self, group: str, topic: str) -> list[OffsetReset]:
        """Move a group to the end of a topic: messages not consumed yet are skipped."""
        return self._portal.run(self._client.skip_backlog(group, topic))

    def clone_offsets(
        self, source: str, target: str, topic: str | None = None, *, dry_run: bool = False
    ) -> dict[MessageQueue, int]:
        """Copy the offsets of another group, in one topic or in all; the group's consumers must not be running."""
        return self._portal.run(self._client.clone_offsets(source, target, topic, dry_run=dry_run))

    def consumer_offsets(self, group: str, topic: str, client_id: str = "") -> dict[str, dict[str, int]]:
        """The offsets that clients of a group hold in memory, by client and queue; Java clients answer this."""
        return self._portal.run(self._client.consumer_offsets(group, topic, client_id))

    def view_message(self, offset_id: str) -> ReceivedMessage:
        """A message by its offset id (assigned by the broker)."""
        return self._portal.run(self._client.view_message(offset_id))

    def query_messages(
        self, topic: str, key: str, *, count: int = 64, begin: int = 0, end: int = FOREVER
    ) -> list[ReceivedMessage]:
        """Messages with a key, stored between two times in milliseconds."""
        return self._portal.run(self._client.query_messages(topic, key, count=count, begin=begin, end=end))

    def find_message(self, topic: str, message_id: str) -> ReceivedMessage | None:
        """A message by its unique id (assigned by the producer); None when no index has it."""
        return self._portal.run(self._client.find_message(topic, message_id))

    def find_messages(self, topic: str, message_id: str) -> list[ReceivedMessage]:
        """All messages with a unique id, oldest first; more than one when it was sent again."""
        return self._portal.run(self._client.find_messages(topic, message_id))

    def message_at(self, queue: MessageQueue, offset: int) -> ReceivedMessage | None:
        """The message at an offset of a queue; None when there is none, or it was deleted."""
        return self._portal.run(self._client.message_at(queue, offset))

    def read(
        self, queue: MessageQueue, offset: int, count: int = 32, expression: str = "*"
    ) -> tuple[list[ReceivedMessage], int]:
        """Messages of a queue from an offset on, and the offset to continue from. Needs and changes no group."""
        return self._portal.run(self._client.read(queue, offset, count, expression))

    def pull(self, queue: MessageQueue, offset: int, count: int = 32, expression: str = "*") -> PullResult:
        """Like `read`, with the pull's status, and units that are not decoded."""
        return self._portal.run(self._client.pull(queue, offset, count, expression))

    def track(self, message: ReceivedMessage) -> list[MessageTrack]:
        """What became of a message in each group of its topic."""
        return self._portal.run(self._client.track(message))

    def message_trace(self, message_id: str, *, trace_topic: str = TRACE_TOPIC) -> list[TraceRecord]:
        """The trace of a message: when and by which client it was sent and consumed, and whether that succeeded."""
        return self._portal.run(self._client.message_trace(message_id, trace_topic=trace_topic))

    def resend(self, message: ReceivedMessage, *, topic: str | None = None) -> SendResult:
        """Send a message again to its topic as a new one, with its properties except those of the delivery."""
        return self._portal.run(self._client.resend(message, topic=topic))

    def lag(self, group: str, topic: str | None = None) -> int:
        """The number of messages that a group has not consumed yet."""
        return self._portal.run(self._client.lag(group, topic))

    def group_lag(self, group: str, topic: str | None = None) -> GroupLag:
        """The lag of a group in each queue, in one topic or in all, with owners and problems."""
        return self._portal.run(self._client.group_lag(group, topic))

    def group_lags(self) -> list[GroupLag]:
        """Every group that has an offset: lag and clients, without owners and times; two requests for each group."""
        return self._portal.run(self._client.group_lags())

    def dead_letter_groups(self) -> list[DeadLetterCount]:
        """The groups with a dead-letter topic, and how many letters each has."""
        return self._portal.run(self._client.dead_letter_groups())

    def dead_letters(
        self,
        group: str,
        *,
        begin: int = 0,
        end: int = FOREVER,
        key: str | None = None,
        error: str | None = None,
        limit: int = 1000,
    ) -> list[DeadLetter]:
        """Dead letters of a group, oldest first in each queue: by time in milliseconds, key or id, and error."""
        return self._portal.run(
            self._client.dead_letters(group, begin=begin, end=end, key=key, error=error, limit=limit)
        )

    def each_dead_letter(
        self, group: str, *, begin: int = 0, end: int = FOREVER, key: str | None = None, error: str | None = None
    ) -> Iterator[DeadLetter]:
        """Like `dead_letters`, as an iterator: for more than fit into memory.

        Letters that arrive meanwhile are not included: the ends of the queues are read first.
        """
        yield from self._portal.each(self._client.each_dead_letter(group, begin=begin, end=end, key=key, error=error))

    def resend_dead_letters(
        self,
        group: str,
        *,
        letters: list[str] | None = None,
        begin: int = 0,
        end: int = FOREVER,
        key: str | None = None,
        error: str | None = None,
        limit: int | None = None,
        rate: float | None = None,
        log: Path | str | None = None,
        dry_run: bool = False,
        progress: Callable[[Resent], None] | None = None,
    ) -> list[Resent]:
        """Send dead letters to their original topics again, with their own keys, tags and properties.

        `letters` are ids, of letters or of messages; without them all that pass the filters are sent, at most `limit`,
        `rate` per second. With a `log` file a run can be resumed: letters already sent are skipped, and a letter at
        which it was interrupted is first searched in its topic. A letter that cannot be sent (`error`) does not stop
        the others; a broker that does not answer ends the run. The letters stay in the dead-letter topic.
        """
        return self._portal.run(
            self._client.resend_dead_letters(
                group,
                letters=letters,
                begin=begin,
                end=end,
                key=key,
                error=error,
                limit=limit,
                rate=rate,
                log=log,
                dry_run=dry_run,
                progress=progress,
            )
        )

    def half_messages(self, *, limit: int = 1000) -> list[HalfMessage]:
        """Half messages whose transaction is open, oldest first, at most `limit` of each broker."""
        return self._portal.run(self._client.half_messages(limit=limit))

    def end_transaction(self, message_id: str, *, commit: bool) -> HalfMessage:
        """Commit or roll back a half message by its unique id, on behalf of a producer that is gone."""
        return self._portal.run(self._client.end_transaction(message_id, commit=commit))

    def resume_checks(self, offset_id: str, *, address: str) -> None:
        """Have a broker check a half message again that it gave up."""
        self._portal.run(self._client.resume_checks(offset_id, address=address))

    def brokers(self) -> list[BrokerStatus]:
        """Every broker of every cluster, with its figures."""
        return self._portal.run(self._client.brokers())

    def broker_config(self, address: str) -> str:
        """The configuration of a broker, as lines of a properties file."""
        return self._portal.run(self._client.broker_config(address))

    def broker_options(self, address: str) -> dict[str, str]:
        """The configuration of a broker, by option."""
        return self._portal.run(self._client.broker_options(address))

    def update_broker(self, address: str, changes: dict[str, str]) -> None:
        """Change options of a running broker; it refuses those that need a restart."""
        self._portal.run(self._client.update_broker(address, changes))

    def promote_broker(self, address: str, name: str, *, force: bool = False, sync: bool = False) -> tuple[int, int]:
        """Make an Ariane slave the master of its broker name; returns the new epoch and where it begins in the log.

        Refused while the master answers, or when another slave has more of the log, unless `force`.
        """
        return self._portal.run(self._client.promote_broker(address, name, force=force, sync=sync))

    def filters(self, address: str) -> list[FilterRecord]:
        """The filter modules that consumers have uploaded to an Ariane broker."""
        return self._portal.run(self._client.filters(address))

    def filter_module(self, address: str, group: str, topic: str) -> bytes:
        """The bytes of the filter module of a group for a topic."""
        return self._portal.run(self._client.filter_module(address, group, topic))

    def remove_filter(self, address: str, group: str, topic: str) -> None:
        """Remove a filter module: pulls of the group are refused until one of its consumers uploads a filter again.

        Consumers upload at their start. To keep a filter away, take the group off `filterGroups`.
        """
        self._portal.run(self._client.remove_filter(address, group, topic))

    def broker_stats(self, address: str) -> dict[str, str]:
        """The runtime statistics of a broker."""
        return self._portal.run(self._client.broker_stats(address))

    def pending_timers(self, address: str) -> PendingTimers:
        """How many messages wait for their delivery time, by when they are due; none at a broker that has no timers."""
        return self._portal.run(self._client.pending_timers(address))

    def broker_progress(self, address: str, *, order: bool = False, timeout: float | None = None) -> BrokerProgress:
        """The progress of every group of a broker in one request; with `order`, in ordered topics only."""
        return self._portal.run(self._client.broker_progress(address, order=order, timeout=timeout))

    def clean_expired_queues(self, address: str) -> None:
        """Delete consumequeue files whose messages are no longer in the log."""
        self._portal.run(self._client.clean_expired_queues(address))

    def clean_unused_topics(self, address: str) -> None:
        """Delete the queues of topics that are no longer configured."""
        self._portal.run(self._client.clean_unused_topics(address))

    def delete_expired_commitlog(self, address: str) -> None:
        """Delete expired commitlog files now."""
        self._portal.run(self._client.delete_expired_commitlog(address))

    def consumequeue(
        self, address: str, queue: MessageQueue, index: int, *, count: int = 10, group: str | None = None
    ) -> QueryConsumeQueueResponseBody:
        """Entries of a consumequeue; with a group, whether each passes its filter."""
        return self._portal.run(self._client.consumequeue(address, queue, index, count=count, group=group))

    def put_kv(self, namespace: str, key: str, value: str) -> None:
        """Set a value of the KV configuration."""
        self._portal.run(self._client.put_kv(namespace, key, value))

    def delete_kv(self, namespace: str, key: str) -> None:
        """Delete a value of the KV configuration."""
        self._portal.run(self._client.delete_kv(namespace, key))

    def kv(self, namespace: str, key: str) -> str | None:
        """A value of the KV configuration; None when there is none."""
        return self._portal.run(self._client.kv(namespace, key))

    def kv_namespace(self, namespace: str) -> dict[str, str]:
        """All values of a namespace of the KV configuration."""
        return self._portal.run(self._client.kv_namespace(namespace))

    def name_server_configs(self) -> dict[str, dict[str, str]]:
        """The options of each name server, by address."""
        return self._portal.run(self._client.name_server_configs())

    def update_name_servers(self, changes: dict[str, str]) -> None:
        """Change options of all name servers."""
        self._portal.run(self._client.update_name_servers(changes))

    def wipe_write_perm(self, broker_name: str) -> dict[str, int]:
        """Take a broker's topics out of the routes for writing, to drain it; topics changed, by name server."""
        return self._portal.run(self._client.wipe_write_perm(broker_name))

    def add_write_perm(self, broker_name: str) -> dict[str, int]:
        """Undo `wipe_write_perm`; topics changed, by name server."""
        return self._portal.run(self._client.add_write_perm(broker_name))

    def access_rules(self, address: str) -> AccessRules:
        """The accounts of a broker and the addresses that need none."""
        return self._portal.run(self._client.access_rules(address))

    def access_version(self, address: str) -> AccessVersion:
        """The versions of a broker's rules."""
        return self._portal.run(self._client.access_version(address))

    def update_account(self, address: str, account: AccessAccount, *, clear: bool = False) -> None:
        """Create an account on a broker, or change it. What is empty stays as it is; with `clear` it becomes empty.

        Apache's brokers never empty anything: delete the account and create it again.
        """
        self._portal.run(self._client.update_account(address, account, clear=clear))

    def delete_account(self, address: str, access_key: str) -> None:
        """Delete an account of a broker."""
        self._portal.run(self._client.delete_account(address, access_key))

    def set_white_addresses(self, address: str, addresses: str, *, file: str | None = None) -> None:
        """Set the addresses, separated by commas, that a broker asks for no keys."""
        self._portal.run(self._client.set_white_addresses(address, addresses, file=file))
