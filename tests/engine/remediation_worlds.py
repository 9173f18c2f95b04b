"""Worlds for tests of remediation, in one line each."""

import dataclasses
import datetime

from tests import builders
from tpuctl.engine import remediation
from tpuctl.model import declared, fleet, health, repairs, reserved, states

NOW = builders.NOW
ALLOW, RECOMMEND, OFF = declared.Permission.ALLOW, declared.Permission.RECOMMEND, declared.Permission.OFF
ACT = declared.Mode.ACT
Remedy, State = declared.Remedy, repairs.State
RUNNING = "RUNNING"


def ago(**span: float) -> datetime.datetime:
    return NOW - datetime.timedelta(**span)


def silent(cube_id: str = "c1", index: int = 3, *, since: datetime.datetime | None = None) -> fleet.Cube:
    """A cube with one host whose kubelet has not reported for an hour."""
    return builders.changed(builders.cube(cube_id), index, ready=None, ready_since=since or ago(hours=1))


def without_chips(cube_id: str = "c1", index: int = 3, chips: int = 3) -> fleet.Cube:
    return builders.changed(builders.cube(cube_id), index, chips=chips)


def name(cube_id: str = "c1", index: int = 3) -> str:
    return f"node-{cube_id}-{index:02}"


def spec(*slices: declared.WantedSlice, block: str = "b1", **policy: object) -> declared.FleetSpec:
    budgets = policy.pop("budgets", declared.Budgets())
    windows = policy.pop("windows", ())
    return declared.FleetSpec(
        name="test",
        reservations=(declared.ReservationSpec(name="r", blocks=(declared.BlockSpec(name=block),)),),
        slices=slices,
        budgets=budgets,
        windows=windows,
        remediation=dataclasses.replace(declared.Remediation(), **policy),
    )


def world(
    *cubes: fleet.Cube,
    vms: dict[str, str] | None = None,
    rungs: tuple[repairs.Rung, ...] = (),
    sightings: tuple[repairs.Sighting, ...] = (),
    claims: tuple = (),
    mode: declared.Mode = ACT,
    fleet_spec: declared.FleetSpec | None = None,
    at: datetime.datetime = NOW,
    slices: tuple = (),
    pods: tuple = (),
) -> remediation.World:
    """All VMs run unless `vms` says otherwise."""
    snapshot = builders.fleet_of(*cubes, slices=slices, pods=pods)
    snapshot = dataclasses.replace(snapshot, observed_at=at, claims=claims)
    known = {host.name: RUNNING for cube in cubes for host in cube.hosts}
    return remediation.World(
        snapshot=snapshot,
        spec=fleet_spec or spec(),
        policy=health.DEFAULT_POLICY,
        mode=mode,
        ledger=repairs.Ledger(rungs=rungs, sightings=sightings),
        vms=known if vms is None else vms,
    )


def cases(given: remediation.World, cube_id: str = "c1") -> tuple[repairs.Case, ...]:
    return remediation.examine(given, given.snapshot.cubes_by_id[cube_id]).cases


def remedies(given: remediation.World, cube_id: str = "c1") -> list[tuple[str, str]]:
    return [(str(case.remedy), case.host or case.slice or case.pool) for case in cases(given, cube_id)]


def says(given: remediation.World, cube_id: str = "c1") -> str:
    return "; ".join(remediation.examine(given, given.snapshot.cubes_by_id[cube_id]).says)


def rung(
    remedy: Remedy,
    state: State = State.FAILED,
    *,
    at: datetime.datetime | None = None,
    cube: str = "c1",
    host: str | None = None,
    item: str = "r-1",
) -> repairs.Rung:
    ailment = repairs.Ailment.HOST_SILENT
    return repairs.Rung(
        item, cube, name(cube) if host is None else host, ailment, remedy, state, at or ago(hours=2), "why"
    )


def with_pool(
    cube: fleet.Cube, *, status: states.PoolStatus = states.PoolStatus.RUNNING, healthy: int | None = 16
) -> fleet.Cube:
    """The cube with its node pool and its sub-block, of whose hosts so many are healthy."""
    pool = fleet.NodePool(f"pool-{cube.id}", status, str(status), f"sub-{cube.id}", cube.block, "r", "p", 16)
    degraded = None if healthy is None else 16 - healthy
    word = "HEALTHY" if healthy == 16 else "DEGRADED"
    sub_block = reserved.SubBlock(
        f"sub-{cube.id}", f"phys-{cube.id}", word, healthy, degraded, 16, len(cube.hosts)
    )
    return dataclasses.replace(cube, pool=pool, sub_block=sub_block)


def opened(given: remediation.World) -> repairs.Item:
    """The one item that is proposed there."""
    [item] = remediation.review(given, []).opened
    return item


def approved(item: repairs.Item) -> repairs.Item:
    yes = repairs.Approval("jo", item.proposed_at)
    return dataclasses.replace(item, state=State.APPROVED, approvals=(yes,))


def running(item: repairs.Item, step: repairs.Step, **changes: object) -> repairs.Item:
    return dataclasses.replace(item, state=State.RUNNING, step=step, step_at=NOW, started_at=NOW, **changes)


def one(given: remediation.World, item: repairs.Item, signs: remediation.Signs | None = None) -> repairs.Item:
    """The item after a review."""
    found = remediation.review(given, [item], {} if signs is None else {item.id: signs})
    changed = {new.id: new for new in found.changed}
    return changed.get(item.id, item)
