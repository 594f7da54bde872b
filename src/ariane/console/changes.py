"""The changes that the console can make to a cluster; `Changes` has all, also those of access rules and users."""

import base64
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from ariane.client.admin.dead_letters import DeadLetter, Resent
from ariane.client.admin.offsets import END, OffsetReset
from ariane.client.producer.options import ProducerOptions
from ariane.client.producer.producer import Producer
from ariane.client.results import SendResult
from ariane.console.access_changes import AccessChanges
from ariane.console.audit import AuditLog
from ariane.console.change import Stale, still
from ariane.console.cluster import Cluster
from ariane.console.people.users import Users
from ariane.console.people.visitor import Visitor
from ariane.console.people_changes import PeopleChanges
from ariane.console.watch.alarms import RulesFile
from ariane.console.watch.notices import Notifier
from ariane.errors import ClientError
from ariane.message import Message, ReceivedMessage, is_valid_name
from ariane.protocol.bodies import ConsumeMessageDirectlyResult, SubscriptionGroupConfig

SAFE_OPTIONS: Final = frozenset(
    {
        "autoCreateTopicEnable", "autoCreateSubscriptionGroup", "defaultTopicQueueNums", "brokerPermission",
        "traceOn", "rejectTransactionMessage", "transactionTimeOut", "transactionCheckMax",
        "transactionCheckInterval", "fileReservedTime", "deleteWhen", "diskMaxUsedSpaceRatio", "slaveReadEnable",
        "longPollingEnable", "brokerFastFailureEnable", "waitTimeMillsInSendQueue",
        "notifyConsumerIdsChangedEnable", "maxTransferCountOnMessageInMemory", "maxTransferBytesOnMessageInMemory",
    }
)  # fmt: skip
"""Options of a running broker that the console offers to change: none can lose messages at once or needs a restart."""
RESEND_MOST: Final = 1000  # dead letters in one step
RESEND_RATE: Final = 200.0
EXPORT_MOST: Final = 10_000  # dead letters in one file
EXPORT_BYTES: Final = 32 << 20


class Changes(AccessChanges, PeopleChanges):
    """Makes changes on behalf of visitors."""

    def __init__(self, users: Users, audit: AuditLog, folder: Path, rules: RulesFile, notifier: Notifier) -> None:
        super().__init__(audit, users, rules, notifier)
        self._folder = folder

    async def _topic_before(self, cluster: Cluster, topic: str) -> dict[str, Any] | None:
        row = await cluster.topic(topic)
        return None if row is None else asdict(row)

    async def create_topic(self, who: Visitor, cluster: Cluster, topic: str, queues: int, perm: int = 6) -> None:
        """Create a topic on all masters; refused when there is one of this name."""

        async def work() -> None:
            if not is_valid_name(topic):
                raise ClientError("a topic name has 1 to 127 letters, digits or % | _ -")
            if await self._topic_before(cluster, topic) is not None:
                raise ClientError(f"there is a topic {topic} already")
            await cluster.admin.create_topic(topic, queues=queues, perm=perm)

        await self._make(who, "topic.create", cluster, topic, work, after={"queues": queues, "perm": perm})

    async def change_topic(
        self,
        who: Visitor,
        cluster: Cluster,
        topic: str,
        broker: str,
        read: int,
        write: int,
        perm: int,
        expected: dict[str, int] | None = None,
    ) -> None:
        """Set queues and permission of a topic on one broker, and keep its other settings.

        Read queues are removed only when nothing is written to them any more and every group has consumed them.
        """

        async def config() -> Any:
            address = (await cluster.master_names()).get(broker)
            if address is None:
                raise ClientError(f"no master is called {broker}")
            table = (await cluster.admin.topic_configs(address)).topic_config_table
            if topic not in table:
                raise ClientError(f"{broker} has no topic {topic}")
            return table[topic]

        async def before() -> dict[str, int]:
            now = await config()
            return {"read": now.read_queue_nums, "write": now.write_queue_nums, "perm": now.perm}

        async def work() -> None:
            now = await config()
            still(expected, await before())
            if write > read:
                raise ClientError("a topic cannot have more queues to write than to read: their messages would be lost")
            if read < now.read_queue_nums:
                if now.write_queue_nums > read:
                    raise ClientError(
                        f"{topic} is still written to queues {read} and above: lower the write queues first"
                    )
                waiting = await cluster.unconsumed(topic, broker, read)
                if waiting:
                    names = ", ".join(f"{group} ({count})" for group, count in sorted(waiting.items())[:5])
                    raise ClientError(f"messages of the queues wait for groups: {names}")
            await cluster.admin.create_topic(
                topic,
                queues=read,
                write_queues=write,
                perm=perm,
                order=now.order,
                sys_flag=now.topic_sys_flag,
                address=(await cluster.master_names())[broker],
            )

        after = {"read": read, "write": write, "perm": perm}
        await self._make(who, "topic.change", cluster, f"{topic} on {broker}", work, before=before, after=after)

    async def delete_topic(self, who: Visitor, cluster: Cluster, topic: str) -> None:
        """Delete a topic with its messages."""
        await self._make(
            who,
            "topic.delete",
            cluster,
            topic,
            lambda: cluster.admin.delete_topic(topic),
            before=lambda: self._topic_before(cluster, topic),
        )

    async def send(
        self, who: Visitor, cluster: Cluster, topic: str, body: str, tags: str = "", keys: str = ""
    ) -> SendResult:
        """Send a message."""

        async def work() -> SendResult:
            message = Message(topic, body.encode(), tags=tags or None, keys=keys.split())
            options = ProducerOptions.of(cluster.admin.options, {})
            async with Producer("ariane-console", options=options) as producer:
                return await producer.send(message)

        return await self._make(
            who,
            "message.send",
            cluster,
            topic,
            work,
            after=lambda sent: {"id": sent.message_id, "bytes": len(body.encode())},
        )

    async def resend(self, who: Visitor, cluster: Cluster, message: ReceivedMessage) -> SendResult:
        """Send a message again to its topic as a new one."""
        return await self._make(
            who,
            "message.resend",
            cluster,
            f"{message.topic} {message.message_id}",
            lambda: cluster.admin.resend(message),
            after=lambda sent: {"id": sent.message_id},
        )

    async def consume_again(
        self, who: Visitor, cluster: Cluster, message: ReceivedMessage, group: str, client: str
    ) -> ConsumeMessageDirectlyResult:
        """Have one client of a group consume a message now."""
        return await self._make(
            who,
            "message.consume",
            cluster,
            f"{message.topic} {message.message_id} by {group} {client}",
            lambda: cluster.admin.consume_directly(group, client, message.offset_id, address=message.store_host),
            after=lambda result: {"result": result.consume_result, "remark": result.remark},
        )

    async def create_group(
        self, who: Visitor, cluster: Cluster, group: str, retries: int, expected: dict[str, int] | None = None
    ) -> None:
        """Create a group, or change how often it retries; other settings of a group that exists are kept."""

        async def known() -> SubscriptionGroupConfig | None:
            return next((row.config for row in await cluster.groups() if row.name == group), None)

        async def before() -> dict[str, int] | None:
            config = await known()
            return None if config is None else {"retries": config.retry_max_times}

        async def work() -> None:
            if not is_valid_name(group):
                raise ClientError("a group name has 1 to 127 letters, digits or % | _ -")
            still(expected, await before())
            config = await known() or SubscriptionGroupConfig(group)
            config.retry_max_times = retries
            await cluster.admin.create_group(config)

        await self._make(who, "group.create", cluster, group, work, before=before, after={"retries": retries})

    async def delete_group(self, who: Visitor, cluster: Cluster, group: str) -> None:
        """Delete a group and its offsets."""

        async def before() -> dict[str, Any]:
            row = next((one for one in await cluster.groups() if one.name == group), None)
            return {"lag": row.lag, "topics": sorted(row.topics)} if row is not None else {}

        await self._make(
            who,
            "group.delete",
            cluster,
            group,
            lambda: cluster.admin.delete_group(group, remove_offsets=True),
            before=before,
        )

    async def reset(
        self,
        who: Visitor,
        cluster: Cluster,
        group: str,
        topic: str,
        time: int,
        expected: list[OffsetReset] | None = None,
    ) -> list[OffsetReset]:
        """Move a group to a time in milliseconds; to the end, which skips messages, with -1.

        Refused when the group stands before the offsets of the preview: somebody else moved it back meanwhile.
        """
        change = "group.skip" if time == END else "group.reset"

        async def offsets() -> dict[str, int]:
            plan = await cluster.admin.reset_offline(group, topic, time, dry_run=True)
            before = {_queue(one): one.before for one in plan}
            for one in expected or ():
                if before.get(_queue(one), one.before) < one.before:
                    raise Stale(f"{group} was moved back meanwhile: look at the preview again")
            return before

        return await self._make(
            who,
            change,
            cluster,
            f"{group} in {topic}",
            lambda: cluster.admin.reset(group, topic, time),
            before=offsets,
            after=lambda moved: {_queue(one): one.after for one in moved},
        )

    async def resend_letters(
        self, who: Visitor, cluster: Cluster, group: str, letters: list[str] | None
    ) -> list[Resent]:
        """Send dead letters to their topics again, each once; all of a group, or those with the ids given."""

        async def work() -> list[Resent]:
            if not is_valid_name(group):  # it names a file, too
                raise ClientError(f"{group} is not the name of a group")
            folder = self._folder / "resent" / cluster.name
            folder.mkdir(parents=True, exist_ok=True)
            return await cluster.admin.resend_dead_letters(
                group,
                letters=letters,
                limit=RESEND_MOST,
                rate=RESEND_RATE,
                log=folder / f"{group.replace('%', '_')}.jsonl",
            )

        def after(resent: list[Resent]) -> dict[str, int]:
            return {
                "sent": sum(not one.skipped and one.error is None for one in resent),
                "skipped": sum(one.skipped for one in resent),
                "failed": sum(one.error is not None for one in resent),
            }

        return await self._make(who, "letters.resend", cluster, group, work, after=after)

    async def export_letters(self, who: Visitor, cluster: Cluster, group: str) -> bytes:
        """The dead letters of a group with whole bodies, a JSON object a line. It changes nothing, and is noted."""

        async def work() -> tuple[int, bytes]:
            lines: list[bytes] = []
            size = 0
            async for letter in cluster.admin.each_dead_letter(group):
                line = json.dumps(_letter(letter), ensure_ascii=False).encode() + b"\n"
                size += len(line)
                if len(lines) >= EXPORT_MOST or size > EXPORT_BYTES:
                    break
                lines.append(line)
            return len(lines), b"".join(lines)

        _, content = await self._make(
            who, "letters.export", cluster, group, work, after=lambda found: {"letters": found[0]}
        )
        return content

    async def end_transaction(self, who: Visitor, cluster: Cluster, message_id: str, *, commit: bool) -> None:
        """Commit or roll back a half message."""
        await self._make(
            who,
            "transaction.end",
            cluster,
            message_id,
            lambda: cluster.admin.end_transaction(message_id, commit=commit),
            before="open",
            after="commit" if commit else "rollback",
        )

    async def configure_broker(
        self, who: Visitor, cluster: Cluster, address: str, option: str, value: str, expected: str | None = None
    ) -> None:
        """Change an option of a running broker."""

        async def work() -> None:
            if option not in SAFE_OPTIONS:
                raise ClientError(f"{option} is not among the options that the console changes")
            if "\n" in value or "\r" in value:
                raise ClientError("a value has one line")
            still(expected, await before())
            await cluster.admin.update_broker(address, {option: value})

        async def before() -> str | None:
            return (await cluster.admin.broker_options(address)).get(option)

        await self._make(who, "broker.configure", cluster, f"{address} {option}", work, before=before, after=value)

    async def drain(self, who: Visitor, cluster: Cluster, broker: str, *, undo: bool) -> dict[str, int]:
        """Take a broker out of the routes for writing, or let it back."""
        make = cluster.admin.add_write_perm if undo else cluster.admin.wipe_write_perm
        return await self._make(
            who,
            "broker.drain",
            cluster,
            broker,
            lambda: make(broker),
            before="drained" if undo else "writable",
            after=lambda counts: {"state": "writable" if undo else "drained", "topics": counts},
        )

    async def promote(self, who: Visitor, cluster: Cluster, address: str, broker: str) -> tuple[int, int]:
        """Make a slave the master of its broker name; refused while the master answers."""
        return await self._make(
            who,
            "broker.promote",
            cluster,
            f"{broker} {address}",
            lambda: cluster.admin.promote_broker(address, broker),
            after=lambda result: {"epoch": result[0], "begins": result[1]},
        )


def _queue(reset: OffsetReset) -> str:
    return f"{reset.queue.broker_name}:{reset.queue.queue_id}"


def _letter(letter: DeadLetter) -> dict[str, Any]:
    message = letter.message
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(message.body).decode()}
    return {
        "id": message.message_id,
        "letter": letter.letter_id,
        "topic": letter.topic,
        "stored": message.store_time,
        "attempts": letter.attempts,
        "properties": message.properties,
        **body,
    }
