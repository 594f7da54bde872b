"""What other brokers say of themselves; anybody may have registered them."""

import pytest

from ariane.broker.replication.peers import Peers, PeerState
from ariane.env import SystemClock
from ariane.protocol.bodies import KVTable
from ariane.protocol.codes import RequestCode
from ariane.remoting import Client, Server


@pytest.mark.parametrize(
    ("said", "epoch"), [("7", 7), ("-1", -1), ("9" * 5000, 0), ("\N{SUPERSCRIPT TWO}", 0), ("x", 0), ("-", 0)]
)
async def test_a_number_that_is_none_counts_as_zero(said: str, epoch: int) -> None:
    body = KVTable({"brokerEpoch": said, "brokerRole": "SLAVE"}).encode()
    clock = SystemClock()
    answer = {RequestCode.GET_BROKER_RUNTIME_INFO: lambda _, request: request.reply(body=body)}
    server, client = Server(answer, clock=clock), Client(clock=clock)
    await server.start("127.0.0.1", 0)
    try:
        state = await Peers(client, "broker-a", list).state(f"127.0.0.1:{server.port}")
        assert state == PeerState(epoch, False, 0, 0)
    finally:
        await client.close()
        await server.stop()
