"""A cluster of ours that does not make tests wait: a second for every delay level and between checks."""

from collections.abc import Iterator

import pytest

from tests.cluster import Cluster, running_cluster
from tests.peers.fixtures import QUICK

FIRST = "CONSUME_FROM_FIRST_OFFSET"


@pytest.fixture(scope="session")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Shared by the session: use topics and groups of your own (`unique`), and never stop it."""
    with running_cluster(tmp_path_factory.mktemp("quick")) as cluster:
        cluster.start_broker("quick-broker", **QUICK)
        yield cluster
