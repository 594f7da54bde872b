"""New pages in Chromium: access rules, alarms, shrinking, dead letters, trace; and what two operators see."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from ariane import Admin, Message, Producer
from tests.cluster import running_cluster
from tests.console.conftest import Tab, opened_tab
from tests.console.site import Site, start_site, write_users
from tests.console.test_access import RULES, SECRET

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def ruled_site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console over a master with a slave, both with access control on."""
    folder = tmp_path_factory.mktemp("ruled")
    for name in ("master", "slave"):
        (folder / name / "conf").mkdir(parents=True)
        (folder / name / "conf/plain_acl.yml").write_text(RULES.replace("10.9.9.*", "10.9.9.*, 127.0.0.9"))
    profiles = folder / "profiles.toml"
    with running_cluster(folder) as cluster:
        cluster.start_broker(rocketmqHome=folder / "master", aclEnable=True)
        keys = {"access_key": "console-key", "secret_key": SECRET}
        cluster.start_slave(brokerName="broker-a", rocketmqHome=folder / "slave", aclEnable=True)
        with Admin(name_servers=cluster.namesrv, **keys) as admin:
            admin.create_topic("orders", queues=2)
        profiles.write_text(
            f'[main]\nname_servers = "{cluster.namesrv}"\naccess_key = "console-key"\nsecret_key = "{SECRET}"\n'
        )
        profiles.chmod(0o600)
        files = folder / "files"
        write_users(files)
        running = start_site(files, cluster.namesrv, "--profile", "main", env={"ARIANE_PROFILES": str(profiles)})
        try:
            yield running
        finally:
            assert SECRET not in running.stop()


@pytest.fixture
def ruled(browser: Browser, ruled_site: Site) -> Iterator[Tab]:
    with opened_tab(browser, ruled_site) as tab:
        yield tab


def choose(page: Page, label: str, option: str) -> None:
    """Choose an entry of a select."""
    page.get_by_label(label, exact=True).last.click()
    page.get_by_role("option", name=option, exact=True).click()


def audit(site: Site) -> list[dict[str, object]]:
    return [json.loads(line) for line in (site.folder / "audit.jsonl").read_text().splitlines()]


def test_an_account_is_added_asked_about_edited_and_deleted(ruled: Tab, ruled_site: Site) -> None:
    ruled.log_in("admin", "access")
    page = ruled.page
    expect(page.get_by_role("cell", name="shop-key")).to_be_visible()
    page.get_by_role("button", name="Add account").click()
    page.get_by_role("dialog").get_by_label("Account", exact=True).fill("report-key")
    page.get_by_label("Topics: name=PUB").fill("orders=SUB\nothers=PUB|SUB")
    page.get_by_role("button", name="Next").click()
    expect(page.get_by_text("Topics: - → orders=SUB, others=PUB|SUB")).to_be_visible()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("This secret key is shown once")).to_be_visible()
    secret = page.locator(".body-text").inner_text().strip()
    assert len(secret) == 32
    page.get_by_role("button", name="Close").last.click()
    expect(page.get_by_role("cell", name="report-key")).to_be_visible()
    expect(page.locator(".body-text")).to_have_count(0)
    assert secret not in page.content()
    with Admin(name_servers=ruled_site.namesrv, access_key="report-key", secret_key=secret) as admin:
        assert "orders" in admin.topics()  # both keys are good
    rows = page.get_by_role("row").filter(has_text="report-key")
    expect(rows.get_by_role("cell", name="all", exact=True)).to_be_visible()  # master and slave
    # May it? The rule that decides is named.
    page.locator(".panel").first.get_by_label("Account").fill("report-key")
    page.get_by_role("option", name="report-key").click()
    page.get_by_label("Name", exact=True).fill("orders")
    page.get_by_role("button", name="Ask").click()
    expect(page.get_by_text("no: its own entry says orders=SUB").first).to_be_visible()
    # Edit, then delete.
    rows.get_by_role("checkbox").click()
    page.get_by_role("button", name="Edit account").click()
    page.get_by_label("Topics: name=PUB").fill("")
    page.get_by_role("button", name="Next").click()
    page.get_by_role("button", name="Confirm").click()
    expect(rows.get_by_text("others=PUB|SUB")).to_have_count(0)
    page.get_by_role("button", name="Delete account").click()
    page.get_by_label("Type report-key to confirm").fill("report-key")
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_role("cell", name="report-key")).to_have_count(0)
    text = (ruled_site.folder / "audit.jsonl").read_text()
    assert secret not in text
    assert SECRET not in text
    made = [one for one in audit(ruled_site) if str(one["what"]).startswith("access.")]
    assert [(one["what"], one["outcome"]) for one in made] == [
        ("access.account", "done"), ("access.account", "done"), ("access.delete", "done"),
    ]  # fmt: skip


def test_two_administrators_edit_the_same_account(ruled: Tab, browser: Browser, ruled_site: Site) -> None:
    with opened_tab(browser, ruled_site) as other:
        for tab, perm in ((ruled, "orders=PUB|SUB"), (other, "orders=DENY")):
            tab.log_in("admin", "access")
            tab.page.get_by_role("row").filter(has_text="shop-key").get_by_role("checkbox").click()
            tab.page.get_by_role("button", name="Edit account").click()
            tab.page.get_by_label("Topics: name=PUB").fill(perm)
            tab.page.get_by_role("button", name="Next").click()
            expect(tab.page.get_by_role("button", name="Confirm")).to_be_visible()
        ruled.page.get_by_role("button", name="Confirm").click()
        expect(ruled.page.get_by_text("Done")).to_be_visible()
        other.page.get_by_role("button", name="Confirm").click()
        expect(other.page.get_by_text("shop-key was changed meanwhile")).to_be_visible()


def test_the_picture_shows_a_copy_and_what_it_lacks(ruled: Tab) -> None:
    ruled.log_in("viewer")
    page = ruled.page
    expect(page.get_by_text("with copies")).to_be_visible()
    expect(page.get_by_text("slave 1")).to_be_visible()
    expect(page.get_by_text("copy is complete")).to_be_visible()
    expect(page.locator(".broker-card")).to_have_count(2)


def test_white_addresses_are_edited(ruled: Tab, ruled_site: Site) -> None:
    ruled.log_in("admin", "access")
    page = ruled.page
    row = page.get_by_role("row").filter(has_text="127.0.0.9").first
    row.get_by_role("checkbox").click()
    page.get_by_role("button", name="Edit addresses").click()
    page.get_by_role("dialog").get_by_label("Without signature from").fill("10.9.9.*")
    page.get_by_role("button", name="Next").click()
    word = page.get_by_label(re.compile("^Type .* to confirm"))
    address = re.match("Type (.*) to confirm", word.get_attribute("aria-label") or "")
    assert address is not None
    word.fill(address[1])
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("Done")).to_be_visible()
    last = audit(ruled_site)[-1]
    assert (last["before"], last["after"]) == (["10.9.9.*", "127.0.0.9"], ["10.9.9.*"])


def test_access_rules_can_be_read_by_all(ruled: Tab) -> None:
    ruled.log_in("admin", "access")
    ruled.settle()
    ruled.picture("access-rules")
    ruled.check_access("access")
    ruled.page.set_viewport_size({"width": 390, "height": 800})
    ruled.log_in("admin", fresh=True)
    ruled.turn_dark_and_chinese()
    ruled.show("access")
    ruled.settle()
    assert ruled.fits()
    ruled.picture("access-rules-phone")
    ruled.check_access("access, dark, on a phone")


def test_queues_are_removed_step_by_step(tab: Tab, site: Site) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        admin.create_topic("wide", queues=3)
        admin.create_group("wide-reader")
        with Producer("shop", name_servers=site.namesrv) as producer:
            for _ in range(3):
                producer.send(Message("wide", b"x"))
        for queue in admin.queues("wide"):
            admin.commit("wide-reader", queue, 0)
    tab.log_in("operator", "topic?name=wide")
    page = tab.page

    def begin() -> None:
        page.get_by_role("button", name="Remove queues").click()
        page.get_by_label("Queues to keep on this broker").fill("1")
        page.get_by_role("button", name="Next").click()

    begin()
    expect(page.get_by_text("Next: lower the write queues to 1")).to_be_visible()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("Come back when every group")).to_be_visible()
    begin()
    expect(page.get_by_text(re.compile(r"wide-reader: \d"))).to_be_visible()
    page.get_by_role("button", name="Cancel").click()
    with Admin(name_servers=site.namesrv) as admin:
        for queue in admin.queues("wide"):
            admin.commit("wide-reader", queue, admin.max_offset(queue))
    begin()
    page.get_by_label("Type wide to confirm").fill("wide")
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("Done", exact=True)).to_be_visible()
    with Admin(name_servers=site.namesrv) as admin:
        assert len(admin.queues("wide")) == 1


def test_messages_of_a_range_come_page_by_page_in_their_order(tab: Tab, site: Site) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        admin.create_topic("many", queues=3)
    with Producer("shop", name_servers=site.namesrv) as producer:
        for number in range(130):
            producer.send(Message("many", f"number {number}".encode()))
    tab.log_in("operator", "messages?topic=many")
    page = tab.page
    expect(page.locator(".count")).to_have_text("100 of 100")
    expect(page.get_by_text("number 0", exact=True)).to_be_visible()
    page.get_by_role("button", name="Next messages").click()
    expect(page.locator(".count")).to_have_text("130 of 130")
    expect(page.get_by_role("button", name="Next messages")).not_to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as CSV").click()
    lines = download.value.path().read_text("utf-8-sig").splitlines()[1:]
    assert len(lines) == 130
    assert lines[0].endswith("number 0")


def test_dead_letters_show_why_and_are_exported_and_sent_again(tab: Tab, site: Site, tmp_path: Path) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        admin.create_topic("%DLQ%failing", queues=1)
        admin.create_topic("retried", queues=1)
        with Producer("shop", name_servers=site.namesrv) as producer:
            letter = Message("%DLQ%failing", b"dead", keys=["d-1"])
            letter.properties |= {"RETRY_TOPIC": "retried", "ERROR_TEXT": "division by zero"}
            producer.send(letter)
    tab.log_in("operator", "dead-letters")
    page = tab.page
    expect(page.get_by_text("division by zero (0 attempts)")).to_be_visible()
    page.get_by_role("link", name="failing").click()
    page.wait_for_url(re.compile("group=failing"))
    with page.expect_download() as download:
        page.get_by_role("button", name="Export with bodies").click()
    (line,) = download.value.path().read_text().splitlines()
    assert json.loads(line)["body"] == "dead"
    assert audit(site)[-1]["what"] == "letters.export"
    page.get_by_role("button", name="Send all again").click()
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("1 sent, 0 had been before, 0 failed")).to_be_visible()
    with Admin(name_servers=site.namesrv) as admin:
        assert sum(one.max_offset for one in admin.topic_stats("retried").offset_table.values()) == 1


def test_pages_are_opened_by_keys(tab: Tab) -> None:
    tab.log_in("viewer")
    page = tab.page
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url(re.compile("/topics$"))
    page.wait_for_selector("h1.page-title")
    page.keyboard.press("?")
    expect(page.get_by_text("jump to the filter")).to_be_visible()
