"""Functions bound by settings: sources, sinks and processors, several clusters, destinations from Spring's file."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ariane import aio
from ariane.app import AppError, Ariane, SettingsError, load_settings
from ariane.testing.app import TestApp
from ariane.testing.cluster import Cluster
from tests.app.payloads import Inbox, Order
from tests.peers import unique

SPRING = """
spring:
  cloud:
    stream:
      bindings:
        count-out-0: {destination: NUMBERS}
        double-in-0: {destination: NUMBERS, group: GROUP-double}
        double-out-0: {destination: DOUBLES}
        collect-in-0: {destination: DOUBLES, group: GROUP-collect, consumer: {concurrency: 3}}
      rocketmq:
        binder: {name-server: SERVERS}
"""


async def test_source_processor_and_sink_are_joined_by_springs_file(ours: Cluster, tmp_path: Path) -> None:
    numbers, doubles = unique("numbers"), unique("doubles")
    for topic in (numbers, doubles):
        ours.create_topic(topic, queues=1)
    text = SPRING.replace("NUMBERS", numbers).replace("DOUBLES", doubles).replace("GROUP", unique("group"))
    path = tmp_path / "application.yml"
    path.write_text(text.replace("SERVERS", ours.name_servers))
    app, inbox = Ariane(settings=load_settings(path, consumer={"start_at": "first"})), Inbox()

    @app.function
    async def count() -> AsyncIterator[int]:
        for number in range(5):
            yield number

    @app.function
    def double(number: int) -> int:
        return number * 2

    @app.function
    async def collect(number: int) -> None:
        inbox.put(number)

    async with app:
        assert sorted(await inbox.take(5)) == [0, 2, 4, 6, 8]


async def test_a_function_reads_one_cluster_and_writes_to_another(ours: Cluster) -> None:
    source, target, inbox = unique("source"), unique("target"), Inbox()
    with Cluster() as other:
        ours.create_topic(source, queues=1)
        other.create_topic(target, queues=1)
        app = Ariane(
            name_servers=ours.name_servers,
            clusters={"other": {"name_servers": other.name_servers}},
            bindings={
                "move-in-0": {"destination": source, "group": unique("group"), "consumer": {"start_at": "first"}},
                "move-out-0": {"destination": f"{target}:moved", "cluster": "other", "hash_key": "item"},
            },
        )

        @app.function
        def move(order: Order) -> Order:
            return order

        @app.listener(target, group=unique("group"), cluster="other", start_at="first", tags="moved || direct")
        async def arrived(order: Order) -> None:
            inbox.put(order.id)

        async with app:
            await app.send(source, Order(id=1, item="tea"))
            await app.cluster("other").send(f"{target}:direct", Order(id=2, item="tea"))
            assert sorted(await inbox.take(2)) == [1, 2]
            async with aio.Admin(name_servers=ours.name_servers) as admin:
                assert target not in await admin.topics()
        with pytest.raises(SettingsError, match="there is no cluster 'third'"):
            app.cluster("third")


async def test_a_polled_source_sends_until_it_is_stopped_and_survives_failures() -> None:
    app = Ariane(bindings={"poll-out-0": {"destination": "polled", "poll_interval": 0.01, "hash_key": "id"}})
    calls, three = 0, asyncio.Event()

    @app.function
    async def poll() -> Order | None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise ValueError("no luck")
        if calls == 5:
            three.set()
        return None if calls == 3 else Order(id=calls, item="tea")

    async with TestApp(app) as test:
        await asyncio.wait_for(three.wait(), 60)
    sent = [Order.model_validate_json(message.body).id for message in test.sent("polled")]
    assert sent[:2] == [1, 4]
    assert asyncio.all_tasks() == {asyncio.current_task()}, "nothing polls any more"


@pytest.mark.parametrize(
    ("bindings", "told"),
    [
        ({"nobody-in-0": {"destination": "a", "group": "g"}}, "no function 'nobody' is decorated"),
        ({"work-in-1": {"destination": "a", "group": "g"}}, "bindings.work-in-1: write <function>-in-0"),
        ({"work": {"destination": "a"}}, "bindings.work: write"),
        ({"work-in-0": {"destination": "a"}}, "bindings.work-in-0.group is missing"),
    ],
)
async def test_a_wrong_binding_is_told_at_the_start(bindings: dict[str, dict[str, str]], told: str) -> None:
    app = Ariane(bindings=bindings)

    @app.function
    def work(text: str) -> None: ...

    with pytest.raises(SettingsError) as caught:
        await app.start()
    assert told in str(caught.value)
    with pytest.raises(AppError, match="two functions named 'work'"):
        app.function(work)
