"""Apache's Go and C++ clients with keys, through our broker with access control."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import Cluster, LoopThread
from tests.interop.other_clients import Peer, PeerRefused
from tests.interop.test_other_clients import cpp, go, peer
from tests.peers import unique

__all__ = ["cpp", "go", "peer"]

RULES = """
accounts:
- accessKey: writer-key
  secretKey: writer-secret
  topicPerms: [guarded=PUB]
- accessKey: reader-key
  secretKey: reader-secret
  topicPerms: [guarded=SUB]
  groupPerms: [readers-go=SUB, readers-cpp=SUB]
"""
WRITER = {"accessKey": "writer-key", "secretKey": "writer-secret"}
READER = {"accessKey": "reader-key", "secretKey": "reader-secret"}


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose broker asks for keys."""
    folder: Path = tmp_path_factory.mktemp("guarded")
    (folder / "conf").mkdir()
    (folder / "conf/plain_acl.yml").write_text(RULES)
    loop = LoopThread()
    cluster = Cluster(folder, loop)
    try:
        cluster.start_broker(rocketmqHome=folder, aclEnable=True)
        cluster.call(lambda: [cluster.broker.topics.ensure(f"%RETRY%readers-{name}", 1) for name in ("go", "cpp")])
        yield cluster
    finally:
        cluster.stop()
        loop.close()


def test_a_client_with_keys_sends_and_receives_and_others_are_refused(
    guarded: Cluster, peer: Peer, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["peer"]
    with peer.producer(guarded.namesrv, **WRITER) as producer:
        assert producer.send("guarded", f"hello {name}")["status"] == 0
        assert producer.send("guarded", "batch-0", "batch-1")["status"] == 0
        with pytest.raises(PeerRefused):
            producer.send(unique("elsewhere"), "x")
    with peer.consumer(guarded.namesrv, "guarded", group=f"readers-{name}", tags="*", **READER) as consumer:
        assert f"hello {name}" in [message["body"] for message in consumer.await_messages(3)]
    for keys in ({**WRITER, "secretKey": "wrong-secret"}, READER):
        with peer.producer(guarded.namesrv, **keys) as producer, pytest.raises(PeerRefused):
            producer.send("guarded", "x")
