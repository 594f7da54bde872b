"""The broker: stores and serves messages. Nothing here imports the client or the name server.

`server` makes and joins the parts, `handlers` maps request codes to handlers, `read_cycle` owns the order of one socket
read. The folders are concerns: `send`, `pull`, `tables` (topics, groups, offsets, clients, locks and their files),
`delay`, `timers` (delivery at any time), `transactions`, `retry`, `acl`, `replication` (master and slave), `admin`,
`stats`, `metrics`, `config`. `role` is master or slave and may change; `ledger` joins the broker to a DLedger group.
The other modules are used by several of them.
"""

from ariane.extras import extra

with extra("broker", "the broker"):
    from ariane.broker.config import BrokerOptions
    from ariane.broker.server import Broker

__all__ = ["Broker", "BrokerOptions"]
