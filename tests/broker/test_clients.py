"""Who is connected: heartbeats, leaving, notices of change, and groups whose members disagree."""

import asyncio

import pytest

from ariane.broker.tables import clients
from ariane.broker.tables.consistency import compare
from ariane.env import Env, ManualClock
from ariane.protocol.bodies import CheckClientRequestBody, ConsumerIdList, SubscriptionData
from ariane.protocol.codes import RequestCode, ResponseCode
from tests.broker.conftest import Starter
from tests.broker.talk import Talk, settled

NOTIFY = RequestCode.NOTIFY_CONSUMER_IDS_CHANGED


async def members(talk: Talk, group: str = "consumers") -> list[str]:
    answer = await talk.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    return sorted(ConsumerIdList.decode(answer.body).consumer_id_list) if answer.code == 0 else []


async def test_a_heartbeat_makes_a_member_and_its_retry_topic(talk: Talk) -> None:
    assert (await talk.heartbeat("consumers", {"orders": "*"}, client_id="c1", producer="producers")).code == 0
    assert await members(talk) == ["c1"]
    retry = talk.broker.topics.get("%RETRY%consumers")
    assert retry is not None
    assert retry.read_queue_nums == 1
    assert [c.client_id for c in talk.broker.clients.producers("producers")] == ["c1"]


async def test_who_takes_the_id_of_a_producer_does_not_get_its_replies(talk: Talk) -> None:
    clients = talk.broker.clients
    async with Talk.beside(talk.broker) as thief:
        await thief.heartbeat(client_id="thief", producer="first")
        await talk.heartbeat(client_id="asker", producer="second")
        asker = clients.find_producer("asker")
        await thief.heartbeat(client_id="asker", producer="first")
        await talk.heartbeat(client_id="asker", producer="second")
        found = clients.find_producer("asker")
        assert asker is not None
        assert found is not None
        assert found.connection is asker.connection
        assert clients.find_producer("thief") is None
        await talk.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "asker", "producerGroup": "second"})
        left = clients.find_producer("asker")
        assert left is not None
        assert left.connection is not asker.connection
    await settled(lambda: clients.find_producer("asker") is None)


async def test_a_group_without_members_is_an_error_in_apaches_words(talk: Talk) -> None:
    answer = await talk.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "nobody"})
    assert (answer.code, answer.remark) == (ResponseCode.SYSTEM_ERROR, "no consumer for this group, nobody")


async def test_members_are_told_when_others_come_and_go(talk: Talk) -> None:
    await talk.heartbeat("consumers", {"orders": "*"}, client_id="c1")
    await talk.asked(NOTIFY, 1)
    async with Talk.beside(talk.broker) as other:
        await other.heartbeat("consumers", {"orders": "*"}, client_id="c2")
        assert (await other.asked(NOTIFY))[0].fields == {"consumerGroup": "consumers"}
        await talk.asked(NOTIFY, 2)
        assert await members(talk) == ["c1", "c2"]
        await other.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "c2", "consumerGroup": "consumers"})
        await talk.asked(NOTIFY, 3)
        assert await members(talk) == ["c1"]
        await other.heartbeat("consumers", {"orders": "*"}, client_id="c2")
        await talk.asked(NOTIFY, 4)
    await talk.asked(NOTIFY, 5)  # its connection closed
    assert await members(talk) == ["c1"]


async def test_members_are_told_of_changed_subscriptions_and_not_of_the_same_again(talk: Talk) -> None:
    await talk.heartbeat("consumers", {"orders": "A"}, version=1)
    await talk.asked(NOTIFY, 1)
    await talk.heartbeat("consumers", {"orders": "A"}, version=2)
    await talk.heartbeat("consumers", {"orders": "A || B"}, version=3)
    await talk.asked(NOTIFY, 2)
    await talk.heartbeat("consumers", {"orders": "A || B", "other": "*"}, version=3)
    await talk.asked(NOTIFY, 3)
    await talk.heartbeat("consumers", {"other": "*"}, version=3)
    await talk.asked(NOTIFY, 4)
    await talk.heartbeat("consumers", {"other": "*"}, version=3)
    assert len([r for r in talk.received if r.code == NOTIFY]) == 4


@pytest.mark.parametrize("by", ["broker", "group"])
async def test_notices_can_be_switched_off(talk: Talk, by: str) -> None:
    if by == "broker":
        talk.broker.change_options(talk.broker.options.updated("notifyConsumerIdsChangedEnable", "false"))
    else:
        config = talk.broker.groups.find("consumers", auto_create=True)
        assert config is not None
        config.notify_consumer_ids_changed_enable = False
    await talk.heartbeat("consumers", {"orders": "*"})
    await members(talk)
    assert not talk.received


async def test_a_client_that_falls_silent_is_dropped_after_two_minutes(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock))
    async with Talk.beside(talk.broker) as other:
        await other.heartbeat("consumers", {"orders": "*"}, client_id="silent", producer="producers")
        clock.advance(60)
        await talk.heartbeat("consumers", {"orders": "*"}, client_id="alive")
        assert await members(talk) == ["alive", "silent"]
        clock.advance(61)
        talk.broker.clients.expire()
        assert await members(talk) == ["alive"]
        assert not talk.broker.clients.producers("producers")
        await talk.asked(NOTIFY, 2)


async def test_the_broker_looks_for_silent_clients_by_itself(talk_to: Starter) -> None:
    clock = ManualClock()
    talk = await talk_to(env=Env(clock=clock))
    await talk.heartbeat("consumers", {"orders": "*"})
    for _ in range(14):
        clock.advance(10)
        await settled(lambda: clock.sleepers > 3)
    await settled(lambda: talk.broker.clients.consumer_group("consumers") is None)


async def test_an_expression_is_checked_before_a_consumer_starts(talk: Talk) -> None:
    async def check(text: str, kind: str) -> tuple[int, str | None]:
        body = CheckClientRequestBody("c", "g", SubscriptionData("orders", text, expression_type=kind)).encode()
        answer = await talk.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body)
        return answer.code, answer.remark

    assert (await check("a > 1", "SQL92"))[0] == 0
    assert (await check("anything", "TAG"))[0] == 0
    code, remark = await check("a > > 1", "SQL92")
    assert code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert "line 1, column" in (remark or "")


async def test_a_group_with_a_bad_name_is_refused(talk: Talk) -> None:
    for name in ("../evil", "a b", "x" * 256):
        assert (await talk.heartbeat(name, {"orders": "*"})).code == ResponseCode.SYSTEM_ERROR
    assert talk.broker.topics.get("%RETRY%../evil") is None


# Groups that disagree with themselves.


async def test_members_that_want_different_things_are_noticed_once_and_named(
    talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    clients = talk.broker.clients
    async with Talk.beside(talk.broker) as second, Talk.beside(talk.broker) as third:
        await talk.heartbeat("consumers", {"orders": "A"}, client_id="c1")
        await second.heartbeat("consumers", {"orders": "A"}, client_id="c2")
        assert clients.inconsistencies() == []
        await third.heartbeat("consumers", {"orders": "B", "other": "*"}, client_id="c3")
        for _ in range(3):
            await third.heartbeat("consumers", {"orders": "B", "other": "*"}, client_id="c3")
        [found] = clients.inconsistencies()
        [difference] = found.differences
        assert (found.group, difference.client_id) == ("consumers", "c3")
        assert difference.missing == ("orders (A)",)
        assert difference.extra == ("orders (B)", "other (*)")
        assert clients.inconsistencies_seen == 1
        assert len([r for r in caplog.records if "different things" in r.message]) == 1
    await settled(lambda: not clients.inconsistencies())


async def test_a_heartbeat_that_changes_nothing_compares_nobody(talk: Talk, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    monkeypatch.setattr(clients, "compare", lambda group, members: compared.append(group))
    for _ in range(3):  # a group may have thousands of members, and each sends one every 30 s or more often
        await talk.heartbeat("consumers", {"orders": "A", "other": "*"}, client_id="c1")
    assert compared == ["consumers"]
    await talk.heartbeat("consumers", {"orders": "B", "other": "*"}, client_id="c1")
    assert compared == ["consumers"] * 2


def subscriptions(**topics: str) -> list[SubscriptionData]:
    return [SubscriptionData.build(topic, expression, 1) for topic, expression in topics.items()]


def test_the_order_of_tags_and_the_retry_topic_make_no_difference() -> None:
    first = [*subscriptions(orders="A || B"), SubscriptionData("%RETRY%g")]
    assert compare("g", {"c1": first, "c2": subscriptions(orders="B||A")}) is None


def test_a_difference_in_topics_is_told_in_words() -> None:
    found = compare(
        "g", {"c1": subscriptions(a="*", b="*"), "c2": subscriptions(a="*", b="*"), "c3": subscriptions(a="*")}
    )
    assert found is not None
    assert str(found).endswith("Most subscribe to a (*), b (*); c3 does not subscribe to b (*)")


async def test_many_members_join_and_leave_at_once(talk: Talk) -> None:
    async def come_and_go(number: int) -> None:
        async with Talk.beside(talk.broker) as client:
            await client.heartbeat("consumers", {"orders": "*"}, client_id=f"c{number}")

    await asyncio.gather(*(come_and_go(i) for i in range(20)))
    await settled(lambda: talk.broker.clients.consumer_group("consumers") is None)
