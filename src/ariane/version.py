"""Which version this is, and whether its hot path is compiled."""

from importlib.metadata import PackageNotFoundError, version

from ariane.protocol import units

try:
    VERSION = version("ariane")
except PackageNotFoundError:  # run from a source tree that was never installed
    VERSION = "unknown"


def is_compiled() -> bool:
    """Whether the modules of the hot path are the ones that mypyc compiled."""
    return not units.__file__.endswith(".py")


def describe() -> str:
    """Version and form, for `ariane --version` and the start of a server."""
    form = "hot path compiled" if is_compiled() else "plain Python, no compiled hot path"
    return f"{VERSION} ({form})"
