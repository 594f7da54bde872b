"""Figures and checks of a broker's role and of its copies."""

from collections.abc import Callable, Iterator
from typing import Protocol

from ariane.broker.metrics.monitor import Monitor
from ariane.broker.role import Role, RoleKind
from ariane.dledger.scrub import Scrub
from ariane.ha.master import HaMaster
from ariane.ha.state import SlaveState
from ariane.ops.probes import Check
from ariane.raft import Membership


class LedgerMember(Protocol):
    """The figures of a DLedger member."""

    @property
    def leader(self) -> str | None: ...

    @property
    def term(self) -> int: ...

    @property
    def frozen(self) -> str:
        """Why the member does not take part in the group; empty when it does."""
        ...

    @property
    def waiting(self) -> str:
        """Why the member does not begin its work; empty when it has."""
        ...

    @property
    def outside(self) -> str:
        """Why the member does not belong to the group; empty when it does."""
        ...

    @property
    def membership(self) -> Membership: ...

    @property
    def scrub(self) -> Scrub: ...


def add_role(monitor: Monitor, role: Role) -> None:
    """The role of the broker, and whether it can serve in it."""

    def checks() -> Iterator[Check]:
        ok = role.is_slave or role.writable
        yield Check("role", ok, str(role) if ok else f"{role}: has not taken over yet, messages are refused")

    registry = monitor.registry
    registry.gauges(
        "ariane_role",
        "1 for the role that the broker has",
        "role",
        lambda: {k.value: int(k is role.kind) for k in RoleKind},
    )
    registry.gauge("ariane_role_epoch", "Number of the master's term; 0 when not known", lambda: role.epoch)
    registry.gauge(
        "ariane_role_writable", "1 while the broker is a master that takes messages", lambda: int(role.writable)
    )
    monitor.facts["role"] = lambda: role.kind.value
    monitor.readiness.more.append(checks)


def add_slaves(monitor: Monitor, master: HaMaster) -> None:
    """The slaves that copy this broker's log."""
    monitor.slaves = lambda: ((slave.address, max(slave.lag, 0)) for slave in master.slaves)
    registry = monitor.registry
    registry.gauge("ariane_slaves", "Slaves that copy the log", lambda: len(master.slaves))
    registry.gauge("ariane_slaves_in_sync", "Slaves near enough to the end of the log", master.in_sync)
    registry.counters(
        "ariane_replication_connections_total", "What became of slaves' connections", "event", master.counts
    )


def add_master(monitor: Monitor, role: Role, state: Callable[[], SlaveState | None]) -> None:
    """The master whose log this broker copies, while it is a slave; no state while the master is not known."""

    def checks() -> Iterator[Check]:
        if role.is_slave:
            now = state()
            if now is None:
                yield Check("following", False, "the address of the master is not known yet")
            elif now.connected:
                yield Check("following", True, f"follows {now.master}")
            else:
                yield Check("following", False, f"{now.phase.value}: {now.reason or now.master}")

    def following() -> int:
        now = state()
        return int(now is not None and now.connected)

    def behind() -> float:
        now = state()
        return 0 if now is None or not role.is_slave else max(now.master_end - now.offset, 0)

    registry = monitor.registry
    registry.gauge("ariane_replication_following", "1 while a slave follows its master", following)
    registry.gauge("ariane_replication_behind_bytes", "Bytes of the master's log that a slave does not have", behind)
    monitor.readiness.more.append(checks)


def add_ledger(monitor: Monitor, member: LedgerMember) -> None:
    """The DLedger group of the broker."""

    def checks() -> Iterator[Check]:
        if problem := member.frozen or member.outside or member.waiting:
            yield Check("ledger", False, problem)
        else:
            leader = member.leader
            yield Check("ledger", leader is not None, f"term {member.term}, led by {leader or 'nobody yet'}")

    registry = monitor.registry
    registry.gauge("ariane_ledger_term", "Term of the DLedger group", lambda: member.term)
    registry.gauge("ariane_ledger_has_leader", "1 while a leader is known", lambda: int(member.leader is not None))
    scrub = member.scrub
    registry.gauge(
        "ariane_ledger_damaged_entries", "Entries found damaged and not repaired yet", lambda: len(scrub.damaged)
    )
    registry.counter(
        "ariane_ledger_repaired_entries_total", "Damaged entries repaired from other members", lambda: scrub.repaired
    )
    registry.counter(
        "ariane_ledger_scrubbed_bytes_total", "Bytes of the ledger read to find damage", lambda: scrub.scrubbed_bytes
    )
    registry.gauge("ariane_ledger_voters", "Voters of the DLedger group", lambda: len(member.membership.voters))
    registry.gauge(
        "ariane_ledger_outside", "1 while this member is removed from its group", lambda: int(bool(member.outside))
    )
    monitor.readiness.more.append(checks)
