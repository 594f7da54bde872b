"""The clusters, ours and two of Apache's, behind one fixture: the same assertions hold against each."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

import pytest

from ariane import aio
from ariane.client.admin import Admin
from ariane.client.producer.producer import Producer
from ariane.testing.cluster import Cluster
from tests.client.newer import WANTED, apache5
from tests.peers import unique
from tests.peers.fixtures import QUICK

__all__ = ["apache5"]


@dataclass(frozen=True)
class Site:
    """A cluster to test against."""

    kind: str
    name_servers: str


@pytest.fixture(scope="session")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The session's own cluster: shared, so use names of your own."""
    with Cluster(tmp_path_factory.mktemp("ours"), config=QUICK) as cluster:
        yield cluster


SITES = ["ariane", "apache", "apache5"] if WANTED else ["ariane", "apache"]


@pytest.fixture(params=SITES)
def site(request: pytest.FixtureRequest) -> Site:
    """First ours, then Apache's of 4.9 and, with ROCKETMQ5=1 in the environment, of 5."""
    if request.param == "ariane":
        return Site("ariane", request.getfixturevalue("ours").name_servers)
    if request.param == "apache5":
        return Site("apache5", request.getfixturevalue("apache5"))
    return Site("apache", request.getfixturevalue("apache_cluster").namesrv)


@pytest.fixture
def ns(site: Site) -> str:
    """The name servers of the cluster."""
    return site.name_servers


@pytest.fixture
async def admin(ns: str) -> AsyncIterator[Admin]:
    """An admin of the cluster."""
    async with aio.Admin(name_servers=ns) as admin:
        yield admin


@pytest.fixture
async def topic(admin: Admin) -> str:
    """A new topic with four queues."""
    name = unique("topic")
    await admin.create_topic(name, queues=4)
    return name


@pytest.fixture
async def producer(ns: str) -> AsyncIterator[Producer]:
    """A producer."""
    async with aio.Producer(unique("producers"), name_servers=ns) as producer:
        yield producer


@pytest.fixture
def group() -> str:
    """A name for a group."""
    return unique("group")
