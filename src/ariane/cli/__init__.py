"""The command line: `ariane`, and `mqnamesrv` and `mqbroker` with the flags of Apache's scripts.

It needs more than the client does, so the entry points say what to install when that is missing.
"""

import json
import os
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from ariane.errors import ArianeError
from ariane.extras import MissingExtra, extra
from ariane.version import VERSION, describe

_AGAIN: Final = "ARIANE_RUN_BY_UVX"


def main() -> None:
    """`ariane`."""
    _app("ariane")


def mqnamesrv() -> None:
    """`mqnamesrv`: the name server, with Apache's flags."""
    _app("mqnamesrv", "namesrv")


def mqbroker() -> None:
    """`mqbroker`: the broker, with Apache's flags."""
    _app("mqbroker", "broker")


def _app(name: str, *command: str) -> None:
    sys.argv[1:1] = command
    try:
        if sys.argv[1:2] == ["admin"]:  # a runbook calls it often: it does without the parser of the other commands
            from ariane.cli.admin.main import admin

            admin(sys.argv[2:])
            return
        if sys.argv[1:] == ["--version"]:  # answered without the parser, which comes with an extra
            print(f"ariane {describe()}")
            return
        with extra(
            {"pipeline": "spark", "app": "app", "console": "console"}.get("".join(sys.argv[1:2]), "broker"),
            "the command line",
        ):
            from ariane.cli.app import app
        app(prog_name="ariane")
    except (ArianeError, OSError) as error:
        if isinstance(error, MissingExtra):
            _run_by_uvx(error.extra)
        sys.exit(f"{name}: {error}")


def _run_by_uvx(extra: str) -> None:
    """Replace this process when it is `uvx ariane ...`: by the same command, in an environment that has the extra."""
    uv = os.environ.get("UV")  # uvx tells its path to what it runs; so does `uv run`, in a lasting environment
    if uv is None or not Path(sys.prefix).parent.name.startswith("archive-") or _AGAIN in os.environ:
        return
    origin = json.loads(distribution("ariane").read_text("direct_url.json") or "{}").get("url")
    wanted = f"ariane[{extra}] @ {origin}" if origin else f"ariane[{extra}]=={VERSION}"
    os.environ[_AGAIN] = "1"
    os.execv(uv, [uv, "tool", "run", "--from", wanted, "ariane", *sys.argv[1:]])
