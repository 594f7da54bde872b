"""Every change and all kinds of data in Chromium: what is asked, what the broker then has, what the audit log says."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from ariane.console.rights import CHANGES, Role
from ariane.console.server import BUILDERS
from tests.console.conftest import opened_tab
from tests.console.site import PASSWORD
from tests.console.steps import Steps
from tests.console.tour import Tour, running_tour
from tests.peers.jvm import until

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    with running_tour(tmp_path_factory.mktemp("tour")) as running:
        yield running


@pytest.fixture(scope="module")
def shared(browser: Browser, tour: Tour) -> Iterator[Steps]:
    with opened_tab(browser, tour.site) as tab:
        tab.log_in("admin")
        yield Steps(tab)


@pytest.fixture
def admin(shared: Steps) -> Iterator[Steps]:
    """The administrator's tab, the same for all tests."""
    yield shared
    assert shared.tab.problems == []


def check(entry: dict[str, Any], subject: str, before: Any, after: Any, user: str = "admin") -> None:
    """An entry of the audit log about a change that was made."""
    assert (entry["user"], entry["outcome"]) == (user, "done")
    assert (entry["subject"], entry.get("before"), entry.get("after")) == (subject, before, after)


def test_a_topic_is_created_widened_shrunk_and_deleted(admin: Steps, tour: Tour) -> None:
    page = admin.page
    admin.show("topics")
    admin.press("Create topic")
    dialog = admin.dialog
    dialog.get_by_label("Topic", exact=True).fill("made-here")
    dialog.get_by_label("Queues on each broker").fill("2")
    admin.answer("Create topic")
    page.wait_for_url(re.compile("topic\\?name=made-here"))
    check(tour.site.audited("topic.create"), "made-here", None, {"queues": 2, "perm": 6})
    admin.press("Queues and permission")
    dialog.get_by_label("Read queues").fill("4")
    dialog.get_by_label("Write queues").fill("3")
    admin.answer("Next")
    admin.confirm("now: 2/2 RW")
    admin.finished()
    address = tour.cluster.broker_address
    config = tour.admin.topic_configs(address).topic_config_table["made-here"]
    assert (config.read_queue_nums, config.write_queue_nums) == (4, 3)
    before, after = {"read": 2, "write": 2, "perm": 6}, {"read": 4, "write": 3, "perm": 6}
    check(tour.site.audited("topic.change"), "made-here on broker-a", before, after)
    for step in ({"read": 4, "write": 1, "perm": 6}, {"read": 1, "write": 1, "perm": 6}):  # the safe order
        admin.press("Remove queues")
        dialog.get_by_label("Queues to keep on this broker").fill("1")
        admin.answer("Next")
        last = step["read"] == 1
        admin.confirm(f"Next: lower the {'read' if last else 'write'} queues to 1", word="made-here" if last else None)
        admin.finished("Done" if last else "Come back when every group")
        check(tour.site.audited("topic.change"), "made-here on broker-a", after, step)
        after = step
        config = tour.admin.topic_configs(address).topic_config_table["made-here"]
        assert (config.read_queue_nums, config.write_queue_nums) == (step["read"], 1)
    admin.press("Send a message")
    dialog.get_by_label("Body").fill("héllo")
    dialog.get_by_label("Keys").fill("from-here")
    admin.answer("Send a message")
    admin.finished(re.compile("Stored as [0-9A-F]{32}"))
    (message,) = tour.admin.query_messages("made-here", "from-here")
    assert message.body.decode() == "héllo"
    check(tour.site.audited("message.send"), "made-here", None, {"id": message.message_id, "bytes": 6})
    admin.press("Delete topic")
    admin.confirm("Delete made-here and all its messages", word="made-here")
    page.wait_for_url(re.compile("/topics$"))
    assert "made-here" not in tour.admin.topics()
    entry = tour.site.audited("topic.delete")
    assert (entry["before"]["name"], entry["before"]["read_queues"]) == ("made-here", 1)


def test_a_group_is_created_reset_skipped_and_deleted(admin: Steps, tour: Tour) -> None:
    page = admin.page
    admin.show("groups")
    for retries, before in ((16, None), (3, {"retries": 16})):
        admin.press("Create or change group")
        dialog = admin.dialog
        dialog.get_by_label("Group", exact=True).fill("audited")
        dialog.get_by_label("Retries").fill(str(retries))
        admin.answer("Create or change group")
        admin.finished()
        check(tour.site.audited("group.create"), "audited", before, {"retries": retries})
    groups = tour.admin.groups(tour.cluster.broker_address).subscription_group_table
    assert groups["audited"].retry_max_times == 3
    admin.show("group?name=reports")
    admin.press("Reset to a time")
    dialog.get_by_label("Time (UTC)").fill("2020-01-01 00:00:00")
    admin.answer("Preview")
    expect(dialog.get_by_text("reports in backlog: 2 messages are delivered again, 0 are skipped")).to_be_visible()
    assert tour.offsets("reports", "backlog") == {1}  # a preview moves nothing
    admin.confirm()
    admin.finished()
    assert tour.offsets("reports", "backlog") == {0}
    ones, zeros, threes = ({f"broker-a:{queue}": offset for queue in range(2)} for offset in (1, 0, 3))
    check(tour.site.audited("group.reset"), "reports in backlog", ones, zeros)
    admin.press("Skip the backlog")
    admin.answer("Preview")
    admin.confirm("reports in backlog: 0 messages are delivered again, 6 are skipped")
    admin.finished()
    assert tour.offsets("reports", "backlog") == {3}
    check(tour.site.audited("group.skip"), "reports in backlog", zeros, threes)
    admin.press("Delete group")
    admin.confirm("Delete reports and its offsets", word="reports")
    page.wait_for_url(re.compile("/groups$"))
    assert "reports" not in tour.admin.groups(tour.cluster.broker_address).subscription_group_table
    check(tour.site.audited("group.delete"), "reports", {"lag": 0, "topics": ["backlog"]}, None)


def test_a_message_is_sent_again_and_consumed_again_by_one_client(admin: Steps, tour: Tour) -> None:
    page = admin.page
    message = tour.admin.query_messages("orders", "o-3")[0]
    admin.show(f"message?id={message.offset_id}")
    expect(page.get_by_role("row").filter(has_text="billing").get_by_text("consumed")).to_be_visible()
    admin.press("Send again")
    admin.confirm("Send it to orders as a new message")
    admin.finished(re.compile("Stored as [0-9A-F]{32}"))
    until(lambda: tour.consumed.count(message.body) == 2, 30, "the message that was sent again")
    entry = tour.site.audited("message.resend")
    assert (entry["subject"], len(entry["after"]["id"])) == (f"orders {message.message_id}", 32)
    admin.press("Consume again")
    dialog = admin.dialog
    expect(dialog.get_by_text("One client consumes the message now")).to_be_visible()
    admin.choose("Group", "billing")
    admin.answer("Consume again")
    admin.finished("CR_SUCCESS")
    assert tour.consumed.count(message.body) == 3
    entry = tour.site.audited("message.consume")
    assert entry["after"]["result"] == "CR_SUCCESS"
    assert entry["subject"].startswith(f"orders {message.message_id} by billing ")


def test_dead_letters_of_a_failing_consumer_are_exported_and_sent_again(admin: Steps, tour: Tour) -> None:
    page = admin.page
    admin.show("dead-letters")
    row = page.get_by_role("row").filter(has_text="shipping")
    expect(row.get_by_role("cell", name="3", exact=True).first).to_be_visible()
    row.get_by_role("link").click()
    page.wait_for_url(re.compile("group=shipping"))
    with page.expect_download() as download:
        admin.press("Export with bodies")
    assert download.value.path().read_text().count('"topic": "parcels"') == 3
    check(tour.site.audited("letters.export"), "shipping", None, {"letters": 3})
    admin.select("p-1")
    admin.press("Send selected again")
    admin.confirm("Send 1 letters of shipping")
    admin.finished("1 sent, 0 had been before, 0 failed")
    assert tour.count("parcels") == 4
    check(tour.site.audited("letters.resend"), "shipping", None, {"sent": 1, "skipped": 0, "failed": 0})
    admin.press("Send all again")
    admin.confirm("Send the letters of shipping")
    admin.finished(re.compile("[23] sent, 1 had been before, 0 failed"))  # the one sent again may be a letter again
    assert tour.count("parcels") >= 6
    assert tour.site.audited("letters.resend")["after"]["skipped"] == 1


def test_open_transactions_are_ended_by_hand(admin: Steps, tour: Tour) -> None:
    page = admin.page
    stored = tour.count("payments")
    first, second = (one.message.message_id for one in tour.admin.half_messages())
    admin.show("transactions")
    for message, button, left, more in ((first, "Commit", [second], 1), (second, "Roll back", [], 1)):
        admin.select(message)
        admin.press(button)
        admin.confirm("End 1 transactions. This cannot be undone.")
        admin.finished()
        expect(page.get_by_role("row").filter(has_text=message)).to_have_count(0)
        assert [one.message.message_id for one in tour.admin.half_messages()] == left
        assert tour.count("payments") == stored + more
        check(tour.site.audited("transaction.end"), message, "open", "commit" if button == "Commit" else "rollback")
        admin.show("transactions")
    expect(page.get_by_text("No transaction is open.")).to_be_visible()


def test_an_option_is_changed_and_a_broker_drained(admin: Steps, tour: Tour) -> None:
    address = tour.cluster.broker_address
    admin.show(f"broker?address={address}")
    before = tour.admin.broker_options(address)["transactionCheckMax"]
    admin.press("Change an option")
    admin.choose("Name", "transactionCheckMax")
    dialog = admin.dialog
    expect(dialog.get_by_label("Value")).to_have_value(before)
    dialog.get_by_label("Value").fill("7")
    admin.answer("Next")
    admin.confirm(f"now: {before}", "then: 7")
    admin.finished()
    assert tour.admin.broker_options(address)["transactionCheckMax"] == "7"
    check(tour.site.audited("broker.configure"), f"{address} transactionCheckMax", before, "7")
    admin.press("Drain")
    admin.confirm("Take broker-a out of the routes", word="broker-a")
    admin.finished()
    assert [one.perm for one in tour.admin.route("orders").queue_datas] == [4]
    entry = tour.site.audited("broker.drain")
    assert (entry["before"], entry["after"]["state"]) == ("writable", "drained")
    admin.press("Let it be written to")
    admin.confirm("Put broker-a back")
    admin.finished()
    assert [one.perm for one in tour.admin.route("orders").queue_datas] == [6]
    entry = tour.site.audited("broker.drain")
    assert (entry["before"], entry["after"]["state"]) == ("drained", "writable")


def test_users_are_added_given_roles_and_passwords_and_removed(admin: Steps, browser: Browser, tour: Tour) -> None:
    page = admin.page
    admin.show("users")
    admin.press("Add user")
    dialog = admin.dialog
    dialog.get_by_label("User", exact=True).fill("nina")
    admin.choose("Role", "Viewer")
    admin.answer("Add user")
    expect(dialog.get_by_text("This password is shown once")).to_be_visible()
    password = dialog.locator(".body-text").inner_text().strip()
    admin.answer("Close")
    check(tour.site.audited("user.add"), "nina", None, "viewer")
    with opened_tab(browser, tour.site) as other:
        visit = other.page
        visit.goto(f"{tour.site.url}c/second/topic?name=only-here")
        for name, value in (("user", "nina"), ("password", password)):
            visit.fill(f"[name={name}]", value)
        visit.click("button")
        for name, value in (("old", password), ("new", "nina's own words"), ("again", "nina's own words")):
            visit.fill(f"[name={name}]", value)
        visit.click("button")
        visit.wait_for_selector("h1.page-title")
        other.show("topics")
        assert visit.get_by_role("button", name="Create topic").count() == 0
        admin.select("nina")
        admin.press("Change role")
        expect(dialog.get_by_text("Viewer")).to_be_visible()  # as it is now
        admin.choose("Role", "Operator")
        admin.answer("Confirm")
        admin.finished()
        check(tour.site.audited("user.role"), "nina", "viewer", "operator")
        other.show("topics")
        expect(visit.get_by_role("button", name="Create topic")).to_be_visible()
        admin.press("New password")
        admin.confirm("Give nina a new one-time password")
        expect(dialog.get_by_text("This password is shown once")).to_be_visible()
        assert dialog.locator(".body-text").inner_text().strip() not in ("", password)
        admin.answer("Close")
        visit.wait_for_url(re.compile("/login"))  # her session has ended
    check(tour.site.audited("user.reset"), "nina", "own password", "one-time password")
    admin.press("Remove user")
    admin.confirm(word="nina")
    admin.finished()
    expect(page.get_by_role("row").filter(has_text="nina")).to_have_count(0)
    check(tour.site.audited("user.remove"), "nina", "operator", None)
    admin.select("Administrator")
    admin.press("Remove user")
    admin.confirm(word="admin")
    expect(page.locator(".q-notification").filter(has_text="administrator")).to_be_visible()


def test_alarm_rules_are_changed_and_a_test_is_sent(admin: Steps, tour: Tour) -> None:
    admin.show("alarms")
    admin.press("Change rules")
    admin.dialog.get_by_label("Quiet times (UTC)").fill("22:00-7")
    admin.answer("Next")
    expect(admin.page.get_by_text("quiet times are written as")).to_be_visible()
    admin.press("Change rules")
    admin.dialog.get_by_label("Messages that wait for a group").fill("500")
    admin.answer("Next")
    admin.confirm("Messages that wait for a group: 10000 → 500")
    admin.finished()
    entry = tour.site.audited("alarms.change")
    assert (entry["before"]["lag"], entry["after"]["lag"]) == (10_000, 500)
    admin.press("Send a test")
    admin.confirm("Send a test over every channel now.")
    admin.finished()
    assert any("a test by admin" in str(one) for one in tour.noticed)
    check(tour.site.audited("alarms.test"), "webhook", None, None)


def test_lower_roles_are_not_offered_what_they_may_not_do(browser: Browser, tour: Tour) -> None:
    master, slave = (tour.cluster.brokers[name].address for name in ("broker-a", "slave"))
    message = tour.admin.query_messages("orders", "o-1")[0]
    offered = {
        "topics": {"Create topic": "topic.create"},
        "topic?name=orders": {
            "Send a message": "message.send", "Queues and permission": "topic.change", "Remove queues": "topic.change",
            "Delete topic": "topic.delete", "Reset to a time": "group.reset",
        },
        "groups": {"Create or change group": "group.create"},
        "group?name=billing": {
            "Reset to a time": "group.reset", "Skip the backlog": "group.skip", "Delete group": "group.delete",
        },
        f"message?id={message.offset_id}": {"Send again": "message.resend", "Consume again": "message.consume"},
        "dead-letters?group=shipping": {
            "Export with bodies": "letters.export", "Send selected again": "letters.resend",
            "Send all again": "letters.resend",
        },
        "transactions": {"Commit": "transaction.end", "Roll back": "transaction.end"},
        f"broker?address={master}": {
            "Drain": "broker.drain", "Let it be written to": "broker.drain", "Change an option": "broker.configure",
        },
        f"broker?address={slave}": {"Promote to master": "broker.promote"},
        "alarms": {"Change rules": "alarms.change", "Send a test": "alarms.test"},
        "users": {
            "Add user": "user.add", "Change role": "user.role", "New password": "user.reset",
            "Remove user": "user.remove",
        },
    }  # fmt: skip
    covered = {change for buttons in offered.values() for change in buttons.values()}
    assert covered | {"access.account", "access.delete", "access.white"} == CHANGES.keys()
    for role in Role:
        with opened_tab(browser, tour.site) as tab:
            tab.log_in(role.name.lower())
            for path, buttons in offered.items():
                answer = tab.page.request.get(f"{tour.site.url}c/main/{path}")
                shown = answer.text() if answer.ok else ""
                assert answer.status in (200, 403)
                for button, change in buttons.items():
                    there = re.search(f'"label":\\s*"{button}"', shown) is not None
                    assert there == (role >= CHANGES[change]), (role, path, button)


def test_a_trace_shows_each_step_with_its_duration(admin: Steps, tour: Tour) -> None:
    message = tour.admin.query_messages("orders", "retried")[0]
    until(lambda: len(tour.admin.message_trace(message.message_id)) == 3, 30, "the trace")
    admin.show(f"trace?id={message.message_id}")
    picture = admin.page.get_by_role("img", name="Timeline")
    for step in ("sent · shop", "stored", "consumed · billing", "consumed · billing · retry 1"):
        expect(picture.get_by_text(re.compile(rf"\d\. {step}$"))).to_be_visible()
    expect(picture.get_by_text(re.compile(r"^\+[1-9]\d* ms"))).not_to_have_count(0)
    outcomes = admin.page.get_by_role("row").filter(has_text="consumed")
    expect(outcomes.get_by_text("failed")).to_have_count(1)
    expect(outcomes.get_by_text("success")).to_have_count(1)
    admin.tab.picture("trace")


def test_a_conflict_says_which_client_differs_and_how(admin: Steps) -> None:
    admin.show("group?name=split")
    page = admin.page
    expect(page.get_by_text("Clients of this group subscribe differently")).to_be_visible()
    expect(page.get_by_text(re.compile(r"^Most clients \(\S+\): orders: (eu|us)"))).to_be_visible()
    expect(page.get_by_text(re.compile(r"@(eu|us)\S*: orders: (eu|us) instead of (eu|us)"))).to_be_visible()
    for tag in ("eu", "us"):
        expect(page.get_by_role("row").filter(has_text=f"@{tag}").get_by_text(f"orders: {tag}")).to_be_visible()
    admin.tab.picture("conflict")


def test_a_client_tells_what_it_runs_with_its_threads(admin: Steps) -> None:
    admin.show("group?name=billing")
    admin.select("PYTHON")
    admin.press("Running info and threads")
    dialog = admin.dialog
    expect(dialog.get_by_text("PROP_CONSUMER_START_TIMESTAMP")).to_be_visible()
    expect(dialog.get_by_text("orders broker-a:0")).to_be_visible()
    expect(dialog.get_by_text(re.compile("messages held, committed [1-9]")).first).to_be_visible()
    expect(dialog.locator(".body-text")).to_contain_text("MainThread")
    admin.tab.picture("running")
    admin.answer("Close")
    expect(dialog).to_have_count(0)


def test_encoded_bodies_are_shown_decoded(admin: Steps, tour: Tour) -> None:
    for topic, key, form, text in (
        ("purchases", "avro", "Avro", '"customer": "Ännchen"'),
        ("payments", "protobuf", "Protobuf", '"order_id": "7"'),
    ):
        (message,) = tour.admin.query_messages(topic, key)
        admin.show(f"message?id={message.offset_id}")
        expect(admin.page.get_by_role("tab", name=form)).to_have_attribute("aria-selected", "true")
        expect(admin.page.locator(".body-text").first).to_contain_text(text)
        admin.page.get_by_role("tab", name="Hex").click()
        expect(admin.page.locator(".body-text").first).to_contain_text("00000000  ")


def test_two_clusters_are_switched_and_links_keep_theirs(admin: Steps, browser: Browser, tour: Tour) -> None:
    admin.show("topics")
    page = admin.page
    expect(page.get_by_role("link", name="orders", exact=True)).to_be_visible()
    page.get_by_label("Clusters").click()
    page.get_by_role("option", name="second").click()
    page.wait_for_url(re.compile("/c/second/topics$"))
    page.get_by_role("link", name="only-here", exact=True).click()
    page.wait_for_url(re.compile("/c/second/topic\\?name=only-here$"))
    expect(page.get_by_role("heading", name="only-here")).to_be_visible()
    for link in page.get_by_role("navigation").get_by_role("link").all():
        assert (link.get_attribute("href") or "").startswith("/c/second/")
    page.reload()
    expect(page.get_by_role("heading", name="only-here")).to_be_visible()
    assert page.get_by_role("link", name="orders", exact=True).count() == 0
    with opened_tab(browser, tour.site) as other:  # a link sent to somebody who is not logged in
        other.page.goto(f"{tour.site.url}c/second/topic?name=only-here")
        other.page.fill("[name=user]", "viewer")
        other.page.fill("[name=password]", PASSWORD)
        other.page.click("button")
        expect(other.page.get_by_role("heading", name="only-here")).to_be_visible()
        assert other.page.url.endswith("/c/second/topic?name=only-here")


@pytest.mark.parametrize(("width", "dark"), [(1280, False), (390, True)])
def test_every_page_with_data_of_all_kinds(browser: Browser, tour: Tour, width: int, dark: bool) -> None:
    """On a desk in English and light; on a phone in Chinese and dark."""
    message = tour.admin.query_messages("orders", "retried")[0]
    queries = {
        "broker": f"?address={tour.cluster.brokers['slave'].address}",
        "topic": "?name=orders",
        "group": "?name=split",
        "message": f"?id={message.offset_id}",
        "messages": "?topic=orders",
        "trace": f"?id={message.message_id}",
        "dead-letters": "?group=shipping",
    }
    with opened_tab(browser, tour.site, width) as tab:
        tab.log_in("admin", fresh=True)
        page = tab.page
        if dark:
            tab.turn_dark_and_chinese()
        for name in BUILDERS:
            tab.show(name + queries.get(name, ""))
            tab.settle()
            expect(page.locator(".problem:visible")).to_have_count(1 if name == "group" else 0)  # clients that differ
            assert tab.fits(), name
            tab.picture(f"{name}-phone" if dark else name)
            tab.check_access(f"{name}, {width}")


def test_a_slave_is_promoted_when_its_master_is_gone(admin: Steps, tour: Tour) -> None:
    """The last test: the cluster has lost its master."""
    slave = tour.cluster.brokers["slave"]
    until(lambda: tour.cluster.call(lambda: slave.epochs.current), 60, "the slave's first contact")
    admin.show(f"broker?address={slave.address}")
    admin.press("Promote to master")
    admin.confirm("Refused while the master answers", word=slave.address)
    admin.finished("still answers")
    assert tour.site.audited("broker.promote")["outcome"].startswith("failed: ")
    tour.cluster.stop_broker("broker-a")
    admin.press("Promote to master")
    admin.confirm(f"Make {slave.address} the master", word=slave.address)
    admin.finished()
    assert tour.cluster.call(lambda: (slave.role.is_master, slave.role.writable)) == (True, True)
    entry = tour.site.audited("broker.promote")
    assert (entry["outcome"], entry["after"]["epoch"]) == ("done", 2)
    admin.show("cluster")
    expect(admin.page.locator(".broker-card.master")).to_contain_text(slave.address)
