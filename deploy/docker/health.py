#!/opt/ariane/bin/python
"""Ask the server of this container whether it is alive: a broker's metrics port, or a name server's.

Liveness, not readiness: a container that recovers a large store must not be restarted.
"""

import sys
from urllib.error import URLError
from urllib.request import urlopen

PORTS = [int(port) for port in sys.argv[1:]] or [5557, 5558]


def alive(port: int) -> bool:
    """True if the server on the port answers its health probe."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=4) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


sys.exit(0 if any(alive(port) for port in PORTS) else 1)
