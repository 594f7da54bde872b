"""Administration of a cluster. `Admin` has the methods of all modules here.

topics, groups, offsets, messages    what users work with
brokers, name_servers, access        the servers, and access control
lag, dead_letters, transactions      diagnosis and repair
requests                             the choice of the broker to ask
"""

from ariane.client.admin.admin import Admin

__all__ = ["Admin"]
