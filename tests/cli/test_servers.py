"""`ariane up`, `namesrv`, `broker`, and Apache's names for them, as a user starts and stops them."""

import errno
import json
import resource
import signal
import socket
from ipaddress import ip_address
from pathlib import Path

import pytest

from ariane.cli.servers.host import advertised, own_address
from ariane.cli.servers.limits import few_files_warning
from tests.cli.programs import program, run
from tests.peers.jvm import free_port

pytestmark = pytest.mark.slow  # starts programs


def _up_arguments(store: Path) -> tuple[str, list[str]]:
    names, broker = free_port(), free_port(-2, 1)
    ports = ["--namesrv-port", str(names), "--broker-port", str(broker)]
    return f"127.0.0.1:{names}", ["up", "--store", str(store), *ports]


def test_up_shows_a_message_serves_others_and_stops_cleanly(tmp_path: Path) -> None:
    namesrv, arguments = _up_arguments(tmp_path / "store")
    with program(tmp_path, "ariane", *arguments) as up:
        up.await_text("consumed")
        sent = run("ariane", "send", "-n", namesrv, "orders", "paid", "--tags", "eu")
        assert sent.stdout.startswith("SEND_OK"), sent.stderr
        assert up.stop(signal.SIGINT) == 0
        assert "Traceback" not in up.printed()
    assert not (tmp_path / "store" / "abort").exists()
    with program(tmp_path, "ariane", *arguments, "--no-first-message") as up:
        up.await_text("Ctrl-C stops it")
        read = run("ariane", "tail", "-n", namesrv, "orders", "--count", "1")
        assert read.stdout.split()[1:] == ["eu", "paid"]


def test_up_after_kill_keeps_every_message(tmp_path: Path) -> None:
    namesrv, arguments = _up_arguments(tmp_path / "store")
    with program(tmp_path, "ariane", *arguments) as up:
        up.await_text("consumed")
        assert run("ariane", "send", "-n", namesrv, "orders", "paid").returncode == 0
        up.stop(signal.SIGKILL)
    assert (tmp_path / "store" / "abort").exists()
    with program(tmp_path, "ariane", *arguments, "--no-first-message") as up:
        up.await_text("Ctrl-C stops it")
        assert "the store was not stopped cleanly" in up.printed()
        assert "paid" in run("ariane", "tail", "-n", namesrv, "orders", "--count", "1").stdout


def test_a_taken_port_is_named_with_its_option(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = run("ariane", "up", "--store", str(tmp_path), "--namesrv-port", str(port))
        assert ended.returncode == 1
        assert f"port {port} is taken" in ended.stderr
        assert "--namesrv-port" in ended.stderr
        assert "Traceback" not in ended.stderr
        names = free_port()
        ended = run("ariane", "up", "--store", str(tmp_path), "--namesrv-port", str(names), "--broker-port", str(port))
        assert f"port {port} is taken" in ended.stderr
        assert "--broker-port" in ended.stderr


def test_an_address_of_another_machine_is_not_called_taken(tmp_path: Path) -> None:
    _, arguments = _up_arguments(tmp_path)
    ended = run("ariane", *arguments, "--host", "198.51.100.77")
    assert ended.returncode == 1
    assert "cannot listen on 198.51.100.77" in ended.stderr
    assert "is taken" not in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_cluster_that_listens_everywhere_advertises_an_address_that_clients_can_use(tmp_path: Path) -> None:
    namesrv, arguments = _up_arguments(tmp_path / "store")
    with program(tmp_path, "ariane", *arguments, "--listen", "0.0.0.0", "--advertise", "127.0.0.1") as up:
        up.await_text("consumed")
        assert "0.0.0.0" not in up.printed()
        assert run("ariane", "send", "-n", namesrv, "orders", "paid").stdout.startswith("SEND_OK")
        assert run("ariane", "tail", "-n", namesrv, "orders", "--count", "1").stdout.split()[-1] == "paid"


def test_an_address_that_no_client_can_use_is_not_advertised(tmp_path: Path) -> None:
    ended = run("ariane", *_up_arguments(tmp_path)[1], "--advertise", "0.0.0.0")
    assert ended.returncode == 1
    assert "--advertise 0.0.0.0: clients cannot connect to it" in ended.stderr
    assert own_address() == advertised("0.0.0.0") == advertised("::")
    assert advertised("127.0.0.1") == "127.0.0.1"


@pytest.mark.parametrize("server", ["up", "broker"])
def test_a_store_folder_that_cannot_be_made_is_told_in_one_sentence(tmp_path: Path, server: str) -> None:
    (tmp_path / "taken").write_text("not a folder")
    for folder in (tmp_path / "taken", tmp_path / "taken" / "below", Path("/proc/no-such-process/store")):
        if server == "up":
            arguments = _up_arguments(folder)[1]
        else:
            config = tmp_path / "broker.conf"
            config.write_text(f"storePathRootDir={folder}\nlistenPort={free_port(-2, 1)}\n")
            arguments = ["broker", "-c", str(config)]
        ended = run("ariane", *arguments)
        assert ended.returncode == 1
        assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr
        assert f"the store folder {folder} cannot be" in ended.stderr


def test_two_tails_of_one_topic_both_print_every_message(tmp_path: Path) -> None:
    namesrv, arguments = _up_arguments(tmp_path / "store")
    with program(tmp_path, "ariane", *arguments, "--no-first-message") as up:
        up.await_text("Ctrl-C stops it")
        with (
            program(tmp_path, "ariane", "tail", "-n", namesrv, "orders") as first,
            program(tmp_path, "ariane", "tail", "-n", namesrv, "orders") as second,
        ):
            for tail in (first, second):
                tail.await_text("topic orders does not exist yet")
            for number in range(8):  # more than there are queues
                assert run("ariane", "send", "-n", namesrv, "orders", f"paid-{number}").returncode == 0
            for tail in (first, second):
                for number in range(8):
                    tail.await_text(f" paid-{number}\n")
                assert tail.stop(signal.SIGINT) == 0
                printed = tail.printed().splitlines()[1:]
                assert sorted(line.split()[-1] for line in printed) == [f"paid-{number}" for number in range(8)]
        with program(tmp_path, "ariane", "tail", "-n", namesrv, "orders", "--from", "end", "--count", "1") as late:
            number = 0
            while late.process.poll() is None:  # until it is at the end and sees one of them
                number += 1
                assert run("ariane", "send", "-n", namesrv, "orders", f"late-{number}").returncode == 0
            assert late.process.returncode == 0
            assert late.printed().split()[-1].startswith("late-")


def test_a_tail_goes_on_when_its_broker_comes_back(tmp_path: Path) -> None:
    namesrv, arguments = _up_arguments(tmp_path / "store")
    with program(tmp_path, "ariane", *arguments) as up:
        up.await_text("consumed")
        assert run("ariane", "send", "-n", namesrv, "orders", "before").returncode == 0
        with program(tmp_path, "ariane", "tail", "-n", namesrv, "orders") as tail:
            tail.await_text("before")
            up.stop(signal.SIGKILL)
            with program(tmp_path, "ariane", *arguments) as again:
                again.await_text("consumed")
                assert run("ariane", "send", "-n", namesrv, "orders", "after").returncode == 0
                tail.await_text("after")
            assert tail.printed().count("before") == 1


def test_a_taken_port_that_is_needed_beside_another_is_named(tmp_path: Path) -> None:
    _, arguments = _up_arguments(tmp_path)
    port = int(arguments[-1])
    with socket.create_server(("127.0.0.1", port - 2)):
        ended = run("ariane", *arguments)
    assert f"port {port - 2}, which is needed beside {port}, is taken" in ended.stderr


def test_a_second_broker_on_the_same_store_says_who_holds_it(tmp_path: Path) -> None:
    _, arguments = _up_arguments(tmp_path / "store")
    with program(tmp_path, "ariane", *arguments) as up:
        up.await_text("consumed")
        ended = run("ariane", *_up_arguments(tmp_path / "store")[1])
        assert ended.returncode == 1
        assert str(up.process.pid) in ended.stderr
        assert "Traceback" not in ended.stderr


def test_apaches_names_start_both_servers_from_properties_files(tmp_path: Path) -> None:
    names, port = free_port(), free_port(-2, 1)
    (tmp_path / "namesrv.conf").write_text(f"listenPort={names}\nkvConfigPath={tmp_path}/kv.json\n")
    (tmp_path / "broker.conf").write_text(
        f"brokerName=a\nbrokerIP1=127.0.0.1\nlistenPort={port}\nstorePathRootDir={tmp_path}/store\n"
        "mappedFileSizeCommitLog=1048576\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
    )
    environ = {"NAMESRV_ADDR": f"127.0.0.1:{names}"}
    with program(tmp_path, "mqnamesrv", "-c", "namesrv.conf") as namesrv:
        namesrv.await_text(str(names))
        with program(tmp_path, "mqbroker", "-c", "broker.conf", environ=environ) as broker:
            broker.await_text(f"127.0.0.1:{port}")
            broker.await_text("brokerIP1 in the configuration")
            sent = run("ariane", "send", "orders", "paid", environ=environ)
            assert sent.stdout.startswith("SEND_OK"), sent.stderr + broker.printed()
            assert broker.stop() == 0
        assert namesrv.stop() == 0
    assert not (tmp_path / "store" / "abort").exists()


def test_a_server_says_what_happens_to_it(tmp_path: Path) -> None:
    port, names = free_port(-2, 1), free_port()
    (tmp_path / "broker.conf").write_text(
        f"brokerName=a\nbrokerIP1=127.0.0.1\nlistenPort={port}\nnamesrvAddr=127.0.0.1:{names}\n"
        f"storePathRootDir={tmp_path}/store\nmappedFileSizeCommitLog=1048576\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
    )
    with program(tmp_path, "ariane", "broker", "-c", "broker.conf") as broker:
        broker.await_text(f"WARNING ariane.broker: cannot register with the name server 127.0.0.1:{names}")
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
            broker.await_text("closing 127.0.0.1")
        with program(tmp_path, "ariane", "namesrv", "--listen-port", str(names)):
            broker.await_text(f"registered with the name server 127.0.0.1:{names} again")
            assert run("ariane", "send", "-n", f"127.0.0.1:{names}", "orders", "paid").returncode == 0
            assert broker.stop() == 0
        assert "broker a stopped" in broker.printed()
    text = (tmp_path / "broker.conf").read_text()
    (tmp_path / "broker.conf").write_text(text.replace("1048576", "2097152"))
    with program(tmp_path, "ariane", "broker", "-c", "broker.conf", "--log-level", "warning") as broker:
        broker.await_text("the configuration says 2097152: the store's is used")
        assert "INFO" not in broker.printed()


def test_a_broker_may_open_as_many_files_as_the_machine_allows(tmp_path: Path) -> None:
    port = free_port(-2, 1)
    (tmp_path / "broker.conf").write_text(
        f"brokerIP1=127.0.0.1\nlistenPort={port}\nstorePathRootDir={tmp_path}/store\n"
        "mappedFileSizeCommitLog=1048576\nmaxHashSlotNum=1000\nmaxIndexNum=4000\n"
    )
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(1024, hard), hard))  # what most shells begin with
    try:
        with program(tmp_path, "ariane", "broker", "-c", "broker.conf") as broker:
            broker.await_text("flush")
            assert resource.prlimit(broker.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_low_limit_of_files_is_said() -> None:
    assert few_files_warning(None) is None
    assert few_files_warning(1_000_000) is None
    assert "only 1024 files and connections may be open" in (few_files_warning(1024) or "")


def test_p_prints_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("brokerName = a\nfileReservedTime=48\n")
    printed = run("mqbroker", "-c", str(tmp_path / "broker.conf"), "-n", "127.0.0.1:1", "-p").stdout.splitlines()
    assert {"brokerName=a", "fileReservedTime=48", "namesrvAddr=127.0.0.1:1"} <= set(printed)
    assert "listenPort=9876" in run("mqnamesrv", "-p").stdout.splitlines()


def test_a_wrong_option_is_named_with_its_line_and_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("brokerName = a\nbrokerNmae = b\n")
    ended = run("ariane", "broker", "-c", str(tmp_path / "broker.conf"))
    assert ended.returncode == 1
    assert "broker.conf:2: brokerNmae: unknown option; did you mean brokerName?" in ended.stderr
    (tmp_path / "broker.conf").write_bytes(b"brokerName = \xff\n")
    assert "broker.conf: no text in UTF-8" in run("ariane", "broker", "-c", str(tmp_path / "broker.conf")).stderr
    assert "Traceback" not in ended.stderr


def test_a_comment_after_a_value_is_named_as_the_mistake(tmp_path: Path) -> None:
    (tmp_path / "broker.conf").write_text("listenPort = 10911  # for clients\n")
    ended = run("ariane", "broker", "-c", str(tmp_path / "broker.conf"))
    assert ended.returncode == 1
    assert "broker.conf:1: listenPort: expected a whole number" in ended.stderr
    assert "put the comment on a line of its own" in ended.stderr


def test_a_broker_shows_the_role_that_a_promotion_gave_it(tmp_path: Path) -> None:
    store = tmp_path / "store"
    (store / "config").mkdir(parents=True)
    role = {"configured": "SYNC_MASTER 0", "role": "SLAVE", "brokerId": 1, "sharesLog": True}
    (store / "config" / "role.json").write_text(json.dumps(role))
    ports = f"listenPort={free_port(-2, 1)}\nbrokerIP1=127.0.0.1\nnamesrvAddr=127.0.0.1:1"
    (tmp_path / "broker.conf").write_text(f"brokerName=a\nbrokerRole=SYNC_MASTER\nstorePathRootDir={store}\n{ports}\n")
    with program(tmp_path, "mqbroker", "-c", "broker.conf") as broker:
        broker.await_text("a (SLAVE 1) in DefaultCluster")
        assert broker.stop() == 0


def test_version_tells_the_form() -> None:
    assert "compiled" in run("ariane", "--version").stdout


def test_an_address_is_found_where_interfaces_may_not_be_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> list[tuple[int, str]]:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(socket, "if_nameindex", refuse)
    ip_address(own_address())


def test_tail_without_a_name_server_says_so_in_one_sentence() -> None:
    done = run("ariane", "tail", "orders", "-n", f"127.0.0.1:{free_port()}")
    assert done.returncode == 1
    assert done.stderr.startswith("ariane: no name server answered")
    assert "Traceback" not in done.stderr
