"""Fixtures of a running cluster of ours."""

from tests.cluster import cluster, new_cluster

__all__ = ["cluster", "new_cluster"]
