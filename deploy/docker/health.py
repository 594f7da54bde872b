#!/opt/ariane/bin/python
"""Ask the server of this container whether it is alive: a broker's metrics port, a name server's, or `PORT/PATH`.

Liveness, not readiness: a container that recovers a large store must not be restarted.
"""

import sys
from urllib.error import URLError
from urllib.request import urlopen

PLACES = sys.argv[1:] or ["5557", "5558"]


def alive(place: str) -> bool:
    """True if the server on the port answers its health probe, or the path that is given."""
    port, _, path = place.partition("/")
    try:
        with urlopen(f"http://127.0.0.1:{int(port)}/{path or 'health'}", timeout=4) as answer:
            return bool(answer.status == 200)
    except (URLError, OSError):
        return False


sys.exit(0 if any(alive(place) for place in PLACES) else 1)
