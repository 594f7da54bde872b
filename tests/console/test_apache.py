"""The console over Apache's cluster: every page in Chromium, and changes that Apache's broker obeys."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from ariane import Admin, Message, Producer, TransactionProducer
from ariane.console.server import BUILDERS
from ariane.errors import BrokerRefused
from tests.client.test_transactions import Ledger
from tests.console.conftest import Tab, opened_tab
from tests.console.site import Site, start_site, write_users
from tests.console.steps import Steps
from tests.peers import Driver
from tests.peers.clients import unique
from tests.peers.fixtures import ApacheCluster
from tests.peers.jvm import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def apache_site(apache_cluster: ApacheCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("console") / "files"
    write_users(folder)
    running = start_site(folder, apache_cluster.namesrv)
    try:
        yield running
    finally:
        running.stop()


@pytest.fixture
def apaches(browser: Browser, apache_site: Site) -> Iterator[Tab]:
    with opened_tab(browser, apache_site) as tab:
        yield tab


def test_every_page_opens_over_apaches_cluster(apaches: Tab, apache_cluster: ApacheCluster) -> None:
    topic, group = unique("topic"), unique("group")
    with Admin(name_servers=apache_cluster.namesrv) as admin:
        admin.create_topic(topic, queues=2)
        admin.create_group(group)
        with Producer("shop", name_servers=apache_cluster.namesrv) as producer:
            for _ in range(3):
                sent = producer.send(Message(topic, b'{"a": 1}', keys=["k"]))
            producer.send(Message(topic, b"later", delay_level=16))
        for queue in admin.queues(topic):
            admin.commit(group, queue, 1)
    assert sent.offset_id is not None
    queries = {
        "broker": f"?address={apache_cluster.broker.address}",
        "topic": f"?name={topic}",
        "group": f"?name={group}",
        "message": f"?id={sent.offset_id}",
        "messages": f"?topic={topic}",
        "trace": f"?id={sent.message_id}",
    }
    apaches.log_in("admin")
    for page in BUILDERS:
        apaches.show(page + queries.get(page, ""))
        apaches.settle()
        assert apaches.page.locator(".problem:visible").count() == 0, page
    apaches.show("access")
    expect(apaches.page.get_by_text("Access control is off")).to_be_visible()


def test_changes_reach_apaches_broker(apaches: Tab, apache_cluster: ApacheCluster, java: Driver) -> None:
    topic, group = unique("made"), unique("readers")
    namesrv, address = apache_cluster.namesrv, apache_cluster.broker.address
    apaches.log_in("admin", "topics")
    steps, site, page, dialog = Steps(apaches), apaches.site, apaches.page, apaches.page.get_by_role("dialog").last
    with Admin(name_servers=namesrv) as admin:
        steps.press("Create topic")
        dialog.get_by_label("Topic", exact=True).fill(topic)
        steps.answer("Create topic")
        page.wait_for_url(re.compile(f"topic\\?name={topic}"))
        steps.press("Send a message")
        dialog.get_by_label("Body").fill("hello")
        dialog.get_by_label("Keys").fill("first")
        steps.answer("Send a message")
        steps.finished(re.compile("Stored as [0-9A-F]{32}"))
        with java.push_consumer(namesrv, topic, group, consumeFromWhere="CONSUME_FROM_FIRST_OFFSET") as consumer:
            assert [one.body for one in consumer.await_messages(1)] == [b"hello"]
            (message,) = admin.query_messages(topic, "first")
            apaches.show(f"message?id={message.offset_id}")
            steps.press("Consume again")
            steps.choose("Group", group)
            steps.answer("Consume again")
            steps.finished("CR_SUCCESS")
            assert len(consumer.await_messages(2)) == 2
            steps.press("Send again")
            steps.confirm(f"Send it to {topic} as a new message")
            steps.finished(re.compile("Stored as [0-9A-F]{32}"))
            assert [one.body for one in consumer.await_messages(3)] == [b"hello"] * 3
            apaches.show(f"group?name={group}")
            steps.select("JAVA")
            steps.press("Running info and threads")
            expect(dialog.locator(".body-text")).to_contain_text("ConsumeMessageThread")
            steps.answer("Close")
        until(lambda: _consumers(admin, group) == 0, 60, "the consumer to be gone")
        steps.press("Reset to a time")
        dialog.get_by_label("Time (UTC)").fill("2020-01-01 00:00:00")
        steps.answer("Preview")
        steps.confirm(f"{group} in {topic}: 2 messages are delivered again")
        steps.finished()
        assert {admin.committed(group, queue) for queue in admin.queues(topic)} <= {0, None}
        assert (site.audited("group.reset")["user"], site.audited("group.reset")["outcome"]) == ("admin", "done")
        steps.press("Delete group")
        steps.confirm(f"Delete {group} and its offsets", word=group)
        page.wait_for_url(re.compile("/groups$"))
        assert group not in admin.groups(address).subscription_group_table
        with TransactionProducer(unique("payers"), Ledger({}), name_servers=namesrv) as producer:
            half = producer.send_half(Message(topic, b"half"))
        apaches.show("transactions")
        steps.select(half.message_id)
        steps.press("Roll back")
        steps.confirm("End 1 transactions")
        steps.finished()
        expect(page.get_by_role("row").filter(has_text=half.message_id)).to_have_count(0)
        apaches.show(f"topic?name={topic}")
        steps.press("Remove queues")
        dialog.get_by_label("Queues to keep on this broker").fill("4")
        steps.answer("Next")
        steps.confirm()
        steps.finished("Come back when every group")
        config = admin.topic_configs(address).topic_config_table[topic]
        assert (config.read_queue_nums, config.write_queue_nums) == (8, 4)
        steps.press("Delete topic")
        steps.confirm(word=topic)
        page.wait_for_url(re.compile("/topics$"))
        assert topic not in admin.topics()


def _consumers(admin: Admin, group: str) -> int:
    try:
        return len(admin.consumer_connections(group).connection_set)
    except BrokerRefused:
        return 0
