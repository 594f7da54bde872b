"""Real processes: what a leader has acknowledged of topics, groups and offsets is on the next one after kill -9.

    python -m tests.dledger.tables --rounds 100

Each round creates a topic by request and one by a send, creates a group, commits an offset, and moves back or deletes
what an earlier round made. The leader is killed as soon as the last request is answered, and its successor is asked for
everything.
"""

import argparse
import asyncio
import random
import tempfile
from pathlib import Path

from ariane.errors import ArianeError
from ariane.protocol.bodies import KVTable, SubscriptionGroupConfig, SubscriptionGroupTable, TopicConfigTable
from ariane.protocol.codes import RequestCode, ResponseCode
from ariane.protocol.command import Command
from ariane.protocol.headers import (
    CreateTopicRequest,
    DeleteTopicRequest,
    QueryConsumerOffsetRequest,
    UpdateConsumerOffsetRequest,
)
from tests.broker.talk import send_fields
from tests.dledger.chaos import PATIENCE, Processes


class Master:
    """The leader's broker, found again when a request is refused because it does not lead yet or any more."""

    def __init__(self, group: Processes) -> None:
        self.group = group
        self.id = ""

    async def ask(self, code: int, fields: dict[str, str] | None = None, body: bytes = b"") -> Command:
        """Send a request to the leader until it is answered with success."""
        async with asyncio.timeout(PATIENCE):
            while True:
                self.id = self.id or await self.group.leader()
                try:
                    address = f"127.0.0.1:{self.group.ports[self.id]}"
                    answer = await self.group.client.request(address, Command(code, fields, body), 5)
                    if answer.code == ResponseCode.SUCCESS:
                        return answer
                except ArianeError:
                    pass
                self.id = ""
                await asyncio.sleep(0.02)

    async def leads(self) -> None:
        """Wait until a broker has the master's role."""
        self.id = ""
        while True:
            info = KVTable.decode((await self.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body)
            if info.table["brokerRole"] != "SLAVE":
                return
            await asyncio.sleep(0.02)

    async def create_topic(self, topic: str) -> None:
        header = CreateTopicRequest(topic, "TBW102", 2, 2, 6, "SINGLE_TAG", 0, False)
        await self.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, header.fields())

    async def commit(self, group: str, topic: str, offset: int) -> None:
        """A two-way commit, which may move back."""
        header = UpdateConsumerOffsetRequest(group, topic, 0, offset)
        await self.ask(RequestCode.UPDATE_CONSUMER_OFFSET, header.fields())


async def run(root: Path, rounds: int, seed: int) -> int:
    """Kill leaders; returns the number of facts that were acknowledged and found again."""
    chance, group = random.Random(seed), Processes(root)
    topics: set[str] = set()
    deleted: set[str] = set()
    groups: set[str] = set()
    offsets: dict[tuple[str, str], int] = {}
    found = 0
    try:
        await group.start_links()
        group.start_name_server()
        for id in group.peers:
            group.start(id)
        master = Master(group)
        for number in range(rounds):
            await master.create_topic(f"made{number}")
            topics.add(f"made{number}")
            await master.ask(RequestCode.SEND_MESSAGE_V2, send_fields(f"sent{number}"), b"hello")
            topics.add(f"sent{number}")
            config = SubscriptionGroupConfig(f"group{number}", retry_max_times=number)
            await master.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, config.encode())
            groups.add(f"group{number}")
            if number % 3 == 2:
                gone = chance.choice(sorted(topics - {f"made{number}", f"sent{number}"}))
                await master.ask(RequestCode.DELETE_TOPIC_IN_BROKER, DeleteTopicRequest(gone).fields())
                topics.remove(gone)
                deleted.add(gone)
                offsets = {key: offset for key, offset in offsets.items() if key[1] != gone}
            if offsets:  # move one back: no merge may undo it
                key = chance.choice(sorted(offsets))
                await master.commit(*key, 3)
                offsets[key] = 3
            await master.commit(f"group{number}", f"made{number}", 1000 + number)
            offsets[f"group{number}", f"made{number}"] = 1000 + number
            killed = await group.leader()
            group.kill(killed)
            await master.leads()
            found += await check(master, topics, deleted, groups, offsets)
            group.start(killed)
            await group.back(killed)
    finally:
        await group.stop()
    return found


async def check(
    master: Master, topics: set[str], deleted: set[str], groups: set[str], offsets: dict[tuple[str, str], int]
) -> int:
    """Ask the leader for everything; AssertionError when something acknowledged is missing or back."""
    body = (await master.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body
    known = TopicConfigTable.decode(body).topic_config_table.keys()
    assert topics <= known, f"lost topics: {sorted(topics - known)}"
    assert not deleted & known, f"topics are back: {sorted(deleted & known)}"
    body = (await master.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)).body
    configs = SubscriptionGroupTable.decode(body).subscription_group_table
    assert groups <= configs.keys(), f"lost groups: {sorted(groups - configs.keys())}"
    assert all(configs[name].retry_max_times == int(name.removeprefix("group")) for name in groups)
    for (group, topic), offset in offsets.items():
        header = QueryConsumerOffsetRequest(group, topic, 0)
        answer = await master.ask(RequestCode.QUERY_CONSUMER_OFFSET, header.fields())
        assert answer.fields["offset"] == str(offset), f"{group} in {topic}: {answer.fields['offset']}, not {offset}"
    return len(topics) + len(deleted) + len(groups) + len(offsets)


def main() -> None:
    """Run it from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="dledger-tables-") as folder:
        print(f"seed {arguments.seed}", flush=True)
        found = asyncio.run(run(Path(folder), arguments.rounds, arguments.seed))
    print(f"{arguments.rounds} leaders killed, {found} facts asked of their successors, 0 lost")


if __name__ == "__main__":
    main()
