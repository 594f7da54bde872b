"""Both clusters, ours and Apache's, as the client's tests have them."""

from tests.client.conftest import admin, apache5, group, ns, ours, producer, site, topic
from tests.interop.quick import quick

__all__ = ["admin", "apache5", "group", "ns", "ours", "producer", "quick", "site", "topic"]
