"""Listeners of `ariane.app` under the guarantee."""

import asyncio
from typing import Annotated, Any

import pytest
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import Session

from ariane.app import Ariane, DeadLetter, Depends
from ariane.guarantee import Guarantee, StubStatus, aio
from ariane.guarantee.middleware import session as guaranteed_session
from ariane.testing.cluster import Cluster
from tests.guarantee.bank import book, bookings
from tests.guarantee.conftest import Make, Site
from tests.peers import unique, until

PATIENCE = 60.0


def confirmed(guarantee: Guarantee, message_id: str) -> bool:
    return guarantee.inspect(message_id)[0].stub.status is StubStatus.CONFIRMED


async def test_an_async_listener_joins_the_confirming_transaction(site: Site, make: Make, cluster: Cluster) -> None:
    topic, group = unique("orders"), unique("billing")
    cluster.create_topic(topic)
    app = Ariane(unique("app"), name_servers=cluster.name_servers, consumer={"start_at": "first"})
    guarantee = aio.Guarantee(site.async_url, consumers={topic: group}, name_servers=cluster.name_servers)
    done = asyncio.Event()
    tries = []

    @app.listener(topic, group=group, guarantee=guarantee)
    async def bill(order: dict[str, Any], session: Annotated[AsyncSession, Depends(guaranteed_session)]) -> None:
        await session.run_sync(book, str(order["id"]))
        tries.append(order["id"])
        if len(tries) == 1:
            raise ValueError("the first try fails and leaves no trace")
        done.set()

    async with guarantee, app:
        async with AsyncSession(guarantee.engine) as session, session.begin():
            message_id = await guarantee.stage(session, topic, {"id": 7})
        await asyncio.wait_for(done.wait(), PATIENCE)
        look = make()
        await asyncio.to_thread(until, lambda: confirmed(look, message_id), PATIENCE, "the confirmation")
    assert bookings(look.engine) == ["7"]


async def test_a_plain_function_takes_a_guarantee_for_threads(make: Make, cluster: Cluster) -> None:
    topic, group = unique("orders"), unique("billing")
    cluster.create_topic(topic)
    app = Ariane(unique("app"), name_servers=cluster.name_servers, consumer={"start_at": "first"})
    guarantee: Guarantee = make(consumers={topic: group}, name_servers=cluster.name_servers)

    @app.listener(topic, group=group, guarantee=guarantee)
    def bill(order: dict[str, Any], session: Annotated[Session, Depends(guaranteed_session)]) -> None:
        book(session, str(order["id"]))
        if order["id"] == 2:
            raise DeadLetter("nobody can do this")

    guarantee.start()
    async with app:
        with Session(guarantee.engine) as session, session.begin():
            good, bad = (guarantee.stage(session, topic, {"id": number}) for number in (1, 2))
        await asyncio.to_thread(until, lambda: confirmed(guarantee, good), PATIENCE, "the confirmation")
        await asyncio.to_thread(until, lambda: guarantee.stubs(attention=True), PATIENCE, "the dead letter")
    assert bookings(guarantee.engine) == ["1"]
    [waiting] = guarantee.stubs(attention=True)
    assert waiting.message_id == bad
    assert waiting.attention is not None
    assert "nobody can do this" in waiting.attention


@pytest.mark.parametrize("site", ["sqlite"], indirect=True)
def test_the_session_is_there_under_a_guarantee_only(site: Site) -> None:
    from ariane.errors import GuaranteeError

    class Bare:
        state: dict[str, Any] = {}  # noqa: RUF012

    with pytest.raises(GuaranteeError, match="guarantee="):
        guaranteed_session(Bare())  # type: ignore[arg-type]
