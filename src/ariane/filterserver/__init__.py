"""The filter server: a process beside a broker through which consumers pull, so that filters cost the broker nothing.

- `config`: its options.
- `filters`: the filters of groups, modules fetched from the broker.
- `forwarding`: pulls, passed to the broker and filtered on the way back.
- `server`: puts these together, and registers with the broker.
"""

from ariane.filterserver.config import FilterServerOptions
from ariane.filterserver.server import FilterServer

__all__ = ["FilterServer", "FilterServerOptions"]
