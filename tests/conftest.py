"""Loads the fixtures of Apache's peers, and those that users of Ariane get, for every test folder."""

import os

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.peers.fixtures", "tests.wheel", "ariane.testing.plugin"]

# How long an example takes says something of the machine, not of the code; and what CI finds must be found again.
settings.register_profile(
    "ariane",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=os.environ.get("CI") == "true",
    print_blob=True,
)
settings.load_profile("ariane")
