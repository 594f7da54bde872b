"""`python -m scripts.metrics_table`: writes the tables of metrics in docs/metrics.md from the code."""

import re
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ariane.broker.config import BrokerOptions
from ariane.broker.server import Broker
from ariane.env import Env
from ariane.namesrv import NameServer, NamesrvOptions
from ariane.ops.metrics import Metric

PAGE = Path(__file__).parents[1] / "docs" / "metrics.md"
PLACE = re.compile(r"(<!-- metrics: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def tables() -> dict[str, str]:
    """The tables by name."""
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(BrokerOptions.load(f"storePathRootDir = {folder}")).monitor.registry.metrics
        names = NameServer(NamesrvOptions.load(f"kvConfigPath = {folder}/kv"), Env()).monitor.registry.metrics
    exporter = [metric for metric in broker if _is_exporters(metric)]
    native = [metric for metric in broker if metric.name.startswith("rocketmq_") and metric not in exporter]
    known = {metric.name for metric in broker}
    return {
        "exporter": _table(exporter),
        "native": _table(native),
        "own": _table(metric for metric in broker if not metric.name.startswith("rocketmq_")),
        "namesrv": _table(metric for metric in names if metric.name not in known),
    }


def _is_exporters(metric: Metric) -> bool:
    return metric.name.startswith("rocketmq_") and "node_id" not in metric.labels


def _table(metrics: Iterable[Metric]) -> str:
    rows = [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in sorted(metrics)
    ]
    return "\n".join(["| name | kind | labels | what |", "|---|---|---|---|", *rows, ""])


def page_with_tables(page: str) -> str:
    """The page with its tables as the code has them."""
    found = tables()
    return PLACE.sub(lambda place: f"{place[1]}{found[place[2]]}{place[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(page_with_tables(PAGE.read_text()))
