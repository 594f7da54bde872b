"""What happens to a page that is open: the session ends, a role is lowered, the cluster or the console goes away."""

import re
import signal
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from ariane import Admin, Message, Producer
from ariane.console.people.users import Users
from ariane.console.rights import Role
from tests.cluster import running_cluster
from tests.console.conftest import Tab, opened_tab
from tests.console.site import PASSWORD, Site, start_site, write_users
from tests.console.steps import Steps

pytestmark = pytest.mark.slow


def log_in_here(tab: Tab) -> None:
    """Fill the form that the tab shows."""
    tab.page.fill("[name=user]", "operator")
    tab.page.fill("[name=password]", PASSWORD)
    tab.page.click("button")


def test_a_session_that_ends_in_a_dialog_leads_to_the_login_and_back(tab: Tab, site: Site) -> None:
    tab.log_in("operator", "topic?name=orders", fresh=True)
    steps, page = Steps(tab), tab.page
    steps.press("Send a message")
    steps.dialog.get_by_label("Body").fill("never sent")
    Users(site.folder / "users.json").set_password("operator", PASSWORD)  # ends the sessions
    site.sessions.pop("operator", None)
    steps.answer("Send a message")
    page.wait_for_url(re.compile("/login\\?next="))
    log_in_here(tab)
    page.wait_for_url(re.compile("/c/main/topic\\?name=orders$"))
    tab.problems.clear()


def test_a_lowered_role_closes_a_page_that_is_open(tab: Tab, site: Site) -> None:
    tab.log_in("operator", "messages?topic=orders", fresh=True)
    page, users = tab.page, Users(site.folder / "users.json")
    expect(page.get_by_role("cell", name="o-1", exact=True)).to_be_visible()
    users.set_role("operator", Role.VIEWER)
    try:
        page.get_by_role("button", name="Search").click()
        expect(page.get_by_text("Your role may not see this page.")).to_be_visible()
        assert [one for one in tab.problems if "403" not in one] == []
        tab.problems.clear()
        page.get_by_role("link", name="Cluster").click()
        page.wait_for_url(re.compile("/cluster$"))
    finally:
        users.set_role("operator", Role.OPERATOR)


def test_a_page_says_that_the_cluster_is_gone_and_comes_back_with_it(browser: Browser, tmp_path: Path) -> None:
    (tmp_path / "cluster").mkdir()
    write_users(tmp_path / "files")
    with running_cluster(tmp_path / "cluster") as cluster:
        cluster.start_broker()
        site = start_site(tmp_path / "files", cluster.namesrv)
        with opened_tab(browser, site) as tab:
            tab.log_in("admin", "topics")
            tab.settle()
            cluster.stop()
            problem = tab.page.locator("main > .problem")
            expect(problem).to_contain_text("Could not load")
            expect(problem).to_be_in_viewport()
            tab.show("groups")  # a page that is opened meanwhile
            expect(tab.page.locator(".problem").filter(has_text="Could not load")).to_be_visible()
            site.process.send_signal(signal.SIGKILL)  # the console, too
            site.process.wait()
            again = start_site(tmp_path / "files", cluster.namesrv, "--port", site.url.rstrip("/").rpartition(":")[2])
            try:
                tab.page.wait_for_url(re.compile("/login\\?next="))
                log_in_here(tab)
                tab.page.wait_for_url(re.compile("/c/main/groups$"))
                expect(tab.page.locator(".problem").filter(has_text="Could not load")).to_be_visible()
            finally:
                again.stop()
            tab.problems.clear()  # requests without a server, and without a session


def test_the_address_has_filter_order_and_kinds(tab: Tab, site: Site) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        for name in ("linked-a", "linked-b", "linked-c"):
            admin.create_topic(name, queues=1)
    tab.log_in("viewer", "topics")
    page = tab.page
    page.get_by_label("Filter").fill("linked")
    expect(page.locator(".count")).to_have_text(re.compile("^3 of "))
    page.get_by_role("columnheader", name="Topic").click()
    page.wait_for_url(re.compile("filter=linked.*sort=name.*down=yes"))
    page.get_by_role("checkbox", name="system").click()
    page.wait_for_url(re.compile("kinds=normal%2Cretry%2Cdead-letter%2Csystem"))
    page.reload()  # or somebody else who got the address
    expect(page.locator(".count")).to_have_text(re.compile("^3 of "))
    expect(page.locator("tbody tr .cell-link")).to_have_text(["linked-c", "linked-b", "linked-a"])
    expect(page.get_by_role("checkbox", name="system")).to_be_checked()


def test_what_is_asked_for_rows_that_are_shown_is_sorted_and_exported_for_all(tab: Tab, site: Site) -> None:
    with Admin(name_servers=site.namesrv) as admin:
        for number in range(30):  # more than a page
            admin.create_group(f"idle-{number:02}")
    tab.log_in("viewer", "groups?sort=clients")
    page = tab.page
    expect(page.locator(".count")).to_have_text(re.compile("^3[0-9] of "))
    with page.expect_download() as download:
        page.get_by_role("button", name="Export as CSV").click()
    head, *lines = download.value.path().read_text("utf-8-sig").splitlines()
    column = head.split(",").index("Clients")
    assert len(lines) >= 30
    assert {line.split(",")[column] for line in lines} == {"0"}


def test_hostile_messages_have_pages(tab: Tab, site: Site) -> None:
    many = {f"property-{number}": f"<b>{number}</b>" for number in range(1200)}
    bodies = {"surrogate": b'{"half": "\\ud800"}', "deep": b"[" * 900 + b"1," * 30_000 + b"1" + b"]" * 900}
    with Admin(name_servers=site.namesrv) as admin, Producer("shop", name_servers=site.namesrv) as producer:
        admin.create_topic("hostile", queues=1)
        for key, body in bodies.items():
            producer.send(Message("hostile", body, keys=[key]))
        message = Message("hostile", b"many", keys=["many"])
        message.properties |= many
        producer.send(message)
        ids = {key: admin.query_messages("hostile", key)[0].offset_id for key in (*bodies, "many")}
    tab.log_in("operator", f"message?id={ids['surrogate']}")
    expect(tab.page.locator(".body-text").first).to_contain_text('"half": "\ufffd"')
    tab.show(f"message?id={ids['deep']}")
    expect(tab.page.get_by_role("tab", name="JSON")).to_be_visible()
    tab.show(f"message?id={ids['many']}")
    expect(tab.page.get_by_text("1–25 / 1203")).to_be_visible()  # with its keys, its unique id and the cluster
    expect(tab.page.get_by_text("<b>0</b>")).to_be_visible()
    tab.page.get_by_label("Filter").last.fill("property-1199")
    expect(tab.page.get_by_text("<b>1199</b>")).to_be_visible()
    tab.show(f"messages?id={ids['many']}")  # an offset id needs no topic
    expect(tab.page.get_by_role("cell", name="many", exact=True).first).to_be_visible()


def test_charts_have_times_in_utc_wherever_the_browser_is(browser: Browser, site: Site) -> None:
    context = browser.new_context(locale="en-US", timezone_id="Pacific/Kiritimati")  # UTC+14
    page = context.new_page()
    tab = Tab(page, site)
    tab.log_in("viewer", "history", fresh=True)
    times = page.locator("main svg text").filter(has_text=re.compile(r"^\d\d:\d\d"))
    expect(times.first).to_be_attached()
    hour = page.evaluate("new Date().getUTCHours()")
    wanted = {f"{(hour - back) % 24:02}:" for back in (0, 1)}
    shown = {text[:3] for text in times.all_text_contents()}
    assert shown <= wanted
    context.close()


def test_there_is_a_way_back_from_pages_that_do_not_exist(tab: Tab) -> None:
    tab.log_in("viewer", "group?name=nobody")
    expect(tab.page.get_by_role("heading", name="There is no group nobody")).to_be_visible()
    tab.page.goto(f"{tab.site.url}c/main/nothing")
    tab.page.get_by_role("link", name="Cluster").click()
    tab.page.wait_for_url(re.compile("/cluster$"))
    assert [one for one in tab.problems if "404" not in one] == []
    tab.problems.clear()
