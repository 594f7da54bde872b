"""`ariane up`, `ariane namesrv`, `ariane broker` and `ariane filterserver`: run until a signal stops them."""

from pathlib import Path
from typing import Annotated

import typer

from ariane.broker import Broker, BrokerOptions
from ariane.cli.connection import DEFAULT_NAMESRV
from ariane.cli.logs import LogLevel
from ariane.cli.screen import console, introduce, print_properties, this_command
from ariane.cli.serve import run, running, until_stopped
from ariane.cli.servers.console_process import DEFAULT_CONSOLE_PORT, check_console, console_process
from ariane.cli.servers.first_message import show_first_message
from ariane.cli.servers.host import advertised, is_unspecified, local_address, reach_warning, this_host
from ariane.cli.servers.instances import MOST, instance, run_instances
from ariane.cli.servers.limits import check_store_folder, few_files_warning, raise_open_files
from ariane.env import Env
from ariane.errors import ConfigError
from ariane.filterserver import FilterServer, FilterServerOptions
from ariane.namesrv import NameServer, NamesrvOptions
from ariane.ops.logs import open_logs
from ariane.remoting import format_address
from ariane.settings import Value

SMALL_FILES: dict[str, Value] = {  # a laptop must not lose gigabytes to files made ahead
    "mappedFileSizeCommitLog": 64 * 1024 * 1024,
    "maxHashSlotNum": 50_000,
    "maxIndexNum": 200_000,
}

ConfigFile = Annotated[
    Path | None, typer.Option("-c", "--config", help="a RocketMQ properties file", exists=True, dir_okay=False)
]
Level = Annotated[LogLevel | None, typer.Option("--log-level", help="which events to log; overrides logLevel")]
METRICS_PORTS = (5557, 5558)  # of broker and name server
PrintConfig = Annotated[bool, typer.Option("-p", help="print the configuration and exit")]


def up(
    store: Annotated[Path, typer.Option(help="folder of the messages")] = Path("store"),
    listen: Annotated[str, typer.Option("--listen", "--host", help="address to listen on")] = "127.0.0.1",
    advertise: Annotated[
        str | None,
        typer.Option(help="address that clients are told; without it the one of --listen, or this host's for 0.0.0.0"),
    ] = None,
    namesrv_port: Annotated[int, typer.Option(help="port of the name server")] = 9876,
    broker_port: Annotated[int, typer.Option(help="port of the broker")] = 10911,
    metrics: Annotated[bool, typer.Option(help="serve metrics and health over HTTP on this machine")] = True,
    metrics_port: Annotated[
        int | None, typer.Option(help="port of the broker's metrics; without it 5557, or any if that is taken")
    ] = None,
    first_message: Annotated[bool, typer.Option(help="send and consume one message to show that it works")] = True,
    console_port: Annotated[
        int | None, typer.Option("--console-port", help="port of the console; with it or --console the console runs")
    ] = None,
    with_console: Annotated[
        bool, typer.Option("--console", help="run the web console too, in a process of its own, for this machine")
    ] = False,
    log_level: Annotated[LogLevel, typer.Option("--log-level", help="which events to log")] = LogLevel.WARNING,
) -> None:
    """Run a whole cluster in this process: name server and broker, messages in a folder."""
    reach = advertise or advertised(listen)
    if is_unspecified(reach):
        raise ConfigError(f"--advertise {reach}: clients cannot connect to it; name an address of this machine")
    broker_metrics, namesrv_metrics = (_endpoint(metrics, port) for port in METRICS_PORTS)
    if metrics and metrics_port is not None:
        broker_metrics["metricsPromExporterPort"] = metrics_port
    names = _embedded_namesrv(store.resolve(), listen, namesrv_port).replaced(namesrv_metrics)
    browser = None
    if with_console or console_port is not None:
        check_console()
        browser = DEFAULT_CONSOLE_PORT if console_port is None else console_port
    run(
        _up(
            store.resolve(),
            listen,
            reach,
            names,
            broker_port,
            broker_metrics,
            metrics_port is None,
            first_message,
            browser,
        ),
        log_level,
    )


def _endpoint(enabled: bool, port: int) -> dict[str, Value]:
    """Options that serve metrics on a port."""
    if not enabled:
        return {}
    return {"metricsExporterType": "PROM", "metricsPromExporterPort": port}


async def _up(
    store: Path,
    listen: str,
    advertise: str,
    names: NamesrvOptions,
    broker_port: int,
    broker_metrics: dict[str, Value],
    any_metrics_port: bool,
    first_message: bool,
    console_port: int | None,
) -> None:
    raise_open_files()
    env = Env()
    check_store_folder(env.files, store)
    namesrv_port = names.listen_port
    name_server = NameServer(names, env)
    name_server.monitor.endpoint.any_port = True
    async with running(name_server, namesrv_port, "--namesrv-port"):
        inside = format_address(local_address(listen), name_server.port)
        broker = Broker(_embedded_broker(store, listen, advertise, broker_port, inside).replaced(broker_metrics), env)
        broker.monitor.endpoint.any_port = any_metrics_port
        async with running(broker, broker_port, "--broker-port"):
            _introduce_up(store, format_address(advertise, name_server.port), broker)
            async with console_process(inside, console_port, store / "console"):
                await until_stopped(show_first_message(inside) if first_message else None)
            console.print("Stopping ...")
    console.print("Stopped; every message is on the disk.")


def _embedded_namesrv(store: Path, host: str, port: int) -> NamesrvOptions:
    changes: dict[str, Value] = {
        "listenPort": port,
        "bindAddress": host,
        "kvConfigPath": str(store / "namesrv" / "kvConfig.json"),
    }
    return NamesrvOptions.load(host=this_host()).replaced(changes)


def _embedded_broker(store: Path, listen: str, advertise: str, port: int, namesrv: str) -> BrokerOptions:
    changes: dict[str, Value] = {
        "brokerName": "broker-a",
        "listenPort": port,
        "bindAddress": listen,
        "brokerIP1": advertise,
        "brokerIP2": advertise,
        "namesrvAddr": namesrv,
        "storePathRootDir": str(store),
        "enablePropertyFilter": True,
    }
    return BrokerOptions.load(host=this_host()).replaced(changes | SMALL_FILES)


def _introduce_up(store: Path, namesrv: str, broker: Broker) -> None:
    facts = [("name server", namesrv), ("broker", broker.address), ("store", str(store))]
    if broker.monitor.endpoint.address:
        facts.append(("metrics", f"http://{broker.monitor.endpoint.address}/metrics"))
    warning = reach_warning(broker.address.rpartition(":")[0], "--listen and --advertise")
    introduce("Cluster in one process", facts, [warning] if warning else [])
    console.print("\nAnother terminal can try:")
    where = "" if namesrv == DEFAULT_NAMESRV else f" -n {namesrv}"
    console.print(f"  {this_command()} send{where} TopicTest 'hello'")
    console.print(f"  {this_command()} tail{where} TopicTest")
    console.print("Ctrl-C stops it.\n")


def namesrv(
    config: ConfigFile = None,
    listen_port: Annotated[int | None, typer.Option(help="port to listen on, 9876 by default")] = None,
    print_config: PrintConfig = False,
    log_level: Level = None,
) -> None:
    """Run a name server."""
    options = NamesrvOptions.load(_text(config), file=str(config or ""), host=this_host())
    if listen_port is not None:
        options = options.replaced({"listenPort": listen_port})
    if log_level is not None:
        options = options.replaced({"logLevel": log_level.value})
    if print_config:
        print_properties(options.printed())
    else:
        open_logs(options, LogLevel.INFO)
        run(_namesrv(options), None)


async def _namesrv(options: NamesrvOptions) -> None:
    raise_open_files()
    server = NameServer(options, Env())
    async with running(server, options.listen_port, "--listen-port or listenPort in the configuration"):
        facts = [("address", server.address), ("KV config", options.kv_config_path)]
        facts += _operation_facts(server.monitor.endpoint.address, options.log_file)
        introduce("Name server", facts, [])
        await until_stopped()


def broker(
    config: ConfigFile = None,
    namesrv: Annotated[str | None, typer.Option("-n", "--namesrv", help="name servers: host:port;host:port")] = None,
    print_config: PrintConfig = False,
    print_important: Annotated[bool, typer.Option("-m", help="print the important part of it and exit")] = False,
    log_level: Level = None,
    instances: Annotated[
        int, typer.Option(min=1, max=MOST, help="so many brokers on this host, each with its own name, ports and store")
    ] = 1,
    number: Annotated[int, typer.Option("--instance", hidden=True, help="which of them this process is")] = 0,
) -> None:
    """Run a broker; without -n the name servers come from the configuration or from NAMESRV_ADDR.

    `ariane broker status`, `timers`, `config`, `drain` and `promote` operate running brokers.
    """
    options = BrokerOptions.load(_text(config), file=str(config or ""), host=this_host())
    if namesrv is not None:
        options = options.replaced({"namesrvAddr": namesrv})
    if log_level is not None:
        options = options.replaced({"logLevel": log_level.value})
    options = instance(options, number)
    if print_config or print_important:
        print_properties(options.printed(important_only=print_important))
    elif instances > 1:
        given = [("-c", config), ("-n", namesrv), ("--log-level", log_level and log_level.value)]
        run_instances(options, [word for name, value in given if value for word in (name, str(value))], instances)
    else:
        open_logs(options, LogLevel.INFO)
        run(_broker(options), None)


def filterserver(
    config: ConfigFile = None,
    broker: Annotated[
        str | None, typer.Option("-b", "--broker", help="the broker beside it: host:port; overrides connectWhichBroker")
    ] = None,
    listen_port: Annotated[int | None, typer.Option(help="port to listen on; any free one by default")] = None,
    print_config: PrintConfig = False,
    log_level: Level = None,
) -> None:
    """Run a filter server beside a broker: it applies filters of consumers, which pull through it; docs/filters.md."""
    options = FilterServerOptions.load(_text(config), file=str(config or ""), host=this_host())
    changes: dict[str, Value] = {}
    if broker is not None:
        changes["connectWhichBroker"] = broker
    if listen_port is not None:
        changes["listenPort"] = listen_port
    if log_level is not None:
        changes["logLevel"] = log_level.value
    options = options.replaced(changes)
    if print_config:
        print_properties(options.printed())
    else:
        open_logs(options, LogLevel.INFO)
        run(_filterserver(options), None)


async def _filterserver(options: FilterServerOptions) -> None:
    raise_open_files()
    server = FilterServer(options)
    async with running(server, options.listen_port, "--listen-port or listenPort in the configuration"):
        facts = [("tells consumers", server.address), ("broker", options.connect_which_broker)]
        facts += _operation_facts(server.endpoint.address, options.log_file)
        reach = reach_warning(options.filter_server_ip, "filterServerIP in the configuration")
        introduce("Filter server", facts, [reach] if reach else [])
        await until_stopped()


async def _broker(options: BrokerOptions) -> None:
    few = few_files_warning(raise_open_files())
    env = Env()
    check_store_folder(env.files, Path(options.store_path_root_dir))
    server = Broker(options, env)
    port = "listenPort in the configuration"
    if options.dledger_enable:
        port += ", or dLegerPeers for the port of the member"
    async with running(server, options.listen_port, port):
        _introduce_broker(options, server, [few] if few else [])
        await until_stopped()
        console.print("Stopping ...")


def _introduce_broker(options: BrokerOptions, server: Broker, warnings: list[str]) -> None:
    facts = [
        ("name", f"{options.broker_name} ({_role(options, server)}) in {options.broker_cluster_name}"),
        ("tells clients", server.address),
        ("name servers", options.namesrv_addr or "none: clients will not find this broker"),
        ("store", options.store_path_root_dir),
        ("flush", _flush(options)),
        *_operation_facts(server.monitor.endpoint.address, options.log_file),
    ]
    reach = reach_warning(options.broker_ip1, "brokerIP1 in the configuration")
    introduce("Broker", facts, [*([reach] if reach else []), *warnings])


def _flush(options: BrokerOptions) -> str:
    if not options.dledger_enable:
        return options.flush_disk_type
    if options.dledger_durable_ack:
        return "SYNC_FLUSH, on a majority"
    return "in memory of a majority (dLegerDurableAck=false): a power cut of the group loses acknowledged messages"


def _role(options: BrokerOptions, server: Broker) -> str:
    """The role that the broker has, which a promotion may have changed since `brokerRole` was written."""
    if options.dledger_enable:
        return f"member {options.dledger_self_id} of DLedger group {options.dledger_group}"
    role = server.role
    return role.kind.value if role.is_master else f"{role.kind.value} {role.broker_id}"


def _operation_facts(metrics: str, log_file: str) -> list[tuple[str, str]]:
    shown = [("metrics", f"http://{metrics}/metrics")] if metrics else []
    return [*shown, ("log", log_file)] if log_file else shown


def _text(config: Path | None) -> str:
    try:
        return config.read_text(encoding="utf-8") if config else ""
    except UnicodeDecodeError as error:
        raise ConfigError(f"{config}: no text in UTF-8: {error.reason} at byte {error.start}") from None
