"""Apache RocketMQ 4.9.7 as the tests' peer: its name server, broker, client and mqadmin, from Maven Central.

`build()` fetches and compiles, `Driver` is a JVM with Apache's client, `ApacheNamesrv` and `ApacheBroker` are servers.
"""

from tests.peers.aio import aio
from tests.peers.build import Build, PeersMissing, build
from tests.peers.clients import Burst, PullResult, answer, echo, unique
from tests.peers.driver import Driver, PeerError
from tests.peers.jvm import free_port, until
from tests.peers.messages import Message, Queue, SendResult, outgoing
from tests.peers.servers import ApacheBroker, ApacheNamesrv

__all__ = [
    "ApacheBroker",
    "ApacheNamesrv",
    "Build",
    "Burst",
    "Driver",
    "Message",
    "PeerError",
    "PeersMissing",
    "PullResult",
    "Queue",
    "SendResult",
    "aio",
    "answer",
    "build",
    "echo",
    "free_port",
    "outgoing",
    "unique",
    "until",
]
