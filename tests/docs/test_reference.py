"""The reference pages are what the code says, and leave nothing out."""

import re

import pytest

from ariane.broker.config.table import BROKER_TABLE
from ariane.errors import ArianeError
from ariane.namesrv.config import NAMESRV_TABLE
from ariane.protocol.codes import RequestCode, ResponseCode
from scripts import reference
from tests.docs.pages import DOCS


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return reference.pages()


def test_the_pages_are_current(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert (DOCS / name).read_text() == text, f"{name}: run python -m scripts.reference"


def test_every_option_has_a_row_or_is_named_as_refused_or_ignored(pages: dict[str, str]) -> None:
    broker, _, namesrv = pages["configuration.md"].partition("## Name server")
    for table, text in ((BROKER_TABLE, broker), (NAMESRV_TABLE, namesrv)):
        for option in table:
            assert f"`{option.name}`" in text, option.name


def test_an_option_without_a_text_is_an_error() -> None:
    texts = reference.texts("options")
    del texts["broker"]["Sending"]["maxMessageSize"]
    with pytest.raises(SystemExit, match="maxMessageSize"):
        list(reference.sections({**texts["broker"], **texts["both"]}, BROKER_TABLE, "broker"))


def test_every_code_has_a_row(pages: dict[str, str]) -> None:
    for code in ResponseCode:
        assert f"| {int(code)} `{code.name}` |" in pages["errors.md"]
    for request in RequestCode:
        assert f"| {int(request)} `{request.name}` |" in pages["requests.md"]


def test_every_error_of_the_package_is_there_or_internal(pages: dict[str, str]) -> None:
    page, waiting = pages["errors.md"], [ArianeError]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if kind.__module__.startswith("ariane.") and not kind.__module__.startswith(reference.INTERNAL):
            assert re.search(rf"^\| `{kind.__name__}`", page, re.MULTILINE), kind
