"""Fixtures of a running cluster of ours."""

from tests.cluster import cluster, new_cluster
from tests.interop.quick import quick

__all__ = ["cluster", "new_cluster", "quick"]
