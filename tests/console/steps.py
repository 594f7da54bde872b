"""The steps of a change in Chromium: a button, a dialog that asks, and the end of it."""

import re

from playwright.sync_api import Locator, expect

from tests.console.conftest import Tab
from tests.peers.jvm import until


class Steps:
    """A tab whose user makes changes: what the page asks, and when the change is in the audit log."""

    def __init__(self, tab: Tab) -> None:
        self.tab, self.page = tab, tab.page
        self._made = 0
        self.dialog = self.page.get_by_role("dialog").last

    def show(self, path: str) -> None:
        self.tab.show(path)

    def press(self, name: str) -> None:
        """Press a button of the page."""
        self._click(self.page.locator("main").get_by_role("button", name=name, exact=True))

    def answer(self, name: str) -> None:
        """Press a button of the dialog."""
        self._click(self.dialog.get_by_role("button", name=name, exact=True))

    def confirm(self, *texts: str, word: str | None = None) -> None:
        """Confirm a dialog that says this; with `word`, it has to be typed."""
        for text in texts:
            expect(self.dialog.get_by_text(text).first).to_be_visible()
        button = self.dialog.get_by_role("button", name="Confirm")
        if word is not None:
            expect(button).to_be_disabled()
            self.dialog.get_by_label(f"Type {word} to confirm").fill(word)
        self._click(button)

    def _click(self, button: Locator) -> None:
        self._made = self.tab.site.changes()
        button.click()

    def choose(self, label: str, option: str) -> None:
        """Choose an entry of a select in the dialog."""
        self.dialog.get_by_label(label, exact=True).last.click()
        self.page.get_by_role("option", name=option, exact=True).click()

    def select(self, text: str) -> None:
        """Select the row with a text."""
        self.page.get_by_role("row").filter(has_text=text).get_by_role("checkbox").click()

    def finished(self, text: str | re.Pattern[str] = "Done") -> None:
        """Wait until the change is in the audit log, and the page has said so."""
        until(lambda: self.tab.site.changes() > self._made, 30, "an entry of the audit log")
        expect(self.page.locator(".q-notification").filter(has_text=text).first).to_be_visible()
