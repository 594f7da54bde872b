"""The pages in a real Chromium over a real broker: no error on the console of the browser, no failed request."""

import re

from playwright.sync_api import expect

from ariane import Admin
from tests.console.conftest import Tab
from tests.console.site import Site


def test_an_operator_creates_a_topic_and_sends_to_it(tab: Tab, site: Site) -> None:
    tab.log_in("operator", "topics")
    page = tab.page
    expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
    page.get_by_role("button", name="Create topic").click()
    page.get_by_label("Topic", exact=True).fill("made-here")
    page.get_by_role("dialog").get_by_role("button", name="Create topic").click()
    page.wait_for_url(re.compile("topic\\?name=made-here"))
    page.get_by_role("button", name="Send a message").click()
    page.get_by_label("Body").fill("hello")
    page.get_by_role("dialog").get_by_role("button", name="Send a message").click()
    expect(page.get_by_text(re.compile("Stored as [0-9A-F]{32}"))).to_be_visible()
    assert page.get_by_role("button", name="Delete topic").count() == 0  # the role may not
    with Admin(name_servers=site.namesrv) as admin:
        assert sum(one.max_offset for one in admin.topic_stats("made-here").offset_table.values()) == 1


def test_an_administrator_deletes_a_topic_after_typing_its_name(tab: Tab, site: Site) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        admin.create_topic("to-delete", queues=1)
    tab.log_in("admin", "topic?name=to-delete")
    tab.page.get_by_role("button", name="Delete topic").click()
    confirm = tab.page.get_by_role("button", name="Confirm")
    expect(confirm).to_be_disabled()
    tab.page.get_by_label("Type to-delete to confirm").fill("to-delete")
    confirm.click()
    tab.page.wait_for_url(re.compile("/topics$"))
    with Admin(name_servers=site.namesrv) as admin:
        assert "to-delete" not in admin.topics()


def test_the_cluster_page_shows_the_broker_in_both_languages_and_shades(tab: Tab) -> None:
    tab.log_in("viewer", "cluster", fresh=True)
    page = tab.page
    expect(page.get_by_text("broker-a")).to_be_visible()
    tab.turn_dark_and_chinese()


def test_tables_are_filtered_sorted_and_exported(tab: Tab) -> None:
    tab.log_in("viewer", "topics?filter=orders")
    page = tab.page
    expect(page.locator(".count")).to_have_text(re.compile("^1 of "))
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as CSV").click()
    content = download.value.path().read_text("utf-8-sig")
    assert content.splitlines()[1].startswith("orders,normal,broker-a,2,2,RW")
    page.get_by_label("Filter").fill("")
    page.keyboard.press("Escape")
    page.locator("h1").click()
    page.keyboard.press("/")
    expect(page.get_by_label("Filter")).to_be_focused()


def test_the_navigation_fits_a_phone(tab: Tab) -> None:
    tab.page.set_viewport_size({"width": 390, "height": 800})
    tab.log_in("viewer")
    page = tab.page
    for path in ("cluster", "topics"):
        tab.show(path)
        expect(page.get_by_role("navigation")).not_to_be_in_viewport()
        assert tab.fits()
    page.get_by_role("button", name="Navigation").click()
    page.get_by_role("navigation").get_by_role("link", name="Cluster").click()
    page.wait_for_url(re.compile("/cluster$"))
