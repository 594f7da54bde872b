"""Loads the fixtures of Apache's peers, and those that users of Ariane get, for every test folder."""

pytest_plugins = ["tests.peers.fixtures", "ariane.testing.plugin"]
