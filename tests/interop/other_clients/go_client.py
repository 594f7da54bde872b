"""Builds the driver of Apache's Go client, once, inside the checkout's `.cache`."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

from tests.interop.other_clients.missing import PeerMissing, last_line
from tests.peers.build import CACHE, BuildFailed

SOURCES = Path(__file__).parent / "go"
PLACES = {"GOPATH": "path", "GOMODCACHE": "mod", "GOCACHE": "build", "GOENV": "env"}


def go_driver() -> Path:
    """The compiled driver."""
    done = CACHE / "go" / f"driver-{_fingerprint()}"
    if not done.exists():
        _compile(_go(), done)
    return done


def _go() -> str:
    found = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
    if found is None:
        raise PeerMissing("Apache's Go client needs Go 1.21 or later: no `go` on the PATH")
    return found


def _fingerprint() -> str:
    digest = hashlib.sha256()
    for path in sorted(SOURCES.iterdir()):
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def _compile(go: str, done: Path) -> None:
    """Builds beside the final place and renames at the end: two runs at once only do the work twice."""
    part = done.with_suffix(f".{os.getpid()}")
    fetched = _run(go, "mod", "download")
    if fetched.returncode != 0:
        raise PeerMissing(f"Apache's Go client cannot be fetched: {last_line(fetched.stderr)}")
    built = _run(go, "build", "-o", str(part), ".")
    if built.returncode != 0:
        raise BuildFailed(f"`go build` failed with {built.returncode}:\n{built.stderr[-4000:]}")
    part.rename(done)


def go_environment() -> dict[str, str]:
    """Caches inside the checkout, so that Go's own library is compiled once for all programs of the tests."""
    places = {name: str(CACHE / "go" / folder) for name, folder in PLACES.items()}
    # GOTOOLCHAIN: no other Go is fetched. -modcacherw: `make clean` may delete what Go downloads.
    return {**os.environ, **places, "GOTOOLCHAIN": "local", "GOFLAGS": "-modcacherw", "CGO_ENABLED": "0"}


def _run(go: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([go, *words], cwd=SOURCES, env=go_environment(), text=True, capture_output=True, check=False)
