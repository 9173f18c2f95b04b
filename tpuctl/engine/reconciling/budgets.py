"""How much the loop may disturb; counted before the act, for all actions of a cycle together."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

from tpuctl.engine.reconciling import facts
from tpuctl.model import reconciling

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.engine.reconciling import ledger as ledgers
    from tpuctl.engine.reconciling.view import View

Kind = reconciling.ActionKind
State = reconciling.GuardState
_POOL_KINDS = frozenset({Kind.CREATE_POOL, Kind.RECREATE_POOL})


class Budgets:
    """What is left of each budget while a decision is made."""

    def __init__(self, view: View, ledger: ledgers.Ledger) -> None:
        self._view = view
        self._limits = view.spec.budgets
        self._ledger = ledger
        self._pool_operations = view.pool_operations
        self._in_repair = _in_repair_by_block(view)
        self._planned_chips = self._planned_pools = 0
        self._refused: set[str] = set()

    @property
    def chips_left(self) -> int:
        """Chips of running slices that may still be interrupted in this hour."""
        used = sum(entry.chips for entry in self._ledger.disruptions)
        return max(self._limits.disrupted_chips_per_hour - used, 0)

    def refuse(self, actions: Sequence[reconciling.Action]) -> str:
        """Why the budgets do not allow all of these together; empty if they do."""
        self._forget_undone(actions)
        why = self._over_chips(sum(action.chips for action in actions))
        for action in actions:
            why = why or self._over_pools(action) or self._over_repairs(action)
        if why:
            self._refused.add(why.split(":", maxsplit=1)[0])
        return why

    def spend(self, action: reconciling.Action) -> None:
        """It goes ahead."""
        if action.chips:
            entry = reconciling.Disruption(self._ledger.now, action.chips, action.id, self._uids(action))
            self._ledger.disruptions.append(entry)
            self._planned_chips += action.chips
        if action.kind in _POOL_KINDS:
            self._pool_operations += 1
            self._planned_pools += 1
        if action.kind is Kind.RECREATE_POOL and action.pool is not None:
            self._in_repair[action.pool.block] = self._in_repair.get(action.pool.block, 0) + 1

    def _forget_undone(self, actions: Iterable[reconciling.Action]) -> None:
        """What was counted by a loop that died before it began: the very slices are still there."""
        undone = {(action.id, self._uids(action)) for action in actions if action.chips}
        self._ledger.disruptions = [
            entry
            for entry in self._ledger.disruptions
            if not entry.uids or (entry.action, entry.uids) not in undone
        ]

    def _uids(self, action: reconciling.Action) -> str:
        slices = self._view.snapshot.slices_by_name
        found = [slices[name].uid for name in facts.slices_of(action) if name in slices]
        return hashlib.sha256("\n".join(found).encode()).hexdigest()[:12] if found else ""

    def guards(self) -> tuple[reconciling.Guard, ...]:
        """How each stands after this decision."""
        limits = self._limits
        used = limits.disrupted_chips_per_hour - self.chips_left
        most = max(self._in_repair.values(), default=0)
        return (
            self._guard(
                "disruption budget",
                f"{used:,} of {limits.disrupted_chips_per_hour:,} chips disrupted in this hour, "
                f"{self._planned_chips:,} of them by this plan",
            ),
            self._guard(
                "repair budget",
                f"{most} of {limits.cubes_in_repair_per_block} cubes of one block in repair at most",
            ),
            self._guard(
                "pool operations",
                f"{self._pool_operations} of {limits.pool_operations_in_flight} at once, "
                f"{self._planned_pools} of them by this plan",
            ),
        )

    def _guard(self, name: str, says: str) -> reconciling.Guard:
        state = State.STOPS_SOME if name in self._refused else State.CLEAR
        return reconciling.Guard(name, state, says)

    def _over_chips(self, chips: int) -> str:
        limit = self._limits.disrupted_chips_per_hour
        if chips <= self.chips_left or not chips:
            return ""
        if chips > limit:
            return (
                f"disruption budget: it interrupts {chips:,} chips at once and {limit:,} an hour are "
                "allowed: raise budgets.disruptedChipsPerHour, or do it by hand"
            )
        return (
            f"disruption budget: it interrupts {chips:,} chips, "
            f"{self.chips_left:,} of {limit:,} are left in this hour"
        )

    def _over_pools(self, action: reconciling.Action) -> str:
        limit = self._limits.pool_operations_in_flight
        if action.kind not in _POOL_KINDS or self._pool_operations < limit:
            return ""
        return f"pool operations: {limit} at once, no more"

    def _over_repairs(self, action: reconciling.Action) -> str:
        if action.kind is not Kind.RECREATE_POOL or action.pool is None:
            return ""
        block, limit = action.pool.block, self._limits.cubes_in_repair_per_block
        now = self._in_repair.get(block, 0)
        if now < limit:
            return ""
        return f"repair budget: {now} of {limit} cubes of block {block} are in repair"


def _in_repair_by_block(view: View) -> dict[str, int]:
    """Name of the block -> cubes with an open or cooling repair."""
    found: dict[str, int] = {}
    names = view.snapshot.block_labels
    for cube_id in sorted(view.repairing):
        cube = view.snapshot.cubes_by_id.get(cube_id)
        if cube is not None:
            name = names.get(cube.block, cube.block)
            found[name] = found.get(name, 0) + 1
    return found


def team_chips(view: View) -> dict[str, int]:
    """Team -> chips that its slices have already."""
    found: dict[str, int] = {}
    for item in view.snapshot.slices:
        want = view.wants.get(item.name)
        if want is not None and item.topology is not None:
            found[want.entry.team] = found.get(want.entry.team, 0) + item.topology.chips
    return found
