"""Dead letters: browse them, and send them to their original topic again, each once."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ariane.client.admin.messages import MessageAdmin, as_new
from ariane.client.admin.requests import FOREVER
from ariane.client.admin.resend_log import ResendLog
from ariane.errors import ArianeError, BrokerRefused, ClientError, NameServersUnreachable, RouteMissing
from ariane.message import (
    DLQ_PREFIX,
    ORIGIN_MESSAGE_ID,
    RETRY_TOPIC,
    Message,
    MessageQueue,
    ReceivedMessage,
    dead_letter_topic,
)
from ariane.protocol.bodies import READ

if TYPE_CHECKING:
    from ariane.client.producer.producer import Producer

PAGE = 32
RESENT_FROM = "DLQ_RESENT_FROM"
"""The property of a message that was sent again: the offset id of its dead letter."""
LOOK_AGAIN = 0.2  # seconds between queries for a message that may have been stored
LOOKS = 10


@dataclass(frozen=True)
class DeadLetter:
    """A message that a group failed on too often."""

    group: str
    message: ReceivedMessage

    @property
    def letter_id(self) -> str:
        """The offset id of the letter itself."""
        return self.message.offset_id

    @property
    def topic(self) -> str | None:
        """The topic of the original message; None when the letter does not name it."""
        return self.message.properties.get(RETRY_TOPIC)

    @property
    def origin_id(self) -> str | None:
        """The offset id of the original message."""
        return self.message.properties.get(ORIGIN_MESSAGE_ID)

    @property
    def attempts(self) -> int:
        """How often it was delivered."""
        return self.message.reconsume_times

    def matches(self, key: str | None, error: str | None) -> bool:
        """Whether it has a key, and a text in one of its properties whose name contains `error` or `exception`."""
        if key is not None and key not in self.message.keys and key != self.message.message_id:
            return False
        return error is None or any(
            error.lower() in value.lower()
            for name, value in self.message.properties.items()
            if "error" in name.lower() or "exception" in name.lower()
        )


@dataclass(frozen=True)
class Resent:
    """A dead letter that was sent again; `message_id` is None in a dry run."""

    letter: DeadLetter
    topic: str | None
    message_id: str | None
    skipped: bool = False
    """It had been sent before, by an earlier run with the same log."""
    error: str | None = None
    """Why it was not sent: its topic is gone or may not be written to. The next run tries it again."""


@dataclass(frozen=True)
class DeadLetterCount:
    """How many dead letters a group has."""

    group: str
    count: int
    last_time: int
    """When the last one was stored, in milliseconds; 0 without any."""


class DeadLetterAdmin(MessageAdmin):
    """Administers dead letters."""

    async def dead_letter_groups(self) -> list[DeadLetterCount]:
        """The groups with a dead-letter topic, and how many letters each has."""
        found: list[DeadLetterCount] = []
        for topic in await self.topics():
            if topic.startswith(DLQ_PREFIX):
                stats = (await self.topic_stats(topic)).offset_table.values()
                count = sum(offsets.max_offset - offsets.min_offset for offsets in stats)
                last = max((offsets.last_update_timestamp for offsets in stats), default=0)
                found.append(DeadLetterCount(topic.removeprefix(DLQ_PREFIX), count, last))
        return found

    async def dead_letters(
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
        found: list[DeadLetter] = []
        async for letter in self.each_dead_letter(group, begin=begin, end=end, key=key, error=error):
            found.append(letter)
            if len(found) >= limit:
                break
        return found

    async def each_dead_letter(
        self,
        group: str,
        *,
        begin: int = 0,
        end: int = FOREVER,
        key: str | None = None,
        error: str | None = None,
    ) -> AsyncGenerator[DeadLetter, None]:
        """Like `dead_letters`, as an iterator: for more than fit into memory.

        Letters that arrive meanwhile are not included: the ends of the queues are read first.
        """
        for queue, first, last in await self._dead_letter_ranges(group, begin):
            offset = first
            while offset < last:
                messages, following = await self.read(queue, offset, PAGE)
                for message in messages:
                    if message.queue_offset >= last or message.store_time > end:
                        following = last
                        break
                    letter = DeadLetter(group, message)
                    if message.store_time >= begin and letter.matches(key, error):
                        yield letter
                if following <= offset:
                    break
                offset = following

    async def _dead_letter_ranges(self, group: str, begin: int) -> list[tuple[MessageQueue, int, int]]:
        topic = dead_letter_topic(group)
        try:
            data = await self.route(topic)
        except RouteMissing:
            return []  # the topic is created with the first dead letter
        closed = [one.broker_name for one in data.queue_datas if not one.perm & READ]
        if closed:
            raise ClientError(f"{topic} cannot be read on {', '.join(closed)}: run `ariane admin updateTopicPerm -p 6`")
        ranges: list[tuple[MessageQueue, int, int]] = []
        for queue in await self.queues(topic):
            first, last = await self.min_offset(queue), await self.max_offset(queue)
            if begin > 0 and last > first:
                first = max(first, await self.search_offset(queue, begin))
            ranges.append((queue, first, last))
        return ranges

    async def resend_dead_letters(
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
        wanted = None if letters is None else set(letters)
        sent: list[Resent] = []
        notes = ResendLog(None if log is None or dry_run else Path(log))
        clock, pause = self._env.clock, 0.0 if rate is None else 1 / rate
        due = clock.monotonic()
        try:
            async with self._producer("ariane-dlq-resend") as producer:
                async for letter in self.each_dead_letter(group, begin=begin, end=end, key=key, error=error):
                    message = letter.message
                    if wanted is not None and not {letter.letter_id, message.message_id} & wanted:
                        continue
                    if dry_run:
                        done = Resent(letter, letter.topic, None)
                    elif notes.is_done(letter.letter_id):
                        done = Resent(letter, letter.topic, None, skipped=True)
                    else:
                        await clock.sleep(max(0.0, due - clock.monotonic()))
                        due = max(due, clock.monotonic() - pause) + pause
                        done = await self._resend(letter, producer, notes)
                    sent.append(done)
                    if progress is not None:
                        progress(done)
                    if limit is not None and sum(not one.skipped for one in sent) >= limit:
                        break
        finally:
            notes.close()
        return sent

    async def _resend(self, letter: DeadLetter, producer: "Producer", notes: ResendLog) -> Resent:
        try:
            again = resurrected(letter)
            # Not the producer's route: it would create a topic that was deleted.
            queues = list((await self._running().routes.refresh(again.topic)).write_queues)
            if not queues:
                raise ClientError(f"topic {again.topic} has no queue to write to")
        except NameServersUnreachable:
            raise
        except ClientError as error:
            return Resent(letter, letter.topic, None, error=str(error))
        if notes.is_begun(letter.letter_id) and (found := await self._already_sent(letter, again.topic)) is not None:
            notes.done(letter.letter_id, found)
            return Resent(letter, again.topic, found, skipped=True)
        here = [queue for queue in queues if queue.broker_name == letter.message.queue.broker_name] or queues
        queue = here[letter.message.queue_offset % len(here)]
        notes.begin(letter.letter_id)
        try:  # to a fixed queue, because such a send is not retried
            result = await producer.send(again, queue=queue)
        except BrokerRefused as error:
            return Resent(letter, again.topic, None, error=str(error))
        except ArianeError:
            found = await self._already_sent(letter, again.topic)  # it may have been stored nevertheless
            if found is None:
                raise
            notes.done(letter.letter_id, found)
            return Resent(letter, again.topic, found)
        notes.done(letter.letter_id, result.message_id)
        return Resent(letter, again.topic, result.message_id)

    async def _already_sent(self, letter: DeadLetter, topic: str) -> str | None:
        """The id of the resent message, if it was stored; polls, because the index may lag."""
        for _ in range(LOOKS):
            for message in await self.find_messages(topic, letter.message.message_id):
                if message.properties.get(RESENT_FROM) == letter.letter_id:
                    return message.message_id
            await asyncio.sleep(LOOK_AGAIN)
        return None


def resurrected(letter: DeadLetter) -> Message:
    """The message to send for a dead letter; ClientError when it does not name its topic."""
    topic = letter.topic
    if not topic:
        raise ClientError(f"dead letter {letter.letter_id} does not name its original topic: resend it by hand")
    again = as_new(letter.message, topic)
    again.properties[RESENT_FROM] = letter.letter_id
    return again
