"""broker.conf: what is accepted, what is refused and how, what code and tools get to see."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import ariane
from ariane.broker import Broker
from ariane.broker.config import BrokerOptions, ConfigError, Host, NotUpdatable
from ariane.broker.config.ha_options import ha_options
from ariane.broker.config.table import BROKER_TABLE
from ariane.ha import HaOptions
from ariane.namesrv.config import NAMESRV_TABLE
from ariane.settings import OptionTable, format_properties, parse_properties
from tests.broker.conftest import Starter
from tests.broker.recorded import recorded_body
from tests.broker.talk import small_broker

GET_BROKER_CONFIG = 26


def load(text: str, host: Host | None = None) -> BrokerOptions:
    return BrokerOptions.load(text, file="broker.conf", host=host)


def error_of(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load(text)
    return caught.value


def test_defaults_are_those_of_rocketmq() -> None:
    options = load("", Host(home="/home/mq", host_name="box", address="10.0.0.7"))
    assert (options.broker_name, options.broker_cluster_name, options.broker_id) == ("box", "DefaultCluster", 0)
    assert (options.broker_ip1, options.listen_port, options.fast_listen_port) == ("10.0.0.7", 10911, 10909)
    assert options.store_path_root_dir == "/home/mq/store"
    assert options.store_path_commit_log == "/home/mq/store/commitlog"
    assert options.mapped_file_size_commit_log == 1024**3
    assert options.transaction_time_out_ms == 6000
    assert len(options.delay_levels_ms) == 18
    assert options.delay_levels_ms[-1] == 2 * 3600 * 1000


def test_options_of_replication_have_the_defaults_of_rocketmq_and_reach_it() -> None:
    options = load("brokerClusterName=c\nbrokerName=b")
    assert ha_options(options) == HaOptions(cluster="c", broker="b")  # whose own defaults are the same
    assert (options.broker_role, options.broker_id, options.ha_listen_port) == ("ASYNC_MASTER", 0, 10912)
    assert (options.ha_master_address, options.slave_read_enable, options.offset_check_in_slave) == (None, False, False)
    assert options.access_message_in_memory_max_ratio_percent == 40
    changed = ha_options(
        load(
            "haSendHeartbeatInterval=1\nhaHousekeepingInterval=2\nhaTransferBatchSize=3\nhaSlaveFallbehindMax=4\n"
            "slaveTimeout=5\nhaAllowedPeers=10.0.0.7;10.1.0.0/16"
        )
    )
    assert (changed.heartbeat_interval, changed.housekeeping_interval, changed.transfer_batch) == (0.001, 0.002, 3)
    assert (changed.fall_behind_max, changed.slave_timeout) == (4, 0.005)
    assert changed.allowed == ("10.0.0.7", "10.1.0.0/16")


def test_environment_gives_name_servers_until_the_file_does() -> None:
    host = Host.of({"NAMESRV_ADDR": "a:9876"}, host_name="box", address="127.0.0.1", processors=2)
    assert BrokerOptions.load("", host=host).namesrv_addr == "a:9876"
    assert BrokerOptions.load("namesrvAddr = b:9876;c:9876", host=host).namesrv_addr == "b:9876;c:9876"


def test_every_option_of_a_real_broker_is_read_and_printed_back_alike() -> None:
    recorded = {e.key: e.value for e in parse_properties(recorded_body(GET_BROKER_CONFIG).decode())}
    options = load(format_properties(recorded))
    assert options.as_properties() == recorded


def test_key_set_without_any_file_is_apaches() -> None:
    recorded = {e.key: e.value for e in parse_properties(recorded_body(GET_BROKER_CONFIG).decode())}
    own = load("", Host(home="/h", namesrv_addr="a:1")).as_properties()
    # Apache leaves a field without a value out; its recorded broker had this one set.
    assert own.keys() | {"storePathCommitLog"} == recorded.keys()


def test_defaults_equal_the_recorded_ones_where_the_recording_did_not_set_them() -> None:
    set_there = {
        "transactionCheckInterval transactionTimeOut storePathRootDir storePathCommitLog maxIndexNum maxHashSlotNum",
        "namesrvAddr brokerName diskMaxUsedSpaceRatio haListenPort listenPort mappedFileSizeCommitLog rocketmqHome",
        "enablePropertyFilter",
    }
    names = {name for line in set_there for name in line.split()}
    recorded = {e.key: e.value for e in parse_properties(recorded_body(GET_BROKER_CONFIG).decode())}
    ours = load("", Host(processors=2)).as_properties()
    assert {k: v for k, v in ours.items() if k not in names} == {k: v for k, v in recorded.items() if k not in names}


def test_options_that_mean_nothing_here_are_accepted_and_listed() -> None:
    options = load("sendMessageThreadPoolNums=16\nbrokerName=a\ndebugLockEnable=true")
    assert options.ignored == ("sendMessageThreadPoolNums", "debugLockEnable")
    assert options.as_properties()["sendMessageThreadPoolNums"] == "16"


ABSENT_FEATURES = [
    ("storePathDLedgerCommitLog=/a,/b", "storePathDLedgerCommitLog: A commitlog in several folders is not available"),
    ("filterServerNums=1", "filterServerNums: A broker starts no filter servers"),
    ("messageStorePlugIn=com.example.Store", "messageStorePlugIn: Store plug-ins are not available"),
    ("fetchNamesrvAddrByAddressServer=true", "fetchNamesrvAddrByAddressServer: .* list them in namesrvAddr"),
    ("readOnlyCommitLogStorePaths=/a", "readOnlyCommitLogStorePaths: A commitlog in several folders is not available"),
    ("storePathCommitLog=/a,/b", "storePathCommitLog: A commitlog in several folders is not available"),
    ("enableConsumeQueueExt=true", "enableConsumeQueueExt: The consumequeue extension is not available"),
    ("enableLmq=true", "enableLmq: Light message queues are not available"),
    ("enableMultiDispatch=true", "enableMultiDispatch: Light message queues are not available"),
]


@pytest.mark.parametrize(("text", "sentence"), ABSENT_FEATURES, ids=lambda value: value.partition("=")[0])
def test_an_option_whose_feature_is_not_there_refuses_the_start(text: str, sentence: str) -> None:
    with pytest.raises(ConfigError, match=f"broker.conf:1: {sentence}"):
        Broker(load(text))


def test_an_absent_feature_that_is_switched_off_is_no_obstacle_and_not_ignored() -> None:
    options = load("aclEnable=false\nenableDLegerCommitLog=false\nfilterServerNums=0\nbrokerRole=SYNC_MASTER")
    assert options.ignored == ()
    options.settings.refuse_absent()


async def test_ignored_options_are_told_in_one_line_at_the_start(
    talk_to: Starter, caplog: pytest.LogCaptureFixture
) -> None:
    await talk_to(sendMessageThreadPoolNums=16, debugLockEnable=True, brokerName="broker-b")
    [line] = [r.getMessage() for r in caplog.records if "no effect" in r.getMessage()]
    assert line == "these options have no effect here: sendMessageThreadPoolNums, debugLockEnable"


async def test_the_broker_dials_name_servers_with_the_patience_of_its_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: dict[str, object] = {}
    monkeypatch.setattr("ariane.broker.server.Client", lambda **arguments: made.update(arguments))
    small_broker(tmp_path, connectTimeoutMillis=1234, clientChannelMaxIdleTimeSeconds=0)
    assert (made["connect_timeout"], made["idle_timeout"]) == (1.234, math.inf)


@pytest.mark.parametrize(
    ("table", "folders"),
    [(BROKER_TABLE, ("broker", "filter", "cli")), (NAMESRV_TABLE, ("namesrv", "cli"))],
    ids=["broker", "name server"],
)
def test_every_option_is_read_or_refused_or_listed_as_ignored(table: OptionTable, folders: tuple[str, ...]) -> None:
    attributes, names = read_by_code(*folders, "ops", "remoting")
    unread = [
        option.name
        for option in table
        if option.used and (option.name not in names if option.by_name else option.attribute not in attributes)
    ]
    assert unread == []


def read_by_code(*folders: str) -> tuple[set[str], set[str]]:
    """The attributes that code takes from options, and the texts in it, which may be names of options."""
    attributes: set[str] = set()
    texts: set[str] = set()
    for path in (path for folder in folders for path in Path(ariane.__path__[0], folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and "config" not in path.parts:
                texts.add(node.value)
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and is_options(node.value):
                attributes.add(node.attr)
    return attributes, texts


def is_options(base: ast.expr) -> bool:
    """Whether an expression is `options`, `o`, `self._options`, `broker.options`, `self._rules()` or the like.

    `self` is among them for the methods of the options themselves.
    """
    if isinstance(base, ast.Call):
        base = base.func
    name = base.id if isinstance(base, ast.Name) else base.attr if isinstance(base, ast.Attribute) else ""
    return name in {"options", "_options", "current", "o", "_rules", "rules", "self"}


def test_the_page_for_operators_names_every_option_that_refuses_the_start() -> None:
    page = (Path(__file__).parents[2] / "docs" / "operate.md").read_text(encoding="utf-8")
    absent = [option.name for table in (BROKER_TABLE, NAMESRV_TABLE) for option in table if option.absent]
    assert [name for name in absent if name not in page] == []


def test_unknown_key_names_file_line_and_nearest_name() -> None:
    error = error_of("# broker\n\nbrokerNmae = a\n")
    assert (error.file, error.line, error.key, error.suggestion) == ("broker.conf", 3, "brokerNmae", "brokerName")
    assert str(error) == "broker.conf:3: brokerNmae: unknown option; did you mean brokerName?"


def test_old_spelling_that_4_9_7_no_longer_reads_is_refused_with_the_new_one() -> None:
    assert error_of("mapedFileSizeCommitLog=1048576").suggestion == "mappedFileSizeCommitLog"


def test_unknown_key_far_from_any_name_gets_no_suggestion() -> None:
    assert error_of("zzz=1").suggestion is None


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("listenPort=many", "expected a whole number, got 'many'"),
        ("listenPort=1.5", "expected a whole number, got '1.5'"),
        ("listenPort=", "expected a whole number, got ''"),
        ("listenPort=65536", "65536 is out of range 0..65535"),
        ("fileReservedTime=-1", "-1 is out of range 1..2147483647"),
        ("diskMaxUsedSpaceRatio=96", "96 is out of range 10..95"),
        ("maxMessageSize=9999999999", "9999999999 is out of range 1..2147483647"),
        ("aclEnable=yes", "expected true or false, got 'yes'"),
        ("brokerRole=MASTER", "expected one of ASYNC_MASTER, SYNC_MASTER, SLAVE, got 'MASTER'"),
        ("brokerPermission=7", "expected one of 0, 2, 4, 6, got '7'"),
        ("deleteWhen=24", "expected hours of the day such as 04 or 04;16, got '24'"),
        ("namesrvAddr=localhost", "expected addresses such as 127.0.0.1:9876;192.168.0.1:9876, got 'localhost'"),
        ("brokerName=", "expected a name, got nothing"),
        ("brokerName=\\u00zz", "malformed \\uxxxx escape '\\\\u00zz'"),
    ],
)
def test_wrong_values_are_refused_with_their_line(line: str, reason: str) -> None:
    error = error_of(f"brokerClusterName=c\n{line}\n")
    assert (error.line, error.reason) == (2, reason)


def test_wrong_delay_level_is_refused() -> None:
    assert "'5x'" in error_of("messageDelayLevel=1s 5x 10s").reason


def test_a_slave_needs_an_id_above_zero() -> None:
    error = error_of("brokerRole=SLAVE\nbrokerId=0")
    assert (error.line, error.key) == (2, "brokerId")
    assert load("brokerRole=SLAVE\nbrokerId=1").broker_id == 1


def test_a_master_has_id_zero_whatever_the_file_says() -> None:
    assert load("brokerId=3").broker_id == 0


def test_a_dledger_member_needs_group_peers_and_itself_among_them() -> None:
    peers = "dLegerPeers=n0-127.0.0.1:40911;n1-127.0.0.1:40912"
    assert error_of("enableDLegerCommitLog=true").key == "dLegerGroup"
    assert error_of(f"enableDLegerCommitLog=true\ndLegerGroup=g\n{peers}\ndLegerSelfId=n2").key == "dLegerSelfId"
    options = load(f"enableDLegerCommitLog=true\ndLegerGroup=g\n{peers}\ndLegerSelfId=n1")
    assert options.broker_id == -1
    assert options.as_properties()["brokerId"] == "-1"


def test_batch_push_has_one_name_in_the_file_and_another_in_print() -> None:
    assert load("enableBatchPush=true").as_properties()["isEnableBatchPush"] == "true"


def test_last_of_two_equal_keys_wins() -> None:
    assert load("brokerName=a\nbrokerName=b").broker_name == "b"


def test_consumequeue_files_hold_whole_entries() -> None:
    options = load("mappedFileSizeConsumeQueue=1001")
    assert options.mapped_file_size_consume_queue == 1020
    assert options.as_properties()["mappedFileSizeConsumeQueue"] == "1001"


def test_tls_lines_are_read_and_a_key_password_is_never_shown() -> None:
    options = load("tls.server.mode=enforcing\ntls.server.keyPassword=secret\ntls.server.keyPath=/k")
    assert (options.settings["tls.server.mode"], options.use_tls) == ("enforcing", True)
    assert options.settings["tls.server.keyPassword"] == "secret"
    assert options.as_properties()["tls.server.keyPath"] == "/k"
    assert "secret" not in str(options.as_properties()) + str(options.printed()) + repr(options)


def test_ariane_options_are_shown_only_when_set() -> None:
    assert load("").dlq_topic_perm == 6
    assert "dlqTopicPerm" not in load("").as_properties()
    assert load("dlqTopicPerm=2").as_properties()["dlqTopicPerm"] == "2"


def test_important_options_are_a_part_of_all_printed_ones() -> None:
    options = load("")
    important = options.printed(important_only=True)
    assert ("brokerRole", "ASYNC_MASTER") in important
    assert ("namesrvAddr", "") in important
    assert set(important) < set(options.printed())


def test_a_safe_key_changes_at_run_time_and_the_old_options_stay() -> None:
    options = load("")
    changed = options.updated("brokerPermission", "4")
    assert (options.broker_permission, changed.broker_permission) == (6, 4)
    assert changed.as_properties()["brokerPermission"] == "4"


@pytest.mark.parametrize(
    "key",
    [
        "storePathRootDir",
        "storePathCommitLog",
        "rocketmqHome",
        "namesrvAddr",
        "brokerIP1",
        "haMasterAddress",
        "aclEnable",
        "filterServerNums",
        "messageStorePlugIn",
        "tls.server.keyPath",
        "bindAddress",
        "serverFrameTimeoutSeconds",
        "serverBufferedBytesMax",
        "listenPort",
        "brokerRole",
        "flushDiskType",
        "noSuchKey",
    ],
)
def test_unsafe_and_unknown_keys_never_change_at_run_time(key: str) -> None:
    with pytest.raises(NotUpdatable):
        load("").updated(key, "x")


def test_no_path_address_or_access_key_is_on_the_allow_list() -> None:
    live = {option.name for option in BROKER_TABLE if option.live}
    words = ("Path", "Home", "Addr", "aclE", "tls.", "IP", "Port", "Leger", "PlugIn", "filterServer")
    assert [name for name in live for word in words if word in name] == []


def test_a_wrong_value_at_run_time_is_refused() -> None:
    with pytest.raises(ConfigError, match="defaultTopicQueueNums: 0 is out of range"):
        load("").updated("defaultTopicQueueNums", "0")


def test_command_line_values_replace_the_files() -> None:
    options = load("namesrvAddr=a:1").replaced({"namesrvAddr": "b:2", "listenPort": 0})
    assert (options.namesrv_addr, options.listen_port, options.fast_listen_port) == ("b:2", 0, 0)


def test_an_error_names_the_place_of_the_value() -> None:
    with pytest.raises(ConfigError) as of_file:
        load("listenPort=1\nbrokerRole=SLAVE")
    assert str(of_file.value).startswith("broker.conf: brokerId: ")
    with pytest.raises(ConfigError) as of_command_line:
        load("listenPort=1").replaced({"brokerRole": "SLAVE", "brokerId": 0})
    assert str(of_command_line.value).startswith("brokerId: ")


def test_attributes_are_exactly_the_used_options_with_their_types() -> None:
    fields = {f.name: f.type for f in dataclasses.fields(BrokerOptions) if f.name != "settings"}
    assert fields.keys() == {option.attribute for option in BROKER_TABLE if option.used and not option.by_name}
    for option in BROKER_TABLE:
        if option.used and not option.by_name:
            assert str(fields[option.attribute]).split(" ")[0] == option.kind.__name__, option.name


def test_every_default_is_in_its_own_range() -> None:
    for option in BROKER_TABLE:
        default = option.default_for(Host(home="/h", namesrv_addr="a:1"))
        if default is not None:
            text = str(default).lower() if isinstance(default, bool) else str(default)
            assert option.parse(text) == default, option.name


@given(st.text())
def test_any_text_is_read_or_refused_with_a_config_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        load(text)
