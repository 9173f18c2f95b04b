"""What an action relies on, so that a plan made earlier can be compared with the world of now.

Only what matters goes into a fingerprint: who holds a cube and its verdict, which cubes a slice has and
whether it is up. Heartbeats, revisions and the ages of things do not.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from tpuctl.engine import health
from tpuctl.engine.health import verdicts
from tpuctl.model import codec, reconciling, states, topology

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tpuctl.engine.reconciling.view import View
    from tpuctl.model import fleet, operations

Fact = reconciling.Fact
_DIGITS = 12
_DOWN = frozenset({states.SliceState.FAILED, states.SliceState.DEACTIVATING})


def facts_of(view: View, action: reconciling.Action) -> tuple[Fact, ...]:
    """Everything that must still be so when the action begins."""
    return tuple(_fact(view, kind, name) for kind, name in dict.fromkeys(_subjects(view, action)))


def drift(view: View, actions: Sequence[reconciling.Action]) -> tuple[str, ...]:
    """One sentence for each fact that is otherwise in `view`; empty if all are as they were."""
    known = dict.fromkeys(fact for action in actions for fact in action.facts)
    found = []
    for fact in known:
        now = _fact(view, fact.kind, fact.name).fingerprint
        if now != fact.fingerprint:
            found.append(f"{fact.kind} {fact.name}: {_told(fact.fingerprint)} then, {_told(now)} now")
    return tuple(found)


def digest(actions: Sequence[reconciling.Action]) -> str:
    """Digest of what is to be done and of all that it relies on."""
    text = json.dumps([codec.encode(action) for action in actions], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _subjects(view: View, action: reconciling.Action) -> Iterator[tuple[str, str]]:
    yield "spec", view.spec.name
    for operation in view.operations:
        if action.kind is reconciling.ActionKind.FINISH and operation.id == action.target:
            yield "operation", operation.id
            yield "slice", operation.slice_name
            return
    if action.pool is not None:
        yield "pool", action.pool.name
        yield "cube", _cube_of_pool(view, action.pool)
        return
    yield from (("slice", name) for name in slices_of(action))
    for exchange in action.exchanges:
        yield "cube", exchange.old
        yield "cube", exchange.new
    for forming in action.forming:
        yield from (("cube", partition_id) for partition_id in forming.partition_ids)


def slices_of(action: reconciling.Action) -> tuple[str, ...]:
    """Names of the slices that it makes or takes apart."""
    named = tuple(forming.name for forming in action.forming)
    return named or (action.target,)


def _cube_of_pool(view: View, pool: fleet.PoolSpec) -> str:
    cube = view.cube_of_pool.get(pool.name)
    return pool.sub_block if cube is None else cube.id


def _fact(view: View, kind: str, name: str) -> Fact:
    if kind == "spec":
        return Fact(kind, name, view.spec_digest)
    if kind == "slice":
        return Fact(kind, name, _slice(view.snapshot.slices_by_name.get(name)))
    if kind == "operation":
        return Fact(kind, name, _operation(view.operations_by_id.get(name)))
    if kind == "pool":
        return Fact(kind, name, _pool(view, name))
    return Fact(kind, name, _cube(view, name))


def _slice(item: fleet.Slice | None) -> str:
    if item is None:
        return ""
    owner = f" of {item.owner}" if item.owner is not None else ""
    return f"{item.uid} {_phase(item)} on {_short(item.partition_ids)}{owner}"


def _phase(item: fleet.Slice) -> str:
    """Coarse on purpose: ACTIVE and ACTIVE_DEGRADED come and go."""
    if item.deleting:
        return "leaving"
    if item.state.is_ready:
        return "up"
    return "down" if item.state in _DOWN else str(item.state)


def _short(partition_ids: tuple[str, ...]) -> str:
    """Equal sets are equal slices."""
    text = "\n".join(sorted(partition_ids))
    return f"{len(partition_ids)} partitions #{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"


def _operation(operation: operations.Operation | None) -> str:
    if operation is None:
        return ""
    return f"{operation.intent}{' aborting' if operation.aborting else ''} {_short(operation.partitions)}"


def _pool(view: View, name: str) -> str:
    pool = view.pools_by_name.get(name)
    if pool is None:
        return ""
    cube = view.cube_of_pool.get(name)
    return f"{pool.status} for {pool.sub_block or pool.block}, {len(cube.hosts) if cube else 0} nodes"


def _cube(view: View, cube_id: str) -> str:
    cube = view.snapshot.cubes_by_id.get(cube_id)
    if cube is None:
        return _part(view, cube_id)
    verdict = verdicts.of(cube, view.policy, view.now).verdict
    holders = ",".join(sorted(view.holders.get(cube_id, ()))) or "nobody"
    claims = ",".join(sorted(view.occupied.claimants.get(cube_id, ()))) if view.occupied.claims else ""
    return f"{verdict} held by {holders}" + (f", claimed: {claims}" if claims else "")


def _part(view: View, partition_id: str) -> str:
    """A partition smaller than a cube: who has its hosts; others in the cube do not matter."""
    cube = view.snapshot.cubes_by_id.get(view.snapshot.cube_of_partition.get(partition_id, ""))
    if cube is None:
        return ""
    hosts = tuple(host for host in cube.hosts if partition_id in host.partition_ids)
    shape = next(
        shape
        for shape, found in zip(topology.PARTITION_SHAPES, hosts[0].partition_ids, strict=True)
        if found == partition_id
    )
    verdict = health.judge_part(hosts, shape, view.policy, view.now).verdict
    names = {host.name for host in hosts}
    slices = view.snapshot.slices_by_name
    holders = sorted(
        name
        for name in view.holders.get(cube.id, ())
        if names.intersection(host.name for host in view.snapshot.hosts_of(slices[name]))
    )
    held = ", on hold" if cube.id in view.held_cubes else ""
    return f"{verdict} held by {','.join(holders) or 'nobody'}{held}"


def _told(fingerprint: str) -> str:
    return fingerprint or "not there"
