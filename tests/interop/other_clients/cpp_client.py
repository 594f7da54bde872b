"""Installs the Python wheel around Apache's C++ client, once, into an environment of its own inside `.cache`."""

import platform
import shutil
import sys
import venv
from pathlib import Path

from tests.interop.other_clients.missing import PeerMissing, last_line
from tests.peers.build import CACHE, BuildFailed, locked, run_tool

WHEEL = "rocketmq==0.4.4"
DRIVER = Path(__file__).parent / "cpp" / "driver.py"


def cpp_driver() -> list[str]:
    """The command line of the driver."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise PeerMissing(f"{WHEEL} has a wheel for Linux on x86-64 only")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    home = CACHE / f"cpp-client-{version}"
    with locked(CACHE / "cpp-client.lock"):  # two processes of one run may come at once
        if not (home / "installed").exists():
            _install(home)
    return [str(home / "bin" / "python"), str(DRIVER)]


def _install(home: Path) -> None:
    """The mark at the end says that the installation is whole."""
    shutil.rmtree(home, ignore_errors=True)
    venv.create(home, with_pip=True)
    try:
        run_tool([str(home / "bin" / "pip"), "--disable-pip-version-check", "install", "-q", WHEEL])
    except BuildFailed as failed:
        raise PeerMissing(f"{WHEEL} cannot be fetched: {last_line(str(failed))}") from None
    (home / "installed").touch()
