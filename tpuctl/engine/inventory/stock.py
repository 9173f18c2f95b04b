"""The index: what is free in each block, and who has the rest.

Built in one pass over a Fleet; afterwards taking, releasing, failing and repairing cost what the slice or
cube costs, whatever the size of the fleet. Blocks and cubes are numbered in the order of their ids, so that
"the first" is the same in every run.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine.health import verdicts
from tpuctl.engine.inventory import counting, entries, leaving, obstacles, shelves, tiers, tree
from tpuctl.model import health as health_values
from tpuctl.model import states, topology

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from tpuctl.model import fleet

Obstacle = obstacles.Obstacle
_ALL = (1 << topology.HOSTS_PER_CUBE) - 1
HostCount = entries.HostCount
Slot = entries.Slot


@dataclasses.dataclass(frozen=True, kw_only=True)
class Terms:
    """What makes two indexes of one fleet different."""

    policy: health_values.HealthPolicy = health_values.DEFAULT_POLICY
    allow_degraded: bool = False
    slice_name: str = ""
    """The slice whose claims do not stand in its own way."""


Receipt = tuple[tuple[Slot, int], ...]
"""What a slice had: cubes, and its hosts in each."""


class Stock:
    """See the module."""

    def __init__(self, snapshot: fleet.Fleet, terms: Terms) -> None:
        self.terms = terms
        self.now = snapshot.observed_at
        blocks = sorted(snapshot.blocks, key=lambda block: block.id)
        self.blocks: tuple[str, ...] = tuple(block.id for block in blocks)
        self.number_of_block = {block_id: number for number, block_id in enumerate(self.blocks)}
        self.slots: list[list[Slot]] = []
        self.slot_of_cube: dict[str, Slot] = {}
        self.free: list[int] = [0] * len(blocks)
        """Cubes of each block that a slice of whole cubes can take, as bits."""
        self.held: dict[str, list[Slot]] = {}
        """Slice -> cubes of which it has hosts."""
        self._whole = shelves.BlockShelves()
        self._tiers = tiers.Tiers(len(blocks)) if terms.allow_degraded else None
        """None where all free cubes are healthy."""
        self._parts: dict[topology.Topology, shelves.CubeShelves] | None = None
        self._cached: dict[tuple[int, topology.Topology], counting.Candidate] = {}
        self._cube_of_part: Mapping[str, str] | None = None
        """Made when a part is asked for; the snapshot's own table, if one of its slices has parts."""
        for number, block in enumerate(blocks):
            self._add_block(number, block)
        if any(part not in self.slot_of_cube for item in snapshot.slices for part in item.partition_ids):
            self._cube_of_part = snapshot.cube_of_partition
        for item in snapshot.slices:
            self._note_slice(item)
        for claim in snapshot.claims:
            if not claim.slice_name or claim.slice_name != terms.slice_name:
                slot = self.slot_of(claim.cube_id)
                if slot is not None:
                    slot.claims = (*slot.claims, claim.holder)
        for number, slots in enumerate(self.slots):
            self._whole.put(number, 0)
            self._set_free(number, sum(1 << slot.number for slot in slots if slot.whole_obstacle is None))

    # -- asking ------------------------------------------------------------------------------------------

    def best_block(self, cubes: int, *, keep_free: int = 0) -> int | None:
        """The block with the fewest free cubes that suffice; `keep_free` healthy ones must be left over.

        Where degraded cubes may be taken, they come first (see `tiers`).
        """
        if self._tiers is not None:
            return self._tiers.best(cubes, keep_free)
        return self._whole.best(cubes + keep_free)

    def pick(self, block: int, cubes: int, count: int) -> int:
        """The first `count` of some free cubes of a block (bits), degraded ones before healthy ones."""
        if self._tiers is not None:
            return self._tiers.pick(block, cubes, count)
        return shelves.first(cubes, count)

    def order(self, block: int, cubes: int, count: int) -> tuple[int, int]:
        """Where a block with these cubes stands among blocks that all have `count`; the least is best."""
        return (0, cubes.bit_count()) if self._tiers is None else self._tiers.order(block, cubes, count)

    def healthy(self, block: int) -> int:
        """The free cubes of a block, as bits, that are worth keeping as spares."""
        free = self.free[block]
        return free if self._tiers is None else self._tiers.of(block, free)[1]

    @property
    def largest(self) -> int:
        """Cubes of the largest slice that fits now."""
        return self._whole.most

    def best_part(
        self,
        shape: topology.Topology,
        block: int | None = None,
        *,
        only_spoiled: bool = False,
        avoid: int = 0,
    ) -> tuple[Slot, tree.Part] | None:
        """The partition for a sub-slice, in the cube of the lowest rank: the tightest piece there.

        `only_spoiled` leaves whole healthy cubes alone, `avoid` the cubes with these numbers (bits).
        """
        parts = self._part_shelves()
        below = entries.FIRST_WHOLE if only_spoiled else None
        while True:
            found = parts[shape].best(block, below=below, avoid=avoid)
            if found is None:
                return None
            slot = self.slots[found[0]][found[1]]
            part = self.tree_of(slot).best(shape, slot.used)
            if part is not None:
                return slot, part
            # Shelved on trust; its labels tell that there is no such partition.
            self._reshelve(slot)

    def pieces(self, block: int, shape: topology.Topology) -> Iterator[tuple[Slot, str, counting.Piece]]:
        """Everything of a block that could be taken for a shape, with its id and what stands in the way."""
        for slot in self.slots[block]:
            if not shape.is_sub_slice:
                holders = tuple(sorted(slot.holders)) if slot.cube.has_nodes else ()
                yield slot, slot.cube.id, counting.Piece(slot.whole_obstacle, holders, slot.claims)
                continue
            for part in self.tree_of(slot).parts[shape]:
                holders = tuple(sorted(name for name, hosts in slot.holders.items() if hosts & part.hosts))
                obstacle = Obstacle.IN_USE if holders else part.obstacle
                if obstacle is None and slot.claims:
                    obstacle = obstacles.of_claims(slot.claims)
                yield slot, part.id, counting.Piece(obstacle, holders, slot.claims)

    def candidate(self, block: int, shape: topology.Topology) -> counting.Candidate:
        """How a block stands for a shape; remembered until the block changes."""
        key = (block, shape if shape.is_sub_slice else topology.CUBE)
        found = self._cached.get(key)
        if found is None:
            pieces = [piece for _, _, piece in self.pieces(block, key[1])]
            found = self._cached[key] = counting.candidate_of(self.blocks[block], pieces)
        return found

    def hosts(self, slot: Slot) -> HostCount:
        """Free, used and broken hosts of a cube."""
        used = slot.used
        usable = self.tree_of(slot).usable_hosts() & ~used
        free = 0 if slot.claims else usable.bit_count()
        taken = used.bit_count() + (usable.bit_count() if slot.claims else 0)
        return HostCount(free, taken, topology.HOSTS_PER_CUBE - free - taken)

    def tree_of(self, slot: Slot) -> tree.Tree:
        if slot.tree is None:
            slot.tree = tree.Tree(
                slot.cube,
                self.terms.policy,
                self.now,
                allow_degraded=self.terms.allow_degraded,
                leaving=slot.leaving,
            )
        return slot.tree

    # -- changing ----------------------------------------------------------------------------------------

    def take(self, name: str, block: int, cubes: int) -> tuple[str, ...]:
        """Give whole cubes (bits) of a block to a slice; their ids in order."""
        slots = self.slots[block]
        taken = [slots[number] for number in shelves.members(cubes)]
        for slot in taken:
            slot.holders[name] = _ALL
        self.held[name] = [*self.held.get(name, ()), *taken]
        self._set_free(block, self.free[block] & ~cubes)
        self._changed(taken)
        return tuple(slot.cube.id for slot in taken)

    def take_part(self, name: str, slot: Slot, part: tree.Part) -> None:
        """Give a partition to a slice."""
        slot.holders[name] = slot.holders.get(name, 0) | part.hosts
        self.held[name] = [*self.held.get(name, ()), slot]
        self._refresh([slot])

    def take_ids(self, name: str, partition_ids: Iterable[str]) -> None:
        """Give partitions to a slice by their ids, whoever else may have them; unknown ones are left out."""
        taken = []
        for partition_id in partition_ids:
            slot = self.slot_of(partition_id)
            if slot is not None:
                slot.holders[name] = slot.holders.get(name, 0) | _hosts_with(slot.cube, partition_id)
                taken.append(slot)
        self.held[name] = [*self.held.get(name, ()), *taken]
        self._refresh(taken)

    def release(self, name: str) -> Receipt:
        """Take everything back from a slice; a name that has nothing is no error."""
        slots = self.held.pop(name, [])
        receipt = tuple((slot, slot.holders.pop(name)) for slot in slots if name in slot.holders)
        self._refresh(slots)
        return receipt

    def restore(self, name: str, receipt: Receipt) -> None:
        """Undo a release."""
        for slot, hosts in receipt:
            slot.holders[name] = hosts
        if receipt:
            self.held[name] = [slot for slot, _ in receipt]
        self._refresh(slot for slot, _ in receipt)

    def replace(self, cube: fleet.Cube) -> None:
        """Look at a cube again: it failed, or was repaired."""
        slot = self.slot_of_cube[cube.id]
        slot.cube, slot.tree = cube, None
        self._judge(slot)
        self._refresh([slot])

    def claim(self, cube_id: str, holders: tuple[str, ...]) -> None:
        """Set who keeps a cube from being given to anybody new; nobody, if empty."""
        slot = self.slot_of_cube[cube_id]
        slot.claims = holders
        self._refresh([slot])

    # -- inside ------------------------------------------------------------------------------------------

    def _add_block(self, number: int, block: fleet.Block) -> None:
        slots = [
            Slot(cube, number, position)
            for position, cube in enumerate(sorted(block.cubes, key=lambda cube: cube.id))
        ]
        for slot in slots:
            self._judge(slot)
            self.slot_of_cube[slot.cube.id] = slot
        self.slots.append(slots)

    def _judge(self, slot: Slot) -> None:
        cube = slot.cube
        judgement = verdicts.passing(cube, self.terms.policy, self.now)
        verdict = judgement.verdict
        flawed = verdict is not states.Verdict.HEALTHY
        slot.leaving = leaving.verdict(cube, judgement) if flawed else None
        slot.spoiled = flawed and slot.leaving is None
        if self._tiers is not None:
            self._tiers.judge(slot.block, slot.number, flawed=flawed, leaving=slot.leaving is not None)
        if not cube.has_nodes:
            slot.obstacle = Obstacle.NO_NODES
        else:
            slot.obstacle = obstacles.of_health(verdict, cube.hosts, allow_degraded=self.terms.allow_degraded)

    def _note_slice(self, item: fleet.Slice) -> None:
        for partition_id in item.partition_ids:
            slot = self.slot_of(partition_id)
            if slot is None:
                continue
            hosts = _hosts_with(slot.cube, partition_id)
            slot.holders[item.name] = slot.holders.get(item.name, 0) | hosts
            held = self.held.setdefault(item.name, [])
            if slot not in held[-1:]:
                held.append(slot)

    def slot_of(self, partition_id: str) -> Slot | None:
        """The cube of a partition id of any shape; the table of all ids is made when one is not a cube's."""
        slot = self.slot_of_cube.get(partition_id)
        if slot is not None:
            return slot
        if self._cube_of_part is None:
            self._cube_of_part = {
                found: cube_id
                for cube_id, slot in self.slot_of_cube.items()
                for host in slot.cube.hosts
                for found in host.partition_ids
                if found
            }
        return self.slot_of_cube.get(self._cube_of_part.get(partition_id, ""))

    def _set_free(self, block: int, free: int) -> None:
        before = self.free[block]
        if free != before:
            self.free[block] = free
            self._whole.move(block, before.bit_count(), free.bit_count())
        if self._tiers is not None:
            self._tiers.set_free(block, free)

    def _refresh(self, slots: Iterable[Slot]) -> None:
        slots = list(slots)
        for slot in slots:
            bit = 1 << slot.number
            free = self.free[slot.block]
            self._set_free(slot.block, free | bit if slot.whole_obstacle is None else free & ~bit)
        self._changed(slots)

    def _changed(self, slots: Iterable[Slot]) -> None:
        for slot in slots:
            if self._parts is not None:
                self._reshelve(slot)
        for block in {slot.block for slot in slots}:
            for shape in topology.PARTITION_SHAPES:
                self._cached.pop((block, shape), None)

    # -- shelves for sub-slices --------------------------------------------------------------------------

    def _part_shelves(self) -> dict[topology.Topology, shelves.CubeShelves]:
        """Made when the first sub-slice is asked for."""
        if self._parts is None:
            self._parts = {shape: shelves.CubeShelves() for shape in topology.SUB_SLICE_SHAPES}
            for slots in self.slots:
                for slot in slots:
                    self._shelve(slot, trusted=True)
        return self._parts

    def _shelve(self, slot: Slot, *, trusted: bool) -> None:
        """Put a cube where it belongs; an untouched healthy one is believed to have all partitions."""
        assert self._parts is not None  # noqa: S101 - the only caller has made them
        slot.rank = {}
        used = slot.used
        if slot.claims or not slot.cube.has_nodes or used == _ALL:
            return
        if trusted and not used and not slot.spoiled and slot.obstacle is None and slot.leaving is None:
            rank = slot.rank_with(topology.HOSTS_PER_CUBE)
            shapes: Iterable[topology.Topology] = topology.SUB_SLICE_SHAPES
        else:
            partitions = self.tree_of(slot)
            free = (partitions.usable_hosts() & ~used).bit_count()
            rank = slot.rank_with(free)
            shapes = [shape for shape in topology.SUB_SLICE_SHAPES if partitions.has_free(shape, used)]
        for shape in shapes:
            slot.rank[shape] = rank
            self._parts[shape].put(slot.block, slot.number, rank)

    def _reshelve(self, slot: Slot) -> None:
        if self._parts is None:
            return
        for shape, rank in (slot.rank or {}).items():
            self._parts[shape].drop(slot.block, slot.number, rank)
        self._shelve(slot, trusted=slot.tree is None)


def _hosts_with(cube: fleet.Cube, partition_id: str) -> int:
    """Hosts of a partition, as bits."""
    if partition_id == cube.id:
        return (1 << len(cube.hosts)) - 1
    hosts = 0
    for index, host in enumerate(cube.hosts):
        if partition_id in host.partition_ids:
            hosts |= 1 << index
    return hosts
