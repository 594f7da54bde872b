"""`python -m shop`: a cluster and the web service, with one command."""

import argparse
import os
import signal
import subprocess
import sys

import uvicorn

from ariane.errors import ArianeError


def main() -> None:
    """Start `ariane up`, then the service; Ctrl-C ends both."""
    arguments = argparse.ArgumentParser(prog="python -m shop", description=__doc__)
    arguments.add_argument("--port", type=int, default=8000)
    arguments.add_argument("--store", default="shop-store", help="folder of the messages")
    arguments.add_argument("--namesrv-port", type=int, default=9876)
    arguments.add_argument("--broker-port", type=int, default=10911)
    given = arguments.parse_args()
    servers = f"127.0.0.1:{given.namesrv_port}"
    signal.signal(signal.SIGTERM, stop)
    cluster = subprocess.Popen(
        [
            *(sys.executable, "-c", "from ariane.cli import main; main()", "up", "--no-first-message"),
            *("--store", given.store),
            *("--namesrv-port", str(given.namesrv_port), "--broker-port", str(given.broker_port)),
        ]
    )
    try:
        wait_for_cluster(servers, cluster)
        os.environ["ARIANE_NAME_SERVERS"] = servers
        uvicorn.run("shop.web:web", host="127.0.0.1", port=given.port)
    finally:
        cluster.terminate()
        cluster.wait()


def stop(number: int, frame: object) -> None:
    """End by an exception, so that the cluster is stopped too."""
    sys.exit(0)


def wait_for_cluster(servers: str, cluster: "subprocess.Popen[bytes]") -> None:
    """Create the shop's topics as soon as the broker is there."""
    from ariane import Admin

    while cluster.poll() is None:
        try:
            with Admin(name_servers=servers) as admin:
                if not admin.masters():
                    continue
                known = admin.topics()
                for topic in ("orders", "order-events", "price-requests"):
                    if topic not in known:
                        admin.create_topic(topic, queues=4)
                return
        except ArianeError:
            continue  # it is starting
    sys.exit("the cluster did not start: see above")


if __name__ == "__main__":
    main()
