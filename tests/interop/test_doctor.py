"""`ariane doctor` looks at Apache's cluster as it does at ours."""

import asyncio

from ariane.cli.doctor.command import examine
from ariane.cli.doctor.finding import Severity
from tests.peers.fixtures import ApacheCluster


def test_apaches_cluster_is_examined_and_found_reachable(apache_cluster: ApacheCluster) -> None:
    found = asyncio.run(examine(None, "", apache_cluster.namesrv))
    assert {finding.check for finding in found if finding.severity is Severity.OK} >= {"name-server", "broker"}
    bad = {finding.check for finding in found if finding.severity is not Severity.OK}
    assert bad <= {"open-files", "memory-maps", "broker-disk"}, found
