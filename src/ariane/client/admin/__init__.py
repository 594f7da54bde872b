"""Administration of a cluster. `Admin` has the methods of all modules here.

topics, groups, offsets, messages    what users work with
brokers, name_servers, access        the servers, and who may do what
lag, dead_letters, transactions      what went wrong, and how to repair it
requests                             which broker is asked
"""

from ariane.client.admin.admin import Admin

__all__ = ["Admin"]
