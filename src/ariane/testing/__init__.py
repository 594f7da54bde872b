"""For users' tests, and our own: a cluster in this process, a clock that moves, a network and a disk that fail.

`pytest_plugins = ["ariane.testing.plugin"]` brings the fixture `ariane_cluster`, a cluster of the test's own.
"""
