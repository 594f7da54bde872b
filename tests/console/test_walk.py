"""A walk through every page in Chromium, hostile values, and the changes of groups and messages."""

import json
import re

import pytest
from playwright.sync_api import expect

from ariane import Admin
from ariane.console.server import BUILDERS
from tests.console.conftest import HOSTILE, Tab
from tests.console.site import Site


def test_every_page_opens_without_an_error(tab: Tab, site: Site) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        message = admin.query_messages("orders", "o-1")[0]
        broker = admin.masters()[0]
    queries = {
        "broker": f"?address={broker}",
        "topic": "?name=orders",
        "group": "?name=billing",
        "message": f"?id={message.offset_id}",
        "messages": "?topic=orders",
        "trace": f"?id={message.message_id}",
    }
    tab.log_in("admin")
    for page in BUILDERS:
        tab.show(page + queries.get(page, ""))
        tab.settle()
        assert tab.page.locator(".problem:visible").count() == 0, page
        tab.picture(page)
        tab.check_access(page)


@pytest.mark.parametrize("shade", ["light", "dark"])
def test_login_and_dialogs_can_be_used_by_all(tab: Tab, shade: str) -> None:
    tab.page.emulate_media(color_scheme="dark" if shade == "dark" else "light")
    tab.page.goto(tab.site.url)
    tab.check_access(f"login, {shade}")
    tab.log_in("admin")
    page = tab.page
    if shade == "dark":
        page.get_by_role("button", name="Light or dark").click()
        expect(page.locator("body.body--dark")).to_be_visible()
    for path in ("cluster", "topic?name=orders", "alarms"):
        tab.show(path)
        tab.settle()
        tab.check_access(f"{path}, {shade}")
    page.get_by_role("button", name="Change rules").click()
    expect(page.get_by_role("button", name="Next")).to_be_visible()
    page.wait_for_function("document.getAnimations().every(one => one.playState === 'finished')")
    tab.check_access(f"dialog, {shade}")


def test_a_hostile_body_is_shown_as_text(tab: Tab, site: Site) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        message = admin.query_messages("orders", "hostile")[0]
    tab.log_in("operator")
    tab.show("messages?topic=orders&key=hostile")
    expect(tab.page.get_by_text(HOSTILE[:40]).first).to_be_visible()
    tab.show(f"message?id={message.offset_id}")
    expect(tab.page.locator(".body-text").first).to_have_text(HOSTILE)
    tab.show(f"group?name={HOSTILE}")
    tab.show(f"topic?name={HOSTILE}")
    assert tab.page.evaluate("window.stolen") is None
    tab.problems.clear()  # there is no such group: the page says so


def test_a_reset_shows_its_plan_before_it_moves_the_group(tab: Tab, site: Site) -> None:
    tab.log_in("operator")
    tab.show("group?name=billing")
    page = tab.page
    page.get_by_role("button", name="Reset to a time").click()
    page.get_by_label("Time (UTC)").fill("2020-01-01 00:00:00")
    page.get_by_role("button", name="Preview").click()
    expect(page.get_by_text("2 messages are delivered again, 0 are skipped")).to_be_visible()
    with Admin(name_servers=site.namesrv) as admin:
        assert {admin.committed("billing", queue) for queue in admin.queues("orders")} == {1}
    page.get_by_role("button", name="Confirm").click()
    expect(page.get_by_text("Done")).to_be_visible()
    with Admin(name_servers=site.namesrv) as admin:
        assert {admin.committed("billing", queue) for queue in admin.queues("orders")} == {0}
    entry = json.loads((site.folder / "audit.jsonl").read_text().splitlines()[-1])
    assert (entry["user"], entry["what"], entry["subject"], entry["outcome"]) == (
        "operator", "group.reset", "billing in orders", "done",
    )  # fmt: skip
    assert entry["before"] == {"broker-a:0": 1, "broker-a:1": 1}
    assert entry["after"] == {"broker-a:0": 0, "broker-a:1": 0}


def test_a_message_is_sent_again(tab: Tab, site: Site) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        message = admin.query_messages("orders", "o-2")[0]
    tab.log_in("operator")
    tab.show(f"message?id={message.offset_id}")
    expect(tab.page.get_by_text('"order": 2')).to_be_visible()
    tab.page.get_by_role("button", name="Send again").click()
    tab.page.get_by_role("button", name="Confirm").click()
    expect(tab.page.get_by_text(re.compile("Stored as [0-9A-F]{32}"))).to_be_visible()


def test_a_session_that_ended_leads_to_the_login(tab: Tab) -> None:
    tab.log_in("viewer")
    page = tab.page
    page.get_by_role("button", name="Account").click()
    with page.context.expect_page() as other:
        page.evaluate("window.open('/c/main/topics')")
    other.value.wait_for_selector("h1.page-title")
    page.get_by_text("Log out").click()
    page.wait_for_url(re.compile("/login"))
    other.value.wait_for_url(re.compile("/login"))  # the other page finds out at its next step


@pytest.mark.parametrize("width", [390, 1280])
def test_pages_of_one_thing_fit_their_width(tab: Tab, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.log_in("viewer")
    for path in ("group?name=billing", "topic?name=orders"):
        tab.show(path)
        tab.settle()
        assert tab.page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), path
