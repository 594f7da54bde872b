"""Dead letters: browsed, filtered, sent again exactly once."""

from pathlib import Path

import pytest

from ariane import ConsumeFrom, ConsumeStatus, Message, SubscriptionGroupConfig, aio
from ariane.client.admin import Admin
from ariane.client.admin.dead_letters import RESENT_FROM, DeadLetter
from ariane.client.admin.resend_log import ResendLog
from ariane.client.producer.producer import Producer
from ariane.errors import ClientError, RequestTimeout
from ariane.message import DELAY, ORIGIN_MESSAGE_ID, RETRY_TOPIC, ReceivedMessage, dead_letter_topic
from tests.client.inbox import Inbox, eventually

COUNT = 5


@pytest.fixture
async def letters(admin: Admin, ns: str, topic: str, producer: Producer, group: str) -> list[DeadLetter]:
    """Five dead letters of a group that failed on everything."""

    def fail(messages: list[ReceivedMessage]) -> ConsumeStatus:
        return ConsumeStatus.RECONSUME_LATER

    await admin.create_group(SubscriptionGroupConfig(group, retry_max_times=0))
    for number in range(COUNT):
        error = {"last_error": "no such customer"} if number == 2 else {}
        message = Message(topic, b"%d" % number, tags="TagA", keys=[f"k{number}"], properties={"shop": "7", **error})
        await producer.send(message)
    found: list[DeadLetter] = []
    options = {"consume_from": ConsumeFrom.FIRST, "max_reconsume_times": 0, "name_servers": ns}
    async with aio.PushConsumer(group, topic, fail, **options):

        async def dead() -> bool:
            found[:] = await admin.dead_letters(group)
            return len(found) == COUNT

        await eventually(dead, "all messages are dead letters")
    return found


async def test_letters_are_browsed_by_key_time_and_error(admin: Admin, letters: list[DeadLetter], topic: str) -> None:
    group = letters[0].group
    assert sorted(letter.message.body for letter in letters) == [b"0", b"1", b"2", b"3", b"4"]
    assert {letter.topic for letter in letters} == {topic}
    [by_key] = await admin.dead_letters(group, key="k3")
    assert by_key.message.body == b"3"
    [by_error] = await admin.dead_letters(group, error="NO SUCH customer")
    assert by_error.message.body == b"2"
    last = max(letter.message.store_time for letter in letters)
    assert await admin.dead_letters(group, begin=last + 1) == []
    assert len(await admin.dead_letters(group, end=last)) == COUNT
    assert len(await admin.dead_letters(group, limit=2)) == 2
    assert [one.count for one in await admin.dead_letter_groups() if one.group == group] == [COUNT]
    assert await admin.dead_letters("nobody_is_called_so") == []


async def test_letters_come_back_as_they_were_sent(
    admin: Admin, ns: str, letters: list[DeadLetter], topic: str, tmp_path: Path
) -> None:
    group, log = letters[0].group, tmp_path / "resend.jsonl"
    planned = await admin.resend_dead_letters(group, dry_run=True, log=log)
    assert [one.message_id for one in planned] == [None] * COUNT
    assert not log.exists()
    inbox = Inbox()
    async with aio.PushConsumer(group + "-again", topic, inbox, consume_from=ConsumeFrom.FIRST, name_servers=ns):
        await inbox.arrived(COUNT)
        sent = await admin.resend_dead_letters(group, letters=[letters[0].letter_id], rate=100, log=log)
        assert len(sent) == 1
        sent = await admin.resend_dead_letters(group, rate=100, log=log)
        assert [one.skipped for one in sent] == [one.letter.letter_id == letters[0].letter_id for one in sent]
        await inbox.arrived(2 * COUNT)
        assert all(one.skipped for one in await admin.resend_dead_letters(group, log=log))
    again = [one for one in inbox.messages if RESENT_FROM in one.properties]
    assert sorted(one.body for one in again) == [b"0", b"1", b"2", b"3", b"4"]
    for message in again:
        assert message.tags == "TagA"
        assert message.keys == [f"k{message.body.decode()}"]
        assert message.properties["shop"] == "7"
        assert message.reconsume_times == 0
        assert not {RETRY_TOPIC, DELAY, ORIGIN_MESSAGE_ID} & message.properties.keys()


async def test_a_letter_that_was_stored_without_an_answer_is_not_sent_twice(
    admin: Admin, letters: list[DeadLetter], topic: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group, log = letters[0].group, tmp_path / "resend.jsonl"
    send = Producer.send

    async def lose_the_answer(self: Producer, message: Message, **more: object) -> object:
        await send(self, message, **more)
        raise RequestTimeout("the answer was lost")

    monkeypatch.setattr(Producer, "send", lose_the_answer)
    [resent] = await admin.resend_dead_letters(group, letters=[letters[1].letter_id], log=log)
    assert resent.message_id == letters[1].message.message_id
    monkeypatch.undo()
    interrupted = ResendLog(log)  # a crash between the store and the note
    interrupted.begin(letters[1].letter_id)
    interrupted.close()
    [resumed] = await admin.resend_dead_letters(group, letters=[letters[1].letter_id], log=log)
    assert resumed.skipped
    copies = await admin.find_messages(topic, letters[1].message.message_id)
    assert sum(RESENT_FROM in one.properties for one in copies) == 1


async def test_a_letter_whose_topic_is_gone_does_not_hold_up_the_others(
    admin: Admin, producer: Producer, letters: list[DeadLetter], tmp_path: Path
) -> None:
    group, log = letters[0].group, tmp_path / "resend.jsonl"
    orphan = Message.with_properties(dead_letter_topic(group), b"orphan", {RETRY_TOPIC: "a_topic_that_is_gone"})
    await producer.send(orphan)

    async def there() -> bool:
        return len(await admin.dead_letters(group)) == COUNT + 1

    await eventually(there, "the orphan")
    sent = await admin.resend_dead_letters(group, log=log)
    assert [one.letter.message.body for one in sent if one.error is not None] == [b"orphan"]
    assert sum(one.message_id is not None for one in sent) == COUNT
    sent = await admin.resend_dead_letters(group, log=log)
    assert [(one.error is None, one.skipped) for one in sent].count((True, True)) == COUNT


def test_a_log_whose_last_line_is_cut_goes_on(tmp_path: Path) -> None:
    log = ResendLog(tmp_path / "log")
    log.begin("A")
    log.done("A", "1")
    log.begin("B")
    log.close()
    with (tmp_path / "log").open("a") as file:
        file.write('{"letter": "B", "sta')
    again = ResendLog(tmp_path / "log")
    assert again.is_done("A")
    assert again.is_begun("B")
    again.done("B", "2")
    again.close()
    third = ResendLog(tmp_path / "log")
    assert third.is_done("B")
    third.close()
    (tmp_path / "log").write_text("not json\n{}\n")
    with pytest.raises(ClientError, match="line 1"):
        ResendLog(tmp_path / "log")
