"""Fetches Apache's jars with Maven and compiles our driver with javac, once, inside the checkout's `.cache`."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

JAVA = Path(__file__).parent / "java"
CACHE = Path(__file__).parents[2] / ".cache"
COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"


class PeersMissing(Exception):
    """The machine cannot run Apache's peers; the message says what it lacks."""


class BuildFailed(Exception):
    """Maven or javac failed: no network, or an error in our own sources; never a reason to skip."""


@dataclass(frozen=True)
class Build:
    """Where the jars and our classes are."""

    folder: Path

    @property
    def classpath(self) -> str:
        """What `java -cp` takes."""
        return f"{self.folder / 'classes'}{os.pathsep}{self.folder / 'jars'}/*"


def build() -> Build:
    """The finished build: made now if the pom or a source changed, else found in the cache."""
    _need_tools()
    done = CACHE / "peers" / _fingerprint()
    if not done.exists():
        with locked(CACHE / "peers.lock"):
            if not done.exists():
                _make(done)
    return Build(done)


def _need_tools() -> None:
    for tool, package in {"java": "a JRE 17", "javac": "a JDK 17", "mvn": "Maven"}.items():
        if shutil.which(tool) is None:
            raise PeersMissing(f"Apache's peers need {package}: no `{tool}` on the PATH")
    version = subprocess.run(["javac", "-version"], text=True, capture_output=True, check=True).stdout
    if int(version.split()[1].split(".")[0]) < 17:
        raise PeersMissing(f"Apache's peers need a JDK 17 or later: the PATH has {version.strip()}")


def _sources() -> list[Path]:
    return sorted(JAVA.rglob("*.java"))


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in [JAVA / "pom.xml", *_sources()]:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _make(done: Path) -> None:
    """Builds beside the final place and renames at the end: a half build is never taken for a whole one."""
    part = done.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "classes").mkdir(parents=True)
    _copy_jars(part / "jars")
    sources = [str(path) for path in _sources()]
    places = ["-cp", f"{part / 'jars'}/*", "-d", str(part / "classes")]
    run_tool(["javac", "--release", "17", "-nowarn", *places, *sources])
    part.rename(done)


def _copy_jars(jars: Path) -> None:
    """One download per pom: jars are linked from the folder that belongs to its contents."""
    kept = CACHE / "peers" / ("jars-" + hashlib.sha256((JAVA / "pom.xml").read_bytes()).hexdigest()[:16])
    if not kept.exists():
        part = kept.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        places = [f"-Dmaven.repo.local={CACHE / 'm2'}", f"-DoutputDirectory={part}"]
        run_tool(["mvn", "-B", "-q", "-ntp", "-f", str(JAVA / "pom.xml"), COPY, "-DincludeScope=runtime", *places])
        part.rename(kept)
    jars.symlink_to(Path("..") / kept.name)  # a cache that is moved stays whole


def run_tool(command: list[str]) -> None:
    """Run Maven or a compiler; BuildFailed carries what it said."""
    # A short run is over before the second compiler of the JVM is worth its CPU: half of it with the first alone.
    flags = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    result = subprocess.run(
        command,
        env={**os.environ, "JAVA_TOOL_OPTIONS": flags},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if result.returncode != 0:
        raise BuildFailed(f"`{command[0]}` failed with {result.returncode}:\n{result.stdout[-4000:]}")
