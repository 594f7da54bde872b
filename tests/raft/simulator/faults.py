"""What goes wrong in a world, how often, and how it ends."""

from collections.abc import Callable
from random import Random
from typing import Protocol

from ariane.raft import Membership, Node, RaftError
from tests.raft.simulator.member import Member
from tests.raft.simulator.network import Network


class Target(Protocol):
    """What faults act on."""

    time: int
    at_peace: bool
    random: Random
    members: dict[str, Member]
    network: Network
    first_membership: Membership

    def count(self, fault: str) -> None: ...
    def later(self, delay: int, action: Callable[[], None]) -> None: ...
    def leader(self) -> tuple[Member, Node] | None: ...
    def add_member(self) -> Member: ...
    def new_position(self) -> int: ...


def any_member(world: Target) -> Member:
    """Choose a member, the leader more often than another."""
    leader = world.leader()
    if leader and world.random.random() < 0.4:
        return leader[0]
    return world.random.choice(list(world.members.values()))


def crash(world: Target) -> None:
    """One process ends; its disk loses what was not synced."""
    member = any_member(world)
    if member.node:
        world.count("crash")
        member.crash()


def power_cut(world: Target) -> None:
    """All members lose power at once."""
    world.count("power cut of all")
    for member in world.members.values():
        if member.node:
            member.crash()


def restart(world: Target) -> None:
    """One process comes back."""
    down = [member for member in world.members.values() if member.node is None]
    if down:
        world.random.choice(down).start()


def pause(world: Target) -> None:
    """One process stands still, as with SIGSTOP; what arrives waits."""
    member = any_member(world)
    if member.node and member.paused is None:
        world.count("pause")
        member.paused = []
        member.world.later(100 + int(world.random.random() * 3000), lambda: resume(member))


def resume(member: Member) -> None:
    """It goes on."""
    waiting, member.paused = member.paused or [], None
    if member.node:
        for action in waiting:
            action()


def partition(world: Target) -> None:
    """Cut the network in two."""
    names = sorted(world.members)
    part = set(world.random.sample(names, world.random.randint(1, max(1, len(names) // 2))))
    world.count("partition")
    world.network.cut = {(a, b) for a in names for b in names if (a in part) != (b in part)}


def one_way(world: Target) -> None:
    """Cut some connections in one direction."""
    names = sorted(world.members)
    world.count("one-way cut")
    world.network.cut = {(a, b) for a in names for b in names if a != b and world.random.random() < 0.3}


def cut_one_link(world: Target) -> None:
    """Two members do not hear each other, but all others."""
    if len(world.members) > 1:
        a, b = world.random.sample(sorted(world.members), 2)
        world.count("cut link")
        world.network.cut = {(a, b), (b, a)}


def heal(world: Target) -> None:
    """Connect everybody."""
    world.network.cut = set()


def lose_term_file(world: Target) -> None:
    """A member loses its term and vote: a deleted file, a bad block."""
    member = any_member(world)
    if member.node and may_lose(world, member):
        world.count("lost term file")
        member.crash()
        member.disk.hard_state = None


def wipe(world: Target) -> None:
    """A member's disk is replaced by an empty one."""
    member = any_member(world)
    if member.node and may_lose(world, member):
        world.count("wiped disk")
        member.crash()
        member.disk.wipe(world.first_membership, term_file=world.random.random() < 0.3)


def may_lose(world: Target, member: Member) -> bool:
    """A majority's disks live, in every configuration that anybody believes in: nothing is promised beyond that."""
    lost = abstaining(world) | {member.name}
    groups = [world.first_membership]
    for other in world.members.values():
        if other.node:
            groups.append(other.node.log.membership)
        groups.append(other.disk.start.membership)
        groups += [entry.membership for entry in other.disk.entries if entry.membership]
    return all(len(group.voters & lost) <= (len(group.voters) - 1) // 2 for group in groups)


def abstaining(world: Target) -> set[str]:
    """Return the members that have lost something and not recovered."""
    return {name for name, member in world.members.items() if member.disk.abstaining}


def slow_disk(world: Target) -> None:
    """Syncs of one member take long, or are quick again."""
    member = any_member(world)
    world.count("slow disk")
    member.sync_time = 200 if member.sync_time < 100 else 2


def transfer(world: Target) -> None:
    """The leader is asked to hand over."""
    if leader := world.leader():
        world.count("transfer")
        try:
            leader[1].transfer(world.random.choice(sorted(leader[1].log.membership.members)))
        except RaftError:
            return
        leader[0].work()


def change_membership(world: Target) -> None:
    """Add a learner, promote one, or remove a member."""
    leader = world.leader()
    if leader is None:
        return
    member, node = leader
    group = node.log.membership
    choice = world.random.random()
    if choice < 0.35 and group.learners:
        kind, wanted = "learner made a voter", group.with_voter(world.random.choice(sorted(group.learners)))
    elif choice < 0.65 and len(group.members) < 6:
        gone = sorted(world.members.keys() - group.members)
        name = world.random.choice(gone) if gone else world.add_member().name
        kind, wanted = "learner added", group.with_learner(name)
    elif len(group.voters) > 2:
        name = world.random.choice(sorted(group.members))
        kind = "leader removed" if name == member.name else "member removed"
        wanted = group.without(name)
    else:
        return
    if len(wanted.voters & abstaining(world)) > (len(wanted.voters) - 1) // 2:
        return  # such a group could lose its last voters
    try:
        node.change_membership(wanted, world.new_position(), 100)
    except RaftError:
        return
    world.count("membership change")
    world.count(kind)
    member.work()
    if world.random.random() < 0.3:  # the change is on its way
        life = member.life

        def interrupt() -> None:
            if member.node and member.life == life and not world.at_peace:
                world.count("crash of a leader that changes the group")
                member.crash()

        world.later(1 + int(world.random.random() * 60), interrupt)


def delete_old_files(world: Target) -> None:
    """One member deletes its oldest entries, as brokers do by age."""
    member = any_member(world)
    node = member.node
    if node is None:
        return
    log = node.log
    last = min(log.commit_index, log.persisted_index)
    if last > log.start.index:
        world.count("deletion of old entries")
        index = world.random.randint(log.start.index, last)
        start = log.start_at(index, 0)
        member.disk.delete_before(start)
        node.compact(start)


# How often each happens, compared with the others. Every world draws some of these kinds.
KINDS: dict[Callable[[Target], None], int] = {
    crash: 12,
    power_cut: 2,
    pause: 5,
    partition: 5,
    one_way: 4,
    cut_one_link: 4,
    lose_term_file: 2,
    wipe: 2,
    slow_disk: 3,
    transfer: 4,
    change_membership: 6,
    delete_old_files: 5,
}
CURES: dict[Callable[[Target], None], int] = {restart: 16, heal: 8}
