"""Two clusters with data of all kinds, clients that are online, and a console over both."""

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ariane import (
    Admin,
    ConsumeFrom,
    ConsumeStatus,
    Message,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
)
from tests.client.test_transactions import Ledger
from tests.cluster import Cluster, running_cluster
from tests.console.site import Site, start_site, write_users
from tests.console.test_alarms import webhook
from tests.console.test_schemas import ORDER, VALUE, encoded, protobuf_file
from tests.peers.jvm import until

LEVELS = " ".join(["1s"] * 13 + ["10m", "20m", "30m", "1h", "2h"])  # retries come soon, delayed messages wait
HOUR = 3_600_000
CONFIG = """
[webhook]
url = "{hook}"
[schemas.purchases]
avro = "order.avsc"
[schemas.payments]
protobuf = "shop.desc"
message = "shop.Payment"
"""


@dataclass
class Tour:
    """What the tests visit."""

    site: Site
    cluster: Cluster
    admin: Admin
    noticed: list[Any]
    """What the webhook got."""
    consumed: list[bytes]
    """Bodies that the group `billing` consumed."""

    def offsets(self, group: str, topic: str) -> set[int]:
        """Where a group stands in the queues of a topic."""
        return {self.admin.committed(group, queue) for queue in self.admin.queues(topic)}

    def count(self, topic: str) -> int:
        """Messages that a topic got."""
        return sum(one.max_offset for one in self.admin.topic_stats(topic).offset_table.values())


class Listener:
    """Consumes; fails on the first delivery of bodies that say so."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []

    def __call__(self, messages: list[ReceivedMessage]) -> ConsumeStatus:
        self.bodies += [one.body for one in messages]
        if any(b"fail once" in one.body and one.reconsume_times == 0 for one in messages):
            raise ValueError("out of stock")
        return ConsumeStatus.CONSUME_SUCCESS


def refuse(_: list[ReceivedMessage]) -> ConsumeStatus:
    """Fail always."""
    raise ValueError("no such address")


def consume(_: list[ReceivedMessage]) -> ConsumeStatus:
    """Succeed always."""
    return ConsumeStatus.CONSUME_SUCCESS


def fill(admin: Admin, namesrv: str, schemas: Path) -> None:
    """Create topics, and send messages of every kind: plain, encoded, delayed, timed, half."""
    for topic in ("orders", "parcels", "purchases", "payments", "backlog"):
        admin.create_topic(topic, queues=2)
    payment = protobuf_file(schemas / "shop.desc")
    (schemas / "order.avsc").write_text(json.dumps(ORDER))
    with Producer("shop", name_servers=namesrv, trace=True) as producer:
        for number in range(5):
            producer.send(Message("orders", f'{{"order": {number}}}'.encode(), keys=[f"o-{number}"], tags="eu"))
        producer.send(Message("orders", b"fail once", keys=["retried"], tags="eu"))
        for number in range(3):
            producer.send(Message("parcels", f"parcel {number}".encode(), keys=[f"p-{number}"]))
        producer.send(Message("purchases", encoded(VALUE), keys=["avro"]))
        producer.send(Message("payments", payment(order_id=7, note="hi").SerializeToString(), keys=["protobuf"]))
        for number in range(6):
            producer.send(Message("backlog", f"waits {number}".encode()))
        producer.send(Message("orders", b"later", delay_level=16))
        now = int(time.time() * 1000)
        for hours in (1.5, 30, 30):
            producer.send(Message("orders", b"at its time", deliver_at=now + int(hours * HOUR)))
    with TransactionProducer("payers", Ledger({}), name_servers=namesrv) as producer:
        for number in range(2):
            producer.send_half(Message("payments", f"half {number}".encode()))
    admin.create_group("reports")
    for queue in admin.queues("backlog"):
        admin.commit("reports", queue, 1)


@contextmanager
def running_tour(folder: Path) -> Iterator[Tour]:
    """Everything started, and stopped at the end."""
    with ExitStack() as stack:
        for name in ("one", "two", "files"):
            (folder / name).mkdir()
        cluster = stack.enter_context(running_cluster(folder / "one"))
        other = stack.enter_context(running_cluster(folder / "two"))
        cluster.start_broker(messageDelayLevel=LEVELS)
        cluster.start_slave(brokerName="broker-a", messageDelayLevel=LEVELS)
        other.start_broker("broker-z")
        with Admin(name_servers=other.namesrv) as second:
            second.create_topic("only-here", queues=1)
        admin = stack.enter_context(Admin(name_servers=cluster.namesrv))
        files = folder / "files"
        fill(admin, cluster.namesrv, files)
        listener = Listener()
        common: dict[str, Any] = {"name_servers": cluster.namesrv, "consume_from": ConsumeFrom.FIRST}
        stack.enter_context(PushConsumer("billing", "orders", listener, trace=True, **common))
        stack.enter_context(PushConsumer("shipping", "parcels", refuse, max_reconsume_times=1, **common))
        for tag in ("eu", "us"):  # one group, two subscriptions
            selected = PushConsumer("split", {"orders": tag}, consume, instance_name=tag, **common)
            stack.enter_context(selected)
        until(lambda: listener.bodies.count(b"fail once") == 2, 60, "the retry")
        until(lambda: "%DLQ%shipping" in admin.topics() and len(admin.dead_letters("shipping")) == 3, 60, "letters")
        url, noticed = stack.enter_context(webhook([]))
        (files / "console.toml").write_text(CONFIG.format(hook=url))
        profiles = folder / "profiles.toml"
        profiles.write_text(f'[main]\nname_servers = "{cluster.namesrv}"\n[second]\nname_servers = "{other.namesrv}"\n')
        profiles.chmod(0o600)
        write_users(files)
        site = start_site(
            files, None, "--profile", "main", "--profile", "second", env={"ARIANE_PROFILES": str(profiles)}
        )
        stack.callback(site.stop)
        yield Tour(site, cluster, admin, noticed, listener.bodies)
