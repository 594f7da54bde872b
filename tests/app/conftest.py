"""The clusters of the contract suite, ours and Apache's, and a place where no setting comes from outside."""

import os

import pytest

from ariane import aio
from ariane.app import Ariane
from tests.client.conftest import Site, apache5, ours, site
from tests.peers import unique

__all__ = ["Site", "apache5", "ours", "site"]


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's own variables must not decide about tests."""
    for name in list(os.environ):
        if name.startswith("ARIANE_") or name == "NAMESRV_ADDR":
            monkeypatch.delenv(name)


@pytest.fixture
async def topic(site: Site) -> str:
    """A new topic with four queues."""
    name = unique("topic")
    async with aio.Admin(name_servers=site.name_servers) as admin:
        await admin.create_topic(name, queues=4)
    return name


@pytest.fixture
def app(site: Site) -> Ariane:
    """An application of the cluster."""
    return Ariane(unique("app"), name_servers=site.name_servers, consumer={"start_at": "first"})


@pytest.fixture
def group() -> str:
    """A name for a group."""
    return unique("group")
