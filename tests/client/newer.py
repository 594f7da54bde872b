"""Apache's name server and broker of RocketMQ 5, fetched as the peers of 4.9 are."""

import shutil
from pathlib import Path

from tests.peers.build import CACHE, COPY, JAVA, Build, run_tool

VERSION = "5.3.3"
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
