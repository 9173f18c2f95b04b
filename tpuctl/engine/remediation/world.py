"""What a review knows."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from tpuctl.engine import health, leftovers
from tpuctl.engine.health import hosts as host_evidence
from tpuctl.model import fleet, repairs, states, topology

if TYPE_CHECKING:
    import datetime
    from collections.abc import Mapping

    from tpuctl.model import declared
    from tpuctl.model import health as health_values

_HEALTHY = (states.PartitionState.HEALTHY,) * len(topology.PARTITION_SHAPES)


@dataclasses.dataclass(frozen=True, kw_only=True)
class World:
    """One moment: the fleet from all its sources, what is declared, and what was done lately."""

    snapshot: fleet.Fleet
    spec: declared.FleetSpec
    policy: health_values.HealthPolicy
    mode: declared.Mode
    ledger: repairs.Ledger = dataclasses.field(default_factory=repairs.Ledger)
    vms: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """Host -> status of its VM as the Compute API wrote it, empty if there is no such VM. A host that is not
    here was not asked about, or the answer did not come: how its VM is, is not known."""

    @property
    def now(self) -> datetime.datetime:
        return self.snapshot.observed_at

    @functools.cached_property
    def troubled(self) -> tuple[fleet.Cube, ...]:
        """Cubes of which anything is said that is not plainly good; nearly all are left out cheaply."""
        return self.snapshot.derived(_troubled)

    @functools.cached_property
    def blocks(self) -> Mapping[str, fleet.Block]:
        return {block.id: block for block in self.snapshot.blocks}

    @functools.cached_property
    def declared_blocks(self) -> Mapping[str, declared.BlockSpec]:
        return {block.name: block for block in self.spec.blocks}

    @functools.cached_property
    def wanted(self) -> Mapping[str, declared.WantedSlice]:
        return {name: entry for entry in self.spec.slices for name in entry.slice_names}

    @functools.cached_property
    def room(self) -> fleet.Fleet:
        """The fleet as placement sees it."""
        return leftovers.with_leftovers(self.snapshot)

    @functools.cached_property
    def _judged(self) -> dict[str, health_values.Judgement]:
        return {}

    def judgement(self, cube: fleet.Cube) -> health_values.Judgement:
        """Of one cube, with the slices on it as witnesses; made once."""
        if cube.id not in self._judged:
            holders = [self.snapshot.slices_by_name[name] for name in self.snapshot.holders.get(cube.id, ())]
            self._judged[cube.id] = health.judge(cube, self.policy, self.now, slices=holders)
        return self._judged[cube.id]

    def cube_of(self, case: repairs.Case) -> fleet.Cube | None:
        """The cube of a case: by its id, or by the name of the hardware once its nodes are gone."""
        found = self.snapshot.cubes_by_id.get(case.cube)
        if found is None and case.sub_block:
            found = self._by_sub_block.get(case.sub_block)
        return found

    @functools.cached_property
    def _by_sub_block(self) -> Mapping[str, fleet.Cube]:
        return {cube.sub_block.name: cube for cube in self.snapshot.cubes if cube.sub_block is not None}

    def block_spec(self, cube: fleet.Cube) -> declared.BlockSpec | None:
        """What the fleet file says of the cube's block; None if it does not name it."""
        block = self.blocks[cube.block]
        return self.declared_blocks.get(block.name) or self.declared_blocks.get(block.id)

    def sighted(self, kind: str, subject: str) -> datetime.datetime | None:
        """Since when something has been seen in every review."""
        return self._sightings.get((kind, subject))

    @functools.cached_property
    def _sightings(self) -> Mapping[tuple[str, str], datetime.datetime]:
        return {(entry.kind, entry.subject): entry.since for entry in self.ledger.sightings}


def _troubled(snapshot: fleet.Fleet) -> tuple[fleet.Cube, ...]:
    return tuple(cube for cube in snapshot.cubes if not is_plain(cube))


def is_plain(cube: fleet.Cube) -> bool:
    """If true, every source says that all is well with the cube, as nearly all cubes do at all times."""
    pool, sub_block = cube.pool, cube.sub_block
    if len(cube.hosts) != topology.HOSTS_PER_CUBE:
        return cube.pool is None and not cube.hosts
    if pool is not None and pool.status is not states.PoolStatus.RUNNING:
        return False
    if sub_block is not None and not _is_plain_hardware(sub_block):
        return False
    return all(host.partition_states == _HEALTHY and host_evidence.is_quiet(host) for host in cube.hosts)


def _is_plain_hardware(sub_block: fleet.SubBlock) -> bool:
    return (
        sub_block.health == "HEALTHY"
        and not sub_block.degraded_hosts
        and not sub_block.degraded_infra
        and sub_block.maintenance is None
        and sub_block.maintenance_start is None
    )
