"""Views in one line, and a small pure world in which decisions are carried out."""

import dataclasses
import datetime

from tests import builders
from tpuctl.engine import reconciling as engine
from tpuctl.engine.reconciling import churn
from tpuctl.model import declared, fleet, health, operations, reconciling, states, topology

NOW = builders.NOW
LONG_AGO = NOW - datetime.timedelta(days=1)
RESERVATION, BLOCK = "res", "b1"


def shape(text: str) -> topology.Topology:
    return topology.parse(text)


def want(name: str, *shapes: str, **more: object) -> declared.WantedSlice:
    return declared.WantedSlice(name=name, shapes=tuple(map(topology.parse, shapes)), **more)


def spec(*slices: declared.WantedSlice, blocks: tuple = (), **more: object) -> declared.FleetSpec:
    """A declared state; without blocks, slices may lie anywhere and no pools are made.

    Its breaker trips late: a few failures are much of a fleet as small as these.
    """
    more.setdefault("breaker", declared.Breaker(percent=100.0))
    reservations = (declared.ReservationSpec(name=RESERVATION, blocks=blocks),) if blocks else ()
    return declared.FleetSpec(name="f", slices=slices, reservations=reservations, **more)


def formed(*items: fleet.Slice, since: datetime.datetime = LONG_AGO) -> tuple[reconciling.Formed, ...]:
    return tuple(sorted(reconciling.Formed(item.name, item.uid, since) for item in items))


def memory(*ours: fleet.Slice, **more: object) -> reconciling.Memory:
    """Of a fleet that was observed before, with these slices formed by the loop."""
    plain = reconciling.Memory(fleet="f", spec_digest="d", observed_at=LONG_AGO, formed=formed(*ours))
    return dataclasses.replace(plain, **more)


def view(snapshot: fleet.Fleet, wanted: declared.FleetSpec, **more: object) -> engine.View:
    """Everything is observed, nothing is paused, the loop may act; slices of the fleet are ours."""
    values: dict[str, object] = {
        "spec_digest": "d",
        "memory": memory(*snapshot.slices),
        "blocks": (),
        "pools": tuple(cube.pool for cube in snapshot.cubes if cube.pool is not None),
        "policy": health.DEFAULT_POLICY,
        "pool_policy": "policy",
        "mode": declared.Mode.ACT,
    }
    return engine.View(snapshot=snapshot, spec=wanted, **(values | more))


def later(seen: engine.View, decision: reconciling.Decision, seconds: float = 30.0) -> engine.View:
    """The same world in the next cycle, with what was to be remembered."""
    now = seen.now + datetime.timedelta(seconds=seconds)
    return dataclasses.replace(
        seen, memory=decision.memory, snapshot=dataclasses.replace(seen.snapshot, observed_at=now)
    )


def done(seen: engine.View, decision: reconciling.Decision, seconds: float = 30.0) -> engine.View:
    """As `later`, when all that goes ahead was done and the world shows nothing of it."""
    known = churn.carried_out(decision.memory.churn, decision.to_do, seen.now)
    memory = dataclasses.replace(decision.memory, churn=known)
    return later(seen, dataclasses.replace(decision, memory=memory), seconds)


def lines(decision: reconciling.Decision) -> list[str]:
    """What goes ahead."""
    return [action.id for action in decision.to_do]


def second_look(seen: engine.View, seconds: float = 30.0) -> tuple[engine.View, reconciling.Decision]:
    """Look, and look again: what must be seen twice is acted on in the second."""
    again = later(seen, engine.decide(seen), seconds)
    return again, engine.decide(again)


def one(decision: reconciling.Decision, kind: reconciling.ActionKind) -> reconciling.Action:
    [found] = [action for action in decision.actions if action.kind is kind]
    return found


def guard(decision: reconciling.Decision, name: str) -> reconciling.Guard:
    [found] = [entry for entry in decision.guards if entry.name == name]
    return found


# -- changes ---------------------------------------------------------------------------------------------


def sick(cube: fleet.Cube) -> fleet.Cube:
    """Its label and one host say that it has failed."""
    hosts = tuple(
        host._replace(partition_states=(*host.partition_states[:-1], states.PartitionState.UNHEALTHY))
        for host in cube.hosts
    )
    made = dataclasses.replace(cube, hosts=hosts)
    return builders.changed(made, 0, ready=False, ready_since=LONG_AGO)


def unknown(cube: fleet.Cube) -> fleet.Cube:
    """No label says anything, and no kubelet reports."""
    hosts = tuple(
        host._replace(
            ready=None, partition_states=(states.PartitionState.UNKNOWN,) * len(topology.PARTITION_SHAPES)
        )
        for host in cube.hosts
    )
    return dataclasses.replace(cube, hosts=hosts)


def with_cubes(snapshot: fleet.Fleet, *changed: fleet.Cube) -> fleet.Fleet:
    by_id = {cube.id: cube for cube in changed}
    return snapshot.with_blocks(
        tuple(
            dataclasses.replace(block, cubes=tuple(by_id.get(cube.id, cube) for cube in block.cubes))
            for block in snapshot.blocks
        )
    )


def with_slices(snapshot: fleet.Fleet, *changed: fleet.Slice) -> fleet.Fleet:
    names = {item.name for item in changed}
    kept = tuple(item for item in snapshot.slices if item.name not in names)
    return dataclasses.replace(snapshot, slices=(*kept, *changed))


def failed(item: fleet.Slice, seconds_ago: float = 60.0, **more: object) -> fleet.Slice:
    since = NOW - datetime.timedelta(seconds=seconds_ago)
    plain = item._replace(state=states.SliceState.FAILED, reason="FAILED", ready="False", since=since)
    return plain._replace(**more)


def creation_failed(item: fleet.Slice, **more: object) -> fleet.Slice:
    state = states.SliceState.CREATION_FAILED
    return item._replace(state=state, reason="SliceCreationFailed", ready="False", **more)


def cubes(count: int, block: str = BLOCK, first: int = 0) -> list[fleet.Cube]:
    return [builders.cube(f"{block}-c{number:02}", block) for number in range(first, first + count)]


# -- hardware behind node pools --------------------------------------------------------------------------


def sub_block(number: int, **more: object) -> fleet.SubBlock:
    plain = fleet.SubBlock(f"sb{number:02}", f"phys{number:02}", "HEALTHY", 16, 0, 16, 0, status="READY")
    return plain._replace(**more)


def pool(number: int, status: str = "RUNNING") -> fleet.NodePool:
    return fleet.NodePool(
        name=f"cube-sb{number:02}",
        status=states.pool_status(status),
        raw_status=status,
        sub_block=f"sb{number:02}",
        block=BLOCK,
        reservation=RESERVATION,
        policy="policy",
        wanted_hosts=16,
    )


def bare(number: int, **more: object) -> fleet.Cube:
    """A sub-block without nodes."""
    return fleet.Cube(id=f"sb{number:02}", block=BLOCK, sub_block=sub_block(number), **more)


def with_pool(number: int, *, hosts: int = 16, status: str = "RUNNING", **more: object) -> fleet.Cube:
    """A cube with its node pool and sub-block; `more` is of the sub-block."""
    made = builders.cube(f"{BLOCK}-c{number:02}", BLOCK, hosts=hosts)
    nodes = tuple(host._replace(pool=f"cube-sb{number:02}") for host in made.hosts)
    return dataclasses.replace(
        made,
        id=made.id if nodes else f"sb{number:02}",
        hosts=nodes,
        pool=pool(number, status),
        sub_block=sub_block(number, **more),
    )


def reserved(*found: fleet.Cube) -> tuple[fleet.ReservedBlock, ...]:
    return (
        fleet.ReservedBlock(
            reservation=RESERVATION,
            name=BLOCK,
            physical_id=BLOCK,
            sub_blocks=tuple(cube.sub_block for cube in found if cube.sub_block is not None),
        ),
    )


def hardware(*found: fleet.Cube, slices: tuple = (), pods: tuple = ()) -> fleet.Fleet:
    made = builders.fleet_of(*found, slices=slices, pods=pods)
    return made.with_blocks(
        tuple(dataclasses.replace(block, name=block.id, reservation=RESERVATION) for block in made.blocks)
    )


# -- the world -------------------------------------------------------------------------------------------


def carried_out(seen: engine.View, decision: reconciling.Decision, seconds: float = 60.0) -> engine.View:
    """The world after everything that goes ahead has succeeded."""
    now = seen.now + datetime.timedelta(seconds=seconds)
    for action in decision.to_do:
        seen = _done(seen, action, now)
    snapshot = dataclasses.replace(seen.snapshot, observed_at=now)
    return dataclasses.replace(seen, snapshot=snapshot, memory=decision.memory)


def _done(seen: engine.View, action: reconciling.Action, now: datetime.datetime) -> engine.View:
    kind, snapshot = reconciling.ActionKind, seen.snapshot
    if action.kind is kind.FINISH:
        left = tuple(entry for entry in seen.operations if entry.id != action.target)
        return dataclasses.replace(seen, operations=left)
    if action.kind is kind.SWAP:
        item = snapshot.slices_by_name[action.target]
        old = {exchange.old for exchange in action.exchanges}
        new = {exchange.new for exchange in action.exchanges}
        parts = tuple(sorted({*item.partition_ids} - old | new))
        made = _active(item._replace(partition_ids=parts), now)
        return dataclasses.replace(seen, snapshot=with_slices(snapshot, made))
    if action.kind is kind.DEFORM:
        return dataclasses.replace(seen, snapshot=snapshot.without_slice(action.target))
    if action.pool is not None:
        return _with_pool(seen, action.pool)
    for forming in action.forming:
        item = builders.slice_of(forming.name, str(forming.topology), *forming.partition_ids)
        snapshot = with_slices(snapshot, _active(item, now))
    return dataclasses.replace(seen, snapshot=snapshot)


def _active(item: fleet.Slice, now: datetime.datetime) -> fleet.Slice:
    state = states.SliceState.ACTIVE
    uid = f"uid-{item.name}-{now:%d%H%M%S}"
    return item._replace(state=state, reason="ACTIVE", ready="True", uid=uid, created_at=now, since=now)


def _with_pool(seen: engine.View, made: fleet.PoolSpec) -> engine.View:
    number = int(made.sub_block.removeprefix("sb"))
    old = {f"sb{number:02}", f"{BLOCK}-c{number:02}"}
    blocks = tuple(
        dataclasses.replace(
            block,
            cubes=tuple(
                sorted(
                    (*(cube for cube in block.cubes if cube.id not in old), with_pool(number)),
                    key=lambda cube: cube.id,
                )
            ),
        )
        for block in seen.snapshot.blocks
    )
    pools = (*(found for found in seen.pools if found.name != made.name), pool(number))
    return dataclasses.replace(seen, snapshot=seen.snapshot.with_blocks(blocks), pools=pools)


def operation(
    item: fleet.Slice, kind: operations.Kind, intent: operations.Intent, **more: object
) -> operations.Operation:
    """An open one, begun a minute ago."""
    plain = operations.Operation(
        schema=operations.SCHEMA,
        id=f"{kind}-{item.name}-1f2e",
        kind=kind,
        slice_name=item.name,
        topology=item.topology or topology.CUBE,
        actor="jo",
        started_at=NOW - datetime.timedelta(minutes=1),
        intent=intent,
        old_uid=item.uid,
        old_partitions=item.partition_ids,
        partitions=item.partition_ids,
    )
    return dataclasses.replace(plain, **more)
