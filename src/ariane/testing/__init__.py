"""Test tools: a cluster in this process, a clock that can be moved, a network and a disk that fail.

`pytest_plugins = ["ariane.testing.plugin"]` brings the fixture `ariane_cluster`, a cluster of the test's own.
"""
