"""Strategies give what Apache's classes give. The vectors are their output; see allocations/Allocations.java."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ariane.client.consumer.allocate import (
    Allocate,
    ByConfig,
    ByMachineRoom,
    ConsistentHash,
    MachineRoomNearby,
    averagely,
    by_circle,
)
from ariane.message import MessageQueue
from tests.peers import Build

HERE = Path(__file__).parent / "allocations"
VECTORS = HERE / "vectors.jsonl"


def room_of_broker(queue: MessageQueue) -> str:
    return queue.broker_name.partition("@")[0]


def room_of_member(member: str) -> str:
    return member.partition("-")[0]


STRATEGIES: dict[str, Allocate] = {
    "averagely": averagely,
    "by_circle": by_circle,
    "consistent_hash": ConsistentHash(),
    "consistent_hash_40": ConsistentHash(40),
    "by_machine_room": ByMachineRoom(frozenset({"r1", "r3"})),
    "machine_room_nearby": MachineRoomNearby(averagely, room_of_broker, room_of_member),
}


def vectors() -> list[dict[str, Any]]:
    return [json.loads(line) for line in VECTORS.read_text().splitlines()]


def name_of(vector: dict[str, Any]) -> str:
    return f"{vector['strategy']}-{len(vector['queues'])}-{len(vector['shares'])}"


def parse(text: str) -> MessageQueue:
    broker, _, number = text.rpartition(":")
    return MessageQueue("orders", broker, int(number))


@pytest.mark.parametrize("vector", vectors(), ids=name_of)
def test_shares_are_those_of_apache(vector: dict[str, Any]) -> None:
    queues, members = [parse(text) for text in vector["queues"]], list(vector["shares"])
    strategy = STRATEGIES[vector["strategy"]]
    shares = {member: strategy("group", member, queues, members) for member in members}
    assert shares == {member: [parse(text) for text in share] for member, share in vector["shares"].items()}


def test_the_vectors_are_what_apaches_classes_print(peers: Build) -> None:
    command = ["java", "-cp", peers.classpath, str(HERE / "Allocations.java")]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert [json.loads(line) for line in printed.splitlines() if line.startswith("{")] == vectors()


@pytest.mark.parametrize("strategy", [*STRATEGIES.values()])
def test_who_is_no_member_gets_nothing(strategy: Allocate) -> None:
    assert strategy("group", "stranger", [MessageQueue("orders", "r1@a", 0)], ["r1-member"]) == []


def test_a_fixed_share_stays_fixed() -> None:
    mine = MessageQueue("orders", "a", 3)
    assert ByConfig((mine,))("group", "me", [], []) == [mine]


def test_a_member_more_moves_few_queues_on_the_ring() -> None:
    queues = [MessageQueue("orders", "a", i) for i in range(64)]
    before, after = [f"c{i}" for i in range(8)], [f"c{i}" for i in range(9)]
    ring = ConsistentHash(50)
    owner_before = {queue: member for member in before for queue in ring("g", member, queues, before)}
    owner_after = {queue: member for member in after for queue in ring("g", member, queues, after)}
    moved = [queue for queue in queues if owner_before[queue] != owner_after[queue]]
    assert {owner_after[queue] for queue in moved} <= {"c8"}
    assert len(moved) < 24
