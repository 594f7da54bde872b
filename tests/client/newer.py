"""Apache's name server and broker of RocketMQ 5, fetched as the peers of 4.9 are."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ariane import Admin
from tests.peers.build import CACHE, COPY, JAVA, Build, BuildFailed, run_tool
from tests.peers.fixtures import QUICK
from tests.peers.jvm import until
from tests.peers.servers import TLS, ApacheBroker, ApacheNamesrv

VERSION = "5.3.3"
WANTED = bool(os.environ.get("ROCKETMQ5"))
POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>ariane</groupId><artifactId>newer</artifactId><version>1</version><packaging>pom</packaging>
  <dependencies>
    <dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-namesrv</artifactId>
      <version>{version}</version></dependency>
    <dependency><groupId>org.apache.rocketmq</groupId><artifactId>rocketmq-broker</artifactId>
      <version>{version}</version></dependency>
  </dependencies>
</project>
"""


def newer_build() -> Build:
    """The jars of the servers and the class that runs them; BuildFailed when they cannot be fetched."""
    done = CACHE / "peers" / f"servers-{VERSION}"
    if not done.exists():
        _make(done)
    return Build(done)


def _make(done: Path) -> None:
    """Builds beside the final place and renames at the end: a half build is never taken for a whole one."""
    part = done.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "classes").mkdir(parents=True)
    pom = part / "pom.xml"
    pom.write_text(POM.format(version=VERSION))
    places = [f"-Dmaven.repo.local={CACHE / 'm2'}", f"-DoutputDirectory={part / 'jars'}"]
    run_tool(["mvn", "-B", "-q", "-ntp", "-f", str(pom), COPY, "-DincludeScope=runtime", *places])
    server = next(JAVA.rglob("Server.java"))
    run_tool(["javac", "--release", "17", "-nowarn", "-d", str(part / "classes"), str(server)])
    part.rename(done)


@pytest.fixture(scope="session")
def apache5(peers: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The name server of a cluster of RocketMQ 5; needs the same tools as the peers of 4.9."""
    try:
        build, home = newer_build(), tmp_path_factory.mktemp("apache5")
    except BuildFailed as failed:
        pytest.skip(f"Apache's servers {VERSION} cannot be fetched: {failed}")
    with (
        ApacheNamesrv(build, home / "namesrv", props=TLS) as server,
        ApacheBroker(build, home / "broker", server.address, config=QUICK, props=TLS),
    ):
        with Admin(name_servers=server.address) as admin:
            until(admin.masters, 60, "a broker of RocketMQ 5 to register")  # it says that it has booted before
        yield server.address
