"""The name server: brokers register, clients ask for routes.

    server        the process: tables, port, periodic scan
    handlers      the handler of each request code
    routes        brokers, clusters, topics and their queues; bounded
    kv            the KV configuration, the only state on disk
    config        options; live_config changes them at run time

Name servers do not communicate with each other.
"""

from ariane.namesrv.config import NamesrvOptions
from ariane.namesrv.server import NameServer

__all__ = ["NameServer", "NamesrvOptions"]
