"""Raft without I/O: events in, work out. The words are those of the paper (Ongaro and Ousterhout, "In Search of an
Understandable Consensus Algorithm") and of Ongaro's dissertation, whose sections the comments cite.

A `Node` is one member of a group. It has no clock, no files and no sockets: a driver reports events to it and does
the work it returns. It never sees the bytes of an entry, only index, term, position and size.

| what happened | call | | what to do | in `Ready` |
|---|---|---|---|---|
| time has passed | `tick(now)`, at the latest at `deadline` | | store term and vote | `hard_state` |
| a message came | `step(message)` | | change the log's files | `write` |
| a client wants something stored | `propose(blocks)` | | send, perhaps in vain | `messages` |
| term and vote are durable | `vote_stored(hard_state)` | | acknowledge and dispatch | `commit_index` |
| log writes are durable | `persisted(number)` | | start or stop to serve | `role` |

Also: `change_membership`, `transfer`, and `compact` when old entries were deleted. A driver, whose disk is a dictionary
and whose network is a list:

>>> def work(node, disk, network):
...     while ready := node.ready():
...         if ready.hard_state:
...             disk["hard state"] = ready.hard_state        # tmp, fsync, rename, fsync of the folder
...             node.vote_stored(ready.hard_state)
...         if ready.write:
...             if ready.write.reset:
...                 disk["log"] = []                         # the leader has deleted what this member needs
...             if ready.write.truncate_from is not None:    # durable before new entries take their place
...                 disk["log"] = [entry for entry in disk["log"] if entry.index < ready.write.truncate_from]
...             disk["log"] += ready.write.entries           # then fdatasync, now or when a later `sync` says so
...             node.persisted(ready.write.number)
...         network += ready.messages                        # these wait for nothing in this Ready
...         if ready.role and ready.role.role is Role.LEADER:
...             node.propose([(len(disk["log"]), 0)])        # a leader begins its term with an entry of its own
...         if ready.commit_index is not None:
...             disk["committed"] = ready.commit_index       # clients may be told

Three members elect one and store an entry:

>>> group = Membership(frozenset({"a", "b", "c"}))
>>> nodes = {id: Node(id, Log(LogStart(group)), HardState(), Options(), lambda: 0.5, now=0) for id in group.voters}
>>> disks = {id: {"log": []} for id in nodes}
>>> def run(network):
...     while network:
...         message = network.pop(0)
...         nodes[message.target].step(message)
...         work(nodes[message.target], disks[message.target], network)
>>> network = []
>>> for node in nodes.values():
...     node.tick(1400)  # an election time-out is 1000 to 2000; here 1500
>>> nodes["a"].tick(1500)
>>> work(nodes["a"], disks["a"], network); run(network)
>>> nodes["a"].role.value, nodes["b"].leader
('leader', 'a')
>>> nodes["a"].propose([(1, 100)])
1
>>> work(nodes["a"], disks["a"], network); run(network)
>>> [disks[id]["committed"] for id in "abc"]
[1, 1, 1]

Where to look:

| file | |
|---|---|
| `node.py` | inputs, outputs, and the rules for all roles: terms and votes |
| `follower.py`, `candidate.py`, `leader.py` | one role each |
| `state.py` | what all roles share |
| `log.py`, `terms.py`, `entry.py` | the log: which entries exist, are durable, are committed |
| `progress.py` | what the leader knows of another member; flow control |
| `membership.py` | voters, learners, majorities |
| `recovery.py` | members that have lost their vote or their log |
| `outbox.py`, `hard_state.py` | messages are held until term and vote are durable |
| `messages.py`, `ready.py`, `options.py`, `errors.py` | the vocabulary |
"""

from ariane.raft.entry import NO_INDEX, NO_TERM, Entry, LogStart
from ariane.raft.errors import (
    MembershipRefused,
    NotLeader,
    RaftError,
    SafetyViolation,
    TooManyUncommitted,
    TransferInProgress,
    TransferRefused,
)
from ariane.raft.hard_state import HardState
from ariane.raft.log import Log, Write
from ariane.raft.membership import Membership
from ariane.raft.messages import (
    AppendEntries,
    AppendReply,
    Heartbeat,
    HeartbeatReply,
    Message,
    Removed,
    RequestStatus,
    RequestVote,
    ResetLog,
    Status,
    TimeoutNow,
    Vote,
)
from ariane.raft.node import Node
from ariane.raft.options import Options
from ariane.raft.ready import Ready, RoleChange
from ariane.raft.state import Role

__all__ = [
    "NO_INDEX",
    "NO_TERM",
    "AppendEntries",
    "AppendReply",
    "Entry",
    "HardState",
    "Heartbeat",
    "HeartbeatReply",
    "Log",
    "LogStart",
    "Membership",
    "MembershipRefused",
    "Message",
    "Node",
    "NotLeader",
    "Options",
    "RaftError",
    "Ready",
    "Removed",
    "RequestStatus",
    "RequestVote",
    "ResetLog",
    "Role",
    "RoleChange",
    "SafetyViolation",
    "Status",
    "TimeoutNow",
    "TooManyUncommitted",
    "TransferInProgress",
    "TransferRefused",
    "Vote",
    "Write",
]
