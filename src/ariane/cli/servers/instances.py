"""`ariane broker --instances N`: several brokers on one host from one configuration, each a process.

The first is the broker of the configuration file as it is, so that a host with one broker grows without moving its
store. The others differ in what two processes cannot share: name, ports, store and log files.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ariane.broker import BrokerOptions
from ariane.cli.screen import console
from ariane.cli.workers import Workers
from ariane.errors import ConfigError
from ariane.settings import Value

MOST: Final = 64
PORT_STEP: Final = 10  # a broker listens on three ports: listenPort - 2, listenPort, listenPort + 1
STOP: Final = 110.0  # seconds; systemd and compose kill after 120


def instance(options: BrokerOptions, number: int) -> BrokerOptions:
    """The options of one instance.

    >>> two = instance(BrokerOptions.load("brokerName=a\\nstorePathRootDir=/data/store\\nlogFile=/log/broker.log"), 2)
    >>> two.broker_name, two.listen_port, two.store_path_root_dir, two.log_file
    ('a-2', 10931, '/data/store-2', '/log/broker-2.log')
    """
    if number == 0:
        return options
    changes: dict[str, Value] = {
        "brokerName": f"{options.broker_name}-{number}",
        "listenPort": options.listen_port + PORT_STEP * number if options.listen_port else 0,
        "storePathRootDir": f"{options.store_path_root_dir}-{number}",
        "metricsPromExporterPort": options.metrics_prom_exporter_port + number,
    }
    if options.settings["storePathCommitLog"]:
        changes["storePathCommitLog"] = f"{options.store_path_commit_log}-{number}"
    for name in ("logFile", "adminLogFile"):
        if file := options.settings[name]:
            path = Path(str(file))
            changes[name] = str(path.with_name(f"{path.stem}-{number}{path.suffix}"))
    return options.replaced(changes)


def check_instances(options: BrokerOptions, count: int) -> list[BrokerOptions]:
    """The options of all instances; ConfigError when they could not run side by side."""
    if options.dledger_enable:
        raise ConfigError("--instances: a DLedger member names its peers by port; start a process for each group")
    if options.ha_master_address:
        raise ConfigError("--instances: haMasterAddress names one master; remove it, slaves find theirs by brokerName")
    if options.listen_port + PORT_STEP * (count - 1) + 1 > 65535:
        raise ConfigError(f"--instances {count}: listenPort {options.listen_port} leaves no room for the last ports")
    return [instance(options, number) for number in range(count)]


def run_instances(options: BrokerOptions, arguments: Sequence[str], count: int) -> None:
    """Run all instances until a signal; one that ends is started again, later each time if it keeps ending."""
    found = check_instances(options, count)
    for number, one in enumerate(found):
        console.print(
            f"  {one.broker_name:20} port {one.listen_port:<6} store {one.store_path_root_dir}  instance {number}"
        )
    beyond = Path(f"{options.store_path_root_dir}-{count}")
    if beyond.is_dir():
        console.print(f"[yellow]{beyond} holds the messages of an instance that this number leaves out.[/yellow]")

    def command(number: int) -> list[str]:
        return [sys.executable, "-m", "ariane", "broker", *arguments, "--instance", str(number)]

    Workers("Broker", command, count, patience=STOP).run()
