"""namesrv.conf: the same rules as broker.conf with the name server's options."""

from __future__ import annotations

import pytest

from ariane.env import Env
from ariane.namesrv import NameServer
from ariane.namesrv.config import NAMESRV_TABLE, NamesrvOptions
from ariane.settings import ConfigError, Host, NotUpdatable, format_properties, parse_properties
from tests.broker.recorded import recorded_body

GET_NAMESRV_CONFIG = 319


def test_defaults_are_those_of_rocketmq() -> None:
    options = NamesrvOptions.load(host=Host(home="/home/mq"))
    assert options.listen_port == 9876
    assert options.kv_config_path == "/home/mq/namesrv/kvConfig.json"
    assert options.config_store_path == "/home/mq/namesrv/namesrv.properties"
    assert (options.scan_not_active_broker_interval_ms, options.broker_channel_expired_time_ms) == (10_000, 120_000)


def test_every_option_of_a_real_name_server_is_read_and_printed_back_alike() -> None:
    recorded = {e.key: e.value for e in parse_properties(recorded_body(GET_NAMESRV_CONFIG).decode())}
    options = NamesrvOptions.load(format_properties(recorded), file=recorded["configStorePath"])
    assert options.as_properties() == recorded


def test_the_file_that_was_read_is_where_updates_are_kept() -> None:
    options = NamesrvOptions.load("configStorePath=/elsewhere", file="/etc/namesrv.conf")
    assert options.config_store_path == "/etc/namesrv.conf"


def test_a_broker_option_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"namesrv.conf:1: brokerName: unknown option"):
        NamesrvOptions.load("brokerName=a", file="namesrv.conf")


def test_options_that_mean_nothing_here_are_listed() -> None:
    assert NamesrvOptions.load("serverWorkerThreads=8\nproductEnvName=p\ntls.client.keyPath=/k").ignored == (
        "productEnvName",
        "serverWorkerThreads",
        "tls.client.keyPath",
    )


def test_an_option_whose_feature_is_not_there_refuses_the_start() -> None:
    options = NamesrvOptions.load("clusterTest=true", file="namesrv.conf")
    with pytest.raises(ConfigError, match=r"namesrv.conf:1: clusterTest: Routes of another environment"):
        NameServer(options, Env())


async def test_ignored_options_are_told_in_one_line_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    server = NameServer(NamesrvOptions.load("listenPort=0\nbindAddress=127.0.0.1\nproductEnvName=p"), Env())
    await server.start()
    await server.stop()
    [line] = [r.getMessage() for r in caplog.records if "no effect" in r.getMessage()]
    assert line == "these options have no effect here: productEnvName"


def test_only_safe_keys_change_at_run_time() -> None:
    options = NamesrvOptions.load()
    assert options.updated("orderMessageEnable", "true").order_message_enable is True
    live = ["orderMessageEnable", "logLevel", "logLevels", "slowRequestThreshold"]
    assert [option.name for option in NAMESRV_TABLE if option.live] == live
    for key in ("kvConfigPath", "configStorePath", "listenPort", "rocketmqHome", "nothing"):
        with pytest.raises(NotUpdatable):
            options.updated(key, "/tmp/x")


def test_printing_shows_every_option_of_apaches() -> None:
    printed = dict(NamesrvOptions.load().printed())
    assert printed["listenPort"] == "9876"
    assert "bindAddress" not in printed


def test_passwords_are_not_in_the_text_of_options() -> None:
    text = "tls.server.keyPassword = hush\ntls.client.keyPassword = hush\n"
    options = NamesrvOptions.load(text)
    assert options.settings["tls.server.keyPassword"] == "hush"
    assert "hush" not in repr(options) + repr(options.settings)
