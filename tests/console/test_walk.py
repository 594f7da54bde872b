"""Login and dialogs for everybody, hostile values, and the end of a session. `test_tour` walks through every page."""

import re

import pytest
from playwright.sync_api import expect

from ariane import Admin
from tests.console.conftest import HOSTILE, Tab
from tests.console.site import Site


@pytest.mark.parametrize("shade", ["light", "dark"])
def test_login_and_dialogs_can_be_used_by_all(tab: Tab, shade: str) -> None:
    tab.page.emulate_media(color_scheme="dark" if shade == "dark" else "light")
    tab.page.goto(tab.site.url)
    tab.check_access(f"login, {shade}")
    tab.log_in("admin", fresh=True)
    page = tab.page
    if shade == "dark":
        page.get_by_role("button", name="Light or dark").click()
        expect(page.locator("body.body--dark")).to_be_visible()
    tab.show("alarms")
    page.get_by_role("button", name="Change rules").click()
    expect(page.get_by_role("button", name="Next")).to_be_visible()
    page.wait_for_function("document.getAnimations().every(one => one.playState === 'finished')")
    tab.check_access(f"dialog, {shade}")


def test_a_hostile_body_is_shown_as_text(tab: Tab, site: Site) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        message = admin.query_messages("orders", "hostile")[0]
    tab.log_in("operator", "messages?topic=orders&key=hostile")
    expect(tab.page.get_by_text(HOSTILE[:40]).first).to_be_visible()
    tab.show(f"message?id={message.offset_id}")
    expect(tab.page.locator(".body-text").first).to_have_text(HOSTILE)
    tab.show(f"group?name={HOSTILE}")
    tab.show(f"topic?name={HOSTILE}")
    assert tab.page.evaluate("window.stolen") is None
    tab.problems.clear()  # there is no such group: the page says so


def test_a_session_that_ended_leads_to_the_login(tab: Tab) -> None:
    tab.log_in("viewer", fresh=True)
    page = tab.page
    page.get_by_role("button", name="Account").click()
    with page.context.expect_page() as other:
        page.evaluate("window.open('/c/main/topics')")
    other.value.wait_for_selector("h1.page-title")
    page.get_by_text("Log out").click()
    page.wait_for_url(re.compile("/login"))
    other.value.wait_for_url(re.compile("/login"))  # the other page finds out at its next step
