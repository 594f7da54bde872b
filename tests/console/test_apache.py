"""The console over Apache's cluster: every page in Chromium, and changes that Apache's broker obeys."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from ariane import Admin, Message, Producer
from ariane.console.server import BUILDERS
from tests.console.conftest import Tab, opened_tab
from tests.console.site import Site, start_site, write_users
from tests.peers.clients import unique
from tests.peers.fixtures import ApacheCluster

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


def test_changes_reach_apaches_broker(apaches: Tab, apache_cluster: ApacheCluster) -> None:
    topic = unique("made")
    apaches.log_in("admin", "topics")
    page = apaches.page
    page.get_by_role("button", name="Create topic").click()
    page.get_by_label("Topic", exact=True).fill(topic)
    page.get_by_role("dialog").get_by_role("button", name="Create topic").click()
    page.wait_for_url(re.compile(f"topic\\?name={topic}"))
    page.get_by_role("button", name="Send a message").click()
    page.get_by_label("Body").fill("hello")
    page.get_by_role("dialog").get_by_role("button", name="Send a message").click()
    expect(page.get_by_text(re.compile("Stored as [0-9A-F]{32}"))).to_be_visible()
    page.get_by_role("button", name="Remove queues").click()
    page.get_by_label("Queues to keep on this broker").fill("4")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("Come back when every group")).to_be_visible()
    with Admin(name_servers=apache_cluster.namesrv) as admin:
        config = admin.topic_configs(apache_cluster.broker.address).topic_config_table[topic]
        assert (config.read_queue_nums, config.write_queue_nums) == (8, 4)
    page.get_by_role("button", name="Delete topic").click()
    page.get_by_label(f"Type {topic} to confirm").fill(topic)
    page.get_by_role("button", name="Confirm").click()
    page.wait_for_url(re.compile("/topics$"))
    with Admin(name_servers=apache_cluster.namesrv) as admin:
        assert topic not in admin.topics()
