"""A decision while it is being made: each step sees the fleet as the steps before it will leave it.

What an action takes is taken in the draft whether or not a guard stops it: what a stopped swap needs must not
be given to a new slice meanwhile. What an action frees is not free before the next cycle, which sees that it
really is: a slice that is being taken apart holds its cubes until it is gone.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import astray, placement, tenancy
from tpuctl.engine.inventory import recent, stock
from tpuctl.engine.reconciling import arriving, facts, guards, ledger, wanted
from tpuctl.model import fleet, operations, reconciling, states

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from tpuctl.engine.reconciling.view import View

Kind = reconciling.ActionKind


class Draft:
    """See the module."""

    def __init__(self, view: View, memory: ledger.Ledger, gate: guards.Gate) -> None:
        self.view = view
        self.ledger = memory
        self.gate = gate
        self.actions: list[reconciling.Action] = []
        self.waiting: dict[str, str] = {}
        """Wanted slice -> why it waits."""
        self.touched: set[str] = set()
        """Slices that an action of this decision is about."""
        self.left_alone: set[str] = set()
        """Wanted slices that are not formed by the loop, though they are not there."""
        self.comes: set[str] = set()
        """Wanted slices whose cubes are coming up: nobody is disturbed for them."""
        self.lacking: dict[str, str] = {}
        """Block -> the most urgent of its slices that is down for want of a cube."""
        self.arriving = arriving.free(view)
        """Cubes that are coming up."""
        self.cubes_up = sum(bool(cube.hosts) for cube in view.snapshot.cubes)
        """Cubes that have nodes."""
        self._claims: list[operations.Claim] = [
            operations.Claim(cube_id, "repair of tpuctl is open or has just ended")
            for cube_id in sorted(view.repairing)
        ]
        # Those without nodes are of no use to anybody, and are told as such.
        self._claims += [
            operations.Claim(cube.id, "it is only coming up") for cube in self.arriving if cube.hosts
        ]
        self._made: list[fleet.Slice] = []
        self._snapshot: fleet.Fleet | None = None

    # -- the fleet as it will be -------------------------------------------------------------------------

    @property
    def snapshot(self) -> fleet.Fleet:
        """All blocks, with what the actions so far take."""
        if self._snapshot is None:
            base = self.view.occupied
            if not self._claims and not self._made:
                self._snapshot = base
            else:
                self._snapshot = dataclasses.replace(
                    base, claims=(*base.claims, *self._claims), slices=(*base.slices, *self._made)
                )
        return self._snapshot

    def block(self, block_id: str) -> fleet.Fleet:
        """One block of it: what concerns a running slice costs no more than its block."""
        return self.snapshot.with_blocks(
            tuple(block for block in self.snapshot.blocks if block.id == block_id)
        )

    def label(self, block_id: str) -> str:
        """A block as people call it."""
        return self.view.snapshot.block_labels.get(block_id, block_id)

    def ours(self, snapshot: fleet.Fleet) -> fleet.Fleet:
        """Only blocks that slices may be formed in."""
        blocks = wanted.our_blocks(self.view.spec, snapshot)
        return snapshot if len(blocks) == len(snapshot.blocks) else snapshot.with_blocks(blocks)

    def claim(self, partition_ids: Iterable[str], holder: str, slice_name: str = "") -> None:
        """Nobody but `slice_name` may take these in this decision."""
        new = [operations.Claim(partition_id, holder, slice_name) for partition_id in partition_ids]
        if new:
            self._claims += new
            self._snapshot = None

    def make(self, forming: Iterable[reconciling.Forming]) -> None:
        """These slices will be there."""
        self._made += [made(self.view, item) for item in forming]
        self._snapshot = None

    # -- deciding ----------------------------------------------------------------------------------------

    def propose(self, action: reconciling.Action, reservation: str = "") -> reconciling.Action:
        """Add an action; `reservation` is what its own kind demands first, empty if nothing."""
        [done] = self.propose_together([action], reservation)
        return done

    def propose_together(
        self, actions: Sequence[reconciling.Action], reservation: str = ""
    ) -> tuple[reconciling.Action, ...]:
        """Add actions that are of use only together: what stops one of them stops all."""
        known = [dataclasses.replace(action, facts=facts.facts_of(self.view, action)) for action in actions]
        why = self.gate.admit(known, reservation)
        done = tuple(dataclasses.replace(action, stopped_by=why) for action in known)
        for action in done:
            self._note(action)
            if why.startswith(guards.RECOMMENDED):
                self.ledger.recommend(action.id, action.reason)
        return done

    def _note(self, action: reconciling.Action) -> None:
        self.actions.append(action)
        self.touched.update(facts.slices_of(action))
        self._take(action)
        if not action.stopped_by and action.kind in (Kind.FORM, Kind.GROW, Kind.MOVE):
            for forming in action.forming:
                self.ledger.expect_absence(forming.name)

    def _take(self, action: reconciling.Action) -> None:
        if action.kind is Kind.FORM:
            self.make(action.forming)
            return
        for forming in action.forming:
            self.claim(forming.partition_ids, f"{forming.name} is made again here", forming.name)
        self.claim((exchange.new for exchange in action.exchanges), f"swap of {action.target}", action.target)

    def wait(self, name: str, why: str) -> None:
        """The first reason counts."""
        self.waiting.setdefault(name, why)

    # -- terms -------------------------------------------------------------------------------------------

    def is_ours(self, item: fleet.Slice) -> bool:
        """If true, the loop formed or adopted this very slice, and nobody else owns it or works on it."""
        known = self.ledger.formed.get(item.name)
        return (
            known is not None
            and known.uid == item.uid
            and not item.deleting
            and may_be_ours(self.view, item)
            and item.name not in self.view.busy
            and item.name not in self.view.contested
            and item.name not in self.touched
        )

    def tenants(self, movable: Collection[str]) -> tenancy.Tenants:
        """Terms of all slices: those in `movable` by what is declared, all others are never disturbed."""
        return tenancy.Tenants({item.name: self._terms(item, movable) for item in self.snapshot.slices})

    def _terms(self, item: fleet.Slice, movable: Collection[str]) -> tenancy.Tenancy:
        want = self.view.wants.get(item.name)
        if want is None or item.name not in movable:
            return tenancy.Tenancy(exempt=True)
        entry, known = want.entry, self.ledger.formed.get(item.name)
        return tenancy.Tenancy(
            priority=entry.priority,
            preemptible=entry.preemptible,
            min_run_s=entry.min_run_s,
            started_at=known.since if known is not None else None,
            gang=entry.gang,
            team=entry.team,
            allow_degraded=entry.allow_degraded,
        )

    def has_run_long_enough(self, want: wanted.Want) -> bool:
        known = self.ledger.formed.get(want.name)
        if known is None:
            return False
        return (self.view.now - known.since).total_seconds() >= want.entry.min_run_s

    def spares_of(self, block: fleet.Block, priority: int) -> int:
        """Healthy cubes of a block that a slice of this priority must leave free."""
        spec = wanted.spec_of_block(self.view.spec, block)
        return 0 if spec is None or priority >= self.view.spec.spares_below else spec.spares

    def with_spares(self, snapshot: fleet.Fleet) -> fleet.Fleet:
        """The same with a claim on the spares of each block: its last free healthy cubes."""
        claims = tuple(
            operations.Claim(cube_id, str(placement.Obstacle.SPARE))
            for cube_ids in self.spares_in(snapshot).values()
            for cube_id in cube_ids
        )
        return dataclasses.replace(snapshot, claims=(*snapshot.claims, *claims)) if claims else snapshot

    def spares_in(self, snapshot: fleet.Fleet) -> dict[str, tuple[str, ...]]:
        """Block -> the cubes that are its spares now."""
        if not any(block.spares for block in self.view.spec.blocks):
            return {}
        index = recent.of(snapshot, stock.Terms(policy=self.view.policy))
        found = {}
        for block in snapshot.blocks:
            spares = self.spares_of(block, self.view.spec.spares_below - 1)
            number = index.number_of_block[block.id]
            free = [slot.cube.id for slot in index.slots[number] if index.free[number] >> slot.number & 1]
            found[block.id] = tuple(free[len(free) - min(spares, len(free)) :])
        return found

    def pods_on(self, item: fleet.Slice) -> int:
        """Unfinished pods on the hosts of a slice, those without partition labels among them."""
        if not self.view.snapshot.pods:
            return 0
        is_small = item.topology is not None and item.topology.is_sub_slice
        if is_small or astray.of_slice(self.view.snapshot, item):
            return len(astray.pods_of(self.view.snapshot, item))
        by_cube: Mapping[str, tuple[fleet.Pod, ...]] = self.view.pods_by_cube
        return sum(len(by_cube.get(cube.id, ())) for cube in self.view.members(item))


def may_be_ours(view: View, item: fleet.Slice) -> bool:
    """If true, no other controller made it; made by hand counts if the declared state says so."""
    if item.owner is None:
        return True
    return item.owner == fleet.BY_HAND and view.spec.adopt_foreign and item.name in view.wants


def chips_of(item: fleet.Slice) -> int:
    """Chips of running work that its end interrupts: none if it is down already."""
    return item.topology.chips if item.topology is not None and item.state.may_run else 0


def running(item: fleet.Slice) -> tuple[str, ...]:
    """Its name, if it runs."""
    return (item.name,) if item.state.may_run else ()


def made(view: View, forming: reconciling.Forming) -> fleet.Slice:
    """The slice as it is right after its creation."""
    return fleet.Slice(
        name=forming.name,
        uid="",
        topology=forming.topology,
        raw_topology=str(forming.topology),
        partition_ids=tuple(sorted(forming.partition_ids)),
        state=states.SliceState.CREATED,
        reason="",
        ready="",
        message="",
        created_at=view.now,
        since=view.now,
        deleting=False,
        owner=None,
        revision="",
        priority=forming.priority,
    )
