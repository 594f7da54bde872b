"""The dashboards and alert rules name metrics that exist, and Prometheus itself takes them."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
import yaml

from ariane.env import Env
from ariane.namesrv import NameServer, NamesrvOptions
from tests.broker.talk import small_broker
from tests.cluster import Cluster, new_cluster
from tests.deploy.tools import tool
from tests.peers.jvm import free_port, until

DEPLOY = Path(__file__).parents[2] / "deploy"
DASHBOARDS = sorted((DEPLOY / "grafana").glob("*.json"))
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
OF_PROMETHEUS = {"up"}
DEBIAN = "apt-get install prometheus"
WORDS = {
    "by", "on", "sum", "max", "min", "rate", "increase", "topk", "label_values", "group_left", "without", "and", "or",
}  # fmt: skip

__all__ = ["new_cluster"]


@pytest.fixture(scope="module")
def metrics(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Every family of broker and name server, with its labels."""
    broker = small_broker(tmp_path_factory.mktemp("store"))
    names = NameServer(NamesrvOptions.load(f"kvConfigPath = {tmp_path_factory.mktemp('kv')}/kv"), Env())
    found = [*broker.monitor.registry.metrics, *names.monitor.registry.metrics]
    return {metric.name: set(metric.labels) for metric in found} | {name: {"job"} for name in OF_PROMETHEUS}


def expressions(board: Any) -> Iterator[str]:
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]


def named(expression: str) -> set[str]:
    """The metrics that an expression names."""
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]|\"[^\"]*\"", "", expression)
    bare = re.sub(r"\b(by|on|group_left|without)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"label_values\(([^,]*),[^)]*\)", r"\1", bare)
    return set(re.findall(r"[a-zA-Z_][a-zA-Z0-9_]*", bare)) - WORDS


def selected(expression: str) -> Iterator[tuple[str, str]]:
    """Each metric with each label that is asked of it."""
    for metric, selector in re.findall(r"([a-z_][a-z0-9_]*)\{([^}]*)\}", expression):
        for label in re.findall(r"(\w+)\s*[=!]~?", selector):
            yield metric, label


def test_the_expressions_are_understood() -> None:
    assert named('topk(10, sum by (topic) (rocketmq_producer_tps{cluster=~"$c"}))') == {"rocketmq_producer_tps"}
    assert named("label_values(rocketmq_broker_tps, cluster)") == {"rocketmq_broker_tps"}
    assert list(selected('a{b=~"x",c!="y"}')) == [("a", "b"), ("a", "c")]


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_names_metrics_and_labels_that_exist(path: Path, metrics: dict[str, set[str]]) -> None:
    board = json.loads(path.read_text())
    found = list(expressions(board))
    assert len(found) >= 6
    assert {name for expression in found for name in named(expression)} - metrics.keys() == set()
    wrong = {
        (name, label) for expression in found for name, label in selected(expression) if label not in metrics[name]
    }
    assert wrong == set()
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_the_alerts_name_metrics_that_exist_and_say_what_to_do(metrics: dict[str, set[str]]) -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    assert {name for rule in rules for name in named(rule["expr"])} - metrics.keys() == set()
    assert [rule["alert"] for rule in rules if not rule["annotations"].get("description")] == []


def promtool(folder: Path, *arguments: str) -> None:
    command = [tool("promtool", DEBIAN), *arguments]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_prometheus_accepts_the_rules_and_they_fire_when_they_should() -> None:
    promtool(ALERTS.parent, "check", "config", "prometheus.yml")
    promtool(ALERTS.parent, "check", "rules", "alerts.yml")
    promtool(ALERTS.parent, "test", "rules", "alerts_test.yml")


def test_prometheus_accepts_the_configuration_of_the_compositions(tmp_path: Path) -> None:
    for path in (ALERTS, DEPLOY / "compose" / "prometheus.yml"):
        shutil.copy(path, tmp_path)
    composition = yaml.safe_load((DEPLOY / "compose" / "dledger.yml").read_text())
    (tmp_path / "targets.yml").write_text(composition["configs"]["targets"]["content"])
    promtool(tmp_path, "check", "config", "prometheus.yml")


@pytest.mark.slow
def test_prometheus_scrapes_a_broker_and_evaluates_the_alerts(tmp_path: Path, new_cluster: Cluster) -> None:
    program = tool("prometheus", DEBIAN)
    broker = new_cluster.start_broker(metricsExporterType="PROM", metricsPromExporterPort=0)
    shutil.copy(ALERTS, tmp_path)
    config = {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["alerts.yml"],
        "scrape_configs": [
            {"job_name": "ariane-brokers", "static_configs": [{"targets": [broker.monitor.endpoint.address]}]}
        ],
    }
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(config))
    port = free_port()
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                program,
                f"--config.file={tmp_path}/prometheus.yml",
                f"--storage.tsdb.path={tmp_path}/data",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stdout=log,
            stderr=log,
        )
        try:
            until(
                lambda: ask(port, f'rocketmq_topic_number{{node_id="{broker.options.broker_name}"}}'), 120, "a scrape"
            )
            [found] = ask(port, "rocketmq_topic_number")
            assert float(found["value"][1]) == len(broker.topics)
            assert float(ask(port, "up")[0]["value"][1]) == 1
            until(lambda: all(rule["health"] == "ok" for rule in rules(port)), 120, "an evaluation of every rule")
            assert {rule["state"] for rule in rules(port) if rule["name"] != "ArianeDiskNearlyFull"} <= {
                "inactive",
                "pending",
            }
        finally:
            process.terminate()
            process.wait(60)


def get(port: int, path: str) -> Any:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=30) as answer:
            return json.loads(answer.read())["data"]
    except OSError:  # it is starting
        return None


def ask(port: int, query: str) -> list[Any]:
    return (get(port, f"/api/v1/query?query={quote(query)}") or {}).get("result", [])


def rules(port: int) -> list[Any]:
    groups = (get(port, "/api/v1/rules") or {}).get("groups", [])
    return [rule for group in groups for rule in group["rules"]] or [{"health": "unknown"}]
