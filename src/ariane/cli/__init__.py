"""The command line: `ariane`, and `mqnamesrv` and `mqbroker` with the flags of Apache's scripts.

It needs more than the client does, so the entry points say what to install when that is missing.
"""

import sys

from ariane.errors import ArianeError
from ariane.extras import extra


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
        with extra(
            {"pipeline": "spark", "app": "app", "console": "console"}.get("".join(sys.argv[1:2]), "broker"),
            "the command line",
        ):
            from ariane.cli.app import app
        app(prog_name="ariane")
    except (ArianeError, OSError) as error:
        sys.exit(f"{name}: {error}")
