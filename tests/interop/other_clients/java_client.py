"""Compiles one small Java program against any version of Apache's client, once a version, inside `.cache`."""

import hashlib
import shutil
import subprocess
from pathlib import Path

from tests.interop.other_clients.missing import PeerMissing, last_line
from tests.peers.build import CACHE, COPY, Build, BuildFailed, run_tool
from tests.peers.jvm import java

SOURCES = Path(__file__).parent / "java"


def round_trip(client: Build, home: Path, *args: str) -> list[str]:
    """Send a message of each kind and consume; the lines it prints."""
    return _run(client, home, "RoundTrip", *args)


def timed_sends(client: Build, home: Path, *args: str) -> list[str]:
    """Send a message for each way to ask for a delivery time, with a client of RocketMQ 5; the lines it prints."""
    return _run(client, home, "TimedSends", *args)


def _run(client: Build, home: Path, *program: str) -> list[str]:
    command = java(client, home, ["-Xmx256m"], {}, list(program))
    result = subprocess.run(command, cwd=home, text=True, capture_output=True, timeout=200, check=False)
    assert result.returncode == 0, result.stderr
    return result.stdout.splitlines()


def java_client(version: str) -> Build:
    """The program compiled against a version of the client."""
    text = b"".join((SOURCES / name).read_bytes() for name in ("pom.xml", *_programs(version)))
    done = CACHE / "java-clients" / f"{version}-{hashlib.sha256(text).hexdigest()[:16]}"
    if not done.exists():
        _make(version, done)
    return Build(done)


def _make(version: str, done: Path) -> None:
    """Builds beside the final place and renames at the end: a half build is never taken for a whole one."""
    part = done.with_suffix(".part")
    shutil.rmtree(part, ignore_errors=True)
    (part / "classes").mkdir(parents=True)
    places = [f"-Dmaven.repo.local={CACHE / 'm2'}", f"-DoutputDirectory={part / 'jars'}"]
    pom = ["-f", str(SOURCES / "pom.xml"), f"-Dclient.version={version}"]
    try:
        run_tool(["mvn", "-B", "-q", "-ntp", *pom, COPY, *places])
    except BuildFailed as failed:
        raise PeerMissing(f"Apache's client {version} cannot be fetched: {last_line(str(failed))}") from None
    for log in (part / "jars").glob("logback-*"):
        log.unlink()  # its output would stand between ours
    sources = [str(SOURCES / name) for name in _programs(version)]
    run_tool(["javac", "-nowarn", "-cp", f"{part / 'jars'}/*", "-d", str(part / "classes"), *sources])
    part.rename(done)


def _programs(version: str) -> tuple[str, ...]:
    """The sources that this version can compile."""
    return ("RoundTrip.java", "TimedSends.java") if version.startswith("5.") else ("RoundTrip.java",)
