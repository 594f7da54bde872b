"""Loads the fixtures of Apache's peers for every test folder."""

pytest_plugins = ["tests.peers.fixtures"]
