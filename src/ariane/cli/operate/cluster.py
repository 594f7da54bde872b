"""`ariane cluster`: every broker at a glance."""

from ariane.cli.operate.output import print_json, print_table
from ariane.cli.operate.session import Json, Namesrv, Profile, Session, Watch
from ariane.client.admin import Admin
from ariane.client.admin.brokers import BrokerStatus


def cluster(as_json: Json = False, watch: Watch = None, namesrv: Namesrv = None, profile: Profile = None) -> None:
    """Show clusters and brokers: roles, versions, rates, disks."""

    async def work(admin: Admin) -> None:
        brokers = await admin.brokers()
        if as_json:
            print_json([status_row(one) for one in brokers])
        else:
            show(brokers)

    Session(namesrv, profile).run(work, watch=watch)


def status_row(one: BrokerStatus) -> dict[str, object]:
    """A broker for programs."""
    return {
        "cluster": one.cluster,
        "name": one.name,
        "broker_id": one.broker_id,
        "address": one.address,
        "version": one.version,
        "in_tps": one.in_tps,
        "out_tps": one.out_tps,
        "disk": float(one.stats.get("commitLogDiskRatio") or 0),
        "error": one.error,
    }


def show(brokers: list[BrokerStatus]) -> None:
    """Print brokers as a table."""
    rows = [
        (one.cluster, one.name, "master" if one.broker_id == 0 else f"slave {one.broker_id}", one.address, one.version,
         one.in_tps, one.out_tps, f"{float(one.stats.get('commitLogDiskRatio') or 0):.0%}", one.error)
        for one in brokers
    ]  # fmt: skip
    head = ["cluster", "broker", "role", "address", "version", "in/s", "out/s", "disk", "error"]
    print_table(head, rows, "no broker is registered: is one running, with this name server?")
