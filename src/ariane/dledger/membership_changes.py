"""Adds and removes members at the leader: one change at a time, when the core finds it safe.

A new member begins as a learner, which gets the log and counts for nothing. The leader makes it a voter as soon as it
has caught up and may vote; if the leader is lost meanwhile, the next one does.
"""

import logging
from typing import Protocol

from ariane.dledger.options import MemberOptions
from ariane.dledger.peers import wire
from ariane.dledger.peers.peer import Peer, PeerKind
from ariane.dledger.peers.table import ID, is_address
from ariane.protocol.command import Command
from ariane.raft import Membership, MembershipRefused, Node, NotLeader, RaftError, Role
from ariane.remoting import Connection

log = logging.getLogger("ariane.dledger")


class Changeable(Protocol):
    """The part of the member that this module uses."""

    options: MemberOptions

    @property
    def peers(self) -> dict[str, Peer]: ...

    @property
    def node(self) -> Node | None: ...

    @property
    def term(self) -> int: ...

    def change_members(self, membership: Membership) -> int: ...


class MembershipChanges:
    """Answers the requests of operators."""

    def __init__(self, member: Changeable) -> None:
        self._member = member

    def handle(self, _: Connection, request: Command) -> Command:
        """CHANGE_MEMBERS."""
        body = wire.MembersRequest.decode(request.body or b"{}")
        answer = wire.MembersResponse(group=body.group, term=self._member.term)
        if body.group != self._member.options.group:
            answer.code, answer.remark = wire.UNKNOWN_GROUP, f"this is a member of {self._member.options.group}"
        else:
            try:
                answer.index = self._change(body)
            except NotLeader as error:
                answer.code, answer.leaderId, answer.remark = wire.NOT_LEADER, error.leader, str(error)
            except RaftError as error:
                answer.code, answer.remark = wire.UNEXPECTED_ARGUMENT, str(error)
        return request.reply(wire.OK, body=answer.encode())

    def _change(self, body: wire.MembersRequest) -> int:
        """Append the configuration, unless it is in force already; return the index of its entry."""
        node, id = self._member.node, body.member
        if node is None or node.role is not Role.LEADER:
            raise NotLeader(None if node is None else node.leader)
        now = node.log.membership
        addresses = dict(now.addresses)
        if not ID.fullmatch(id):
            raise MembershipRefused(f"{id!r} is no id of a member: give a letter and a number, such as n3")
        if body.action == "add":
            if not is_address(body.address):
                raise MembershipRefused(f"{body.address!r} is no address: give host:port of the new member")
            if id in now.members and addresses[id] == body.address:
                return node.log.membership_index
            if id in now.members:
                raise MembershipRefused(f"{id} is a member at {addresses[id]}: remove it first, or give another id")
            if body.address in addresses.values():
                raise MembershipRefused(f"{body.address} is the address of another member")
            wanted = now.with_learner(id, body.address)
        elif body.action == "remove":
            if id not in now.members:
                return node.log.membership_index
            if now.voters == {id}:
                raise MembershipRefused(f"{id} is the only voter: a group needs one")
            wanted = now.without(id)
        else:
            raise MembershipRefused(f"{body.action!r} is no change: add or remove")
        self._check_kinds(now, id, force=body.force)
        return self._member.change_members(wanted)

    def _check_kinds(self, membership: Membership, changed: str, *, force: bool) -> None:
        """Apache's members read no configuration: each would go on with its own dLegerPeers."""
        for id in sorted(membership.members - {self._member.options.id}):
            peer = self._member.peers.get(id)
            if peer is not None and peer.kind is PeerKind.APACHE:
                raise MembershipRefused(
                    f"{id} runs Apache's broker, whose members are fixed: change the group when all run Ariane"
                )
            if id != changed and not force and (peer is None or peer.kind is PeerKind.UNKNOWN):
                raise MembershipRefused(
                    f"{id} has not answered since this member started, and may run Apache's broker: start it, or force "
                    "the change if you know that it runs Ariane"
                )

    def promote(self) -> None:
        """Make a learner a voter if it has caught up."""
        node = self._member.node
        if node is None or node.role is not Role.LEADER:
            return
        now = node.log.membership
        for id in sorted(now.learners):
            try:
                self._member.change_members(now.with_voter(id))
            except RaftError as error:
                log.debug("%s is not made a voter yet: %s", id, error)
            else:
                log.info("%s has caught up and becomes a voter", id)
                return
