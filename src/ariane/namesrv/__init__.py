"""The name server: brokers register, clients ask for routes.

It keeps no state on disk but the KV configuration, and name servers do not talk to each other.
"""

from ariane.namesrv.config import NamesrvOptions
from ariane.namesrv.server import NameServer

__all__ = ["NameServer", "NamesrvOptions"]
