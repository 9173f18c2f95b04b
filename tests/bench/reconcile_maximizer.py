"""The maximizer, carried out on the simulator: its decisions by its policy, its deeds by real calls.

The simulator, like GKE with this machine type, makes node pools of one cube each. A static pool of several
cubes is played by pools of its cubes that are made and deleted together, which takes as long as one operation
(the published 10-30 min) and is counted as one; the Slice over them stands for the links that a static pool
came with, is not counted, and costs it some 40 s. Hours for a recovery are not put in: what comes out is the
wait for the loop, a deletion, a creation, and hosts that are not back. It flatters the published.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import TYPE_CHECKING

from tpuctl.engine import maximizer
from tpuctl.model import errors, fleet, names, topology
from tpuctl.ops import context, operations, ports, waiting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from tests.bench.reconcile_stage import Stage

LOOK_AFTER_EVENT = 2
"""Rounds after a failure or repair before time is skipped: labels follow the hardware late."""
_DAY_S = 86_400.0


class Quiet:
    """A Reporter that says nothing."""

    def step(self, text: str) -> None: ...

    def progress(self, done: int, total: int, text: str) -> None: ...

    def warn(self, text: str) -> None: ...

    def going_on(self, text: str) -> None: ...


class Maximizer:
    """The loop for one run."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._ports = stage.scene.ports
        self._settings = maximizer.Settings(times=stage.run.times, halves=False)
        self._static: dict[str, int] = {}
        """Node pool of a cube -> number of the static pool that it is a part of."""
        self._serial = 0
        self.pool_operations_s: list[float] = []
        self.rounds = 0

    def play(self) -> None:
        """Round after round until the end; rounds that could change nothing are skipped."""
        every_s, calm = float(self._stage.run.times.loop_s), 0
        while (now_s := self._stage.now_s) < self._stage.run.horizon_s:
            event_s = self._stage.next_event_s()
            calm = 0 if self._round() else calm + 1
            next_s = (self._stage.now_s // every_s + 1) * every_s
            if event_s <= self._stage.now_s:
                calm = 0
            elif calm > LOOK_AFTER_EVENT:
                next_s = max(next_s, event_s // every_s * every_s + every_s)
                calm = 0
            assert next_s > now_s
            self._stage.wait_until(min(next_s, self._stage.run.horizon_s))

    def _round(self) -> bool:
        """One turn; true if it changed anything."""
        self.rounds += 1
        snapshot = self._ports.fleet.observe(tuple(fleet.SourceName))
        turn = maximizer.decide(snapshot, self._stage.spec, self._settings)
        self._delete(snapshot, turn)
        makes = [(change, shape) for change in turn.changes if (shape := change.shape) is not None]
        self._create(snapshot, [change for change, _ in makes])
        for change, shape in makes:
            self._form(change.target, shape, [_pool_name(snapshot, cube) for cube in change.cubes])
        for name, pool in turn.uses:
            self._use(snapshot, name, pool)
        self._stage.users()
        return bool(turn.changes or turn.uses)

    # -- deeds -------------------------------------------------------------------------------------------

    def _delete(self, snapshot: fleet.Fleet, turn: maximizer.Round) -> None:
        """Everything that goes, at once: unhealthy pools, and those that are merged."""
        unwell = [change.target for change in turn.changes if change.shape is None]
        unwell += [name for change in turn.changes for name in change.merged]
        cubes = [cube for name in unwell for cube in self._cubes_of(snapshot, name)]
        pools = sorted({_pool_name(snapshot, cube.id) for cube in cubes})
        gone_together = {self._static.pop(pool, pool) for pool in pools}
        self.pool_operations_s += [self._stage.now_s] * len(gone_together)
        ids = {cube.id for cube in cubes}
        hit = [item for item in snapshot.slices if ids & {cube.id for cube in snapshot.cubes_of(item)}]
        self._stage.end_jobs(item.name for item in hit)
        for item in hit:
            self._ports.slices.delete(item.name, uid=item.uid)
            waiting.until_gone(self._ports, Quiet(), item.name, uid=item.uid)
        self._run(functools.partial(self._ports.pools.delete, pool) for pool in pools)

    @staticmethod
    def _cubes_of(snapshot: fleet.Fleet, name: str) -> tuple[fleet.Cube, ...]:
        """Cubes of a static pool: it has the slice's name, or the node pool's if there is no slice on it."""
        item = snapshot.slices_by_name.get(name)
        if item is not None:
            return snapshot.cubes_of(item)
        return tuple(
            cube
            for cube in snapshot.cubes
            if (cube.pool is not None and cube.pool.name == name) or any(h.pool == name for h in cube.hosts)
        )

    def _create(self, snapshot: fleet.Fleet, makes: Iterable[maximizer.Change]) -> None:
        calls = []
        for change in makes:
            self._serial += 1
            self.pool_operations_s.append(self._stage.now_s)
            for cube_id in change.cubes:
                self._static[_pool_name(snapshot, cube_id)] = self._serial
                calls.append(functools.partial(self._ports.pools.create, _pool_spec(snapshot, cube_id)))
        self._run(calls)

    def _run(self, calls: Iterable[Callable[[], ports.Operation]]) -> None:
        """Node-pool operations side by side. One that fails is the next round's business."""
        begun = [operations.start(self._deadline(), Quiet(), call) for call in calls]
        if begun:
            # They take so long: nothing is gained by looking before.
            self._ports.clock.sleep(self._stage.run.times.pool_s)
        for operation in begun:
            with contextlib.suppress(errors.TpuctlError):
                operations.finish(self._ports, self._deadline(), self._ports.pools.operation(operation.name))

    def _use(self, snapshot: fleet.Fleet, name: str, pool: str) -> None:
        cubes = self._cubes_of(snapshot, pool)
        shapes = next(entry.shapes for entry in self._stage.spec.slices if name in entry.slice_names)
        shape = next(one for one in shapes if one.is_sub_slice or one.cubes == len(cubes))
        self._form(name, shape, [_pool_name(snapshot, cube.id) for cube in cubes])

    def _form(self, name: str, shape: topology.Topology, pools: Sequence[str]) -> None:
        """The links of a static pool. If a host has died meanwhile there are none; the next round sees it."""
        snapshot = self._ports.fleet.observe((fleet.SourceName.NODES,))
        found = [cube for cube in snapshot.cubes if cube.hosts and cube.hosts[0].pool in pools]
        if len(found) < len(pools) or any(cube.ready_hosts < topology.HOSTS_PER_CUBE for cube in found):
            return
        ids = [cube.id for cube in found]
        if shape.is_sub_slice:
            ids = [next(part.id for part in found[0].partitions if part.shape == shape)]
        made = self._ports.slices.create(ports.SliceSpec(name, shape, tuple(sorted(ids))))
        deadline = waiting.Deadline.after(self._ports.clock, waiting.DEFAULT_TIMEOUT_S)
        while (item := self._ports.slices.get(name)) is not None and item.uid == made.uid:
            if item.state.is_ready or item.state.is_failed or not deadline.pause(5.0):
                return

    def _deadline(self) -> waiting.Deadline:
        return waiting.Deadline.after(self._ports.clock, _DAY_S)


def _pool_name(snapshot: fleet.Fleet, cube_id: str) -> str:
    """The node pool of a cube, whether it is there or not; ids of cubes change when their nodes appear."""
    sub_block = snapshot.cubes_by_id[cube_id].sub_block
    assert sub_block is not None
    return names.pool_name(sub_block.name)


def _pool_spec(snapshot: fleet.Fleet, cube_id: str) -> fleet.PoolSpec:
    cube = snapshot.cubes_by_id[cube_id]
    block = next(block for block in snapshot.blocks if block.id == cube.block)
    assert cube.sub_block is not None
    return fleet.PoolSpec(
        _pool_name(snapshot, cube_id),
        block.reservation,
        block.name,
        cube.sub_block.name,
        context.DEFAULT_POLICY,
    )


@dataclasses.dataclass(frozen=True)
class Counted:
    """What a policy did."""

    pool_operations_s: Sequence[float]
    """Times of creations and deletions of node pools."""
    slice_operations_s: Sequence[float]
    cycles: int


def play(stage: Stage) -> Counted:
    """Run it to the horizon."""
    loop = Maximizer(stage)
    loop.play()
    return Counted(loop.pool_operations_s, (), loop.rounds)
