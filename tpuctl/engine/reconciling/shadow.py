"""The maximizer's policy beside ours, on one view: where they differ, why, and what each would cost.

Nothing of the maximizer's is ever carried out. Its times are those of the published case study, ours the
estimates of the actions; both are labelled guesses.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from tpuctl.engine import maximizer
from tpuctl.engine.reconciling import words
from tpuctl.model import reconciling

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tpuctl.model import declared, fleet, topology

Kind = reconciling.ActionKind
_POOL_KINDS = frozenset({Kind.CREATE_POOL, Kind.RECREATE_POOL})
_POOL_OPERATIONS = {Kind.CREATE_POOL: 1, Kind.RECREATE_POOL: 2}
_SLICE_OPERATIONS = {Kind.SWAP: 2, Kind.DEFORM: 1, Kind.FORM: 1, Kind.GROW: 2, Kind.MOVE: 2}
"""Creations and deletions of one slice."""


class Seen(Protocol):
    """What is needed of a view."""

    @property
    def snapshot(self) -> fleet.Fleet: ...

    @property
    def spec(self) -> declared.FleetSpec: ...


class Goal(enum.StrEnum):
    """What comes of it for the subject, whatever the means."""

    FULL = "the full size"
    SMALLER = "a smaller size"
    GONE = "gone"
    POOL = "a node pool"
    AS_IS = "as it is"


class Side(NamedTuple):
    """What one of the two does about a subject."""

    does: str
    reason: str
    goal: Goal
    chips: int = 0
    """Chips of running work that it interrupts."""
    pods: int = 0
    """Pods that end or are restarted."""
    idled_chips: int = 0
    """Chips on good hosts that it leaves unusable until the rest of their cube is repaired."""
    time_s: float = 0.0
    pool_operations: int = 0
    slice_operations: int = 0

    @property
    def acts(self) -> bool:
        return bool(self.pool_operations or self.slice_operations)


class Row(NamedTuple):
    """A subject about which they differ."""

    subject: str
    """`slice/NAME`, `nodepool/NAME` or `operation/ID`."""
    ours: Side
    legacy: Side

    @property
    def same_goal(self) -> bool:
        """If true, both want the same and differ in the way there."""
        return self.ours.goal is self.legacy.goal


class Total(NamedTuple):
    """Sums over all rows for one of the two."""

    acts: int = 0
    """Subjects that it does something about."""
    chips: int = 0
    pods: int = 0
    idled_chips: int = 0
    pool_operations: int = 0
    slice_operations: int = 0
    time_s: float = 0.0
    """One thing after the other: an upper end."""

    def plus(self, side: Side) -> Total:
        return Total(
            self.acts + side.acts,
            self.chips + side.chips,
            self.pods + side.pods,
            self.idled_chips + side.idled_chips,
            self.pool_operations + side.pool_operations,
            self.slice_operations + side.slice_operations,
            self.time_s + side.time_s,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shadow:
    """Both policies on one view."""

    rows: tuple[Row, ...]
    """Those of different goals first, then by subject."""
    ours: Total
    legacy: Total
    sources: tuple[str, ...]
    """Where the times of the maximizer come from."""

    @property
    def totals(self) -> tuple[tuple[str, Total], ...]:
        """Both sums with their names."""
        return (("tpuctl", self.ours), ("maximizer", self.legacy))

    @property
    def sentence(self) -> str:
        """The comparison in one sentence."""
        if not self.rows:
            return "both would do nothing"
        differ = words.count(len(self.rows), "differing decision")
        return (
            f"{differ}: tpuctl would interrupt {self.ours.chips:,} chips, the maximizer {self.legacy.chips:,}"
        )


def compare(
    view: Seen,
    decision: reconciling.Decision,
    settings: maximizer.Settings | None = None,
) -> Shadow:
    """Every subject that one of the two does something about, with what the other does there.

    Actions that a guard stops count as not done, and say which guard it is.
    """
    legacy = maximizer.decide(view.snapshot, view.spec, settings or maximizer.Settings())
    ours = _Ours(view, decision)
    theirs = _Legacy(view, legacy)
    subjects = dict.fromkeys((*ours.sides, *theirs.sides))
    rows = [
        Row(
            subject,
            ours.sides.get(subject) or ours.leaves(subject),
            theirs.sides.get(subject) or theirs.leaves(subject),
        )
        for subject in subjects
    ]
    rows = [row for row in rows if row.ours.acts or row.legacy.acts]
    ours_total = legacy_total = Total()
    for row in rows:
        ours_total, legacy_total = ours_total.plus(row.ours), legacy_total.plus(row.legacy)
    return Shadow(
        rows=tuple(sorted(rows, key=lambda row: (row.same_goal, row.subject))),
        ours=ours_total,
        legacy=legacy_total,
        sources=tuple(dict.fromkeys(change.duration.source for change in legacy.changes)),
    )


class _Ours:
    """Our decision by subject."""

    def __init__(self, view: Seen, decision: reconciling.Decision) -> None:
        self._view = view
        self._waiting = dict(decision.waiting)
        self.sides = _by_subject(pair for action in decision.actions for pair in _sides_of(action))

    def leaves(self, subject: str) -> Side:
        """What it means that there is no action about a subject."""
        kind, _, name = subject.partition("/")
        if kind == "nodepool":
            hosts = _hosts_in(self._view.snapshot, name)
            verb = "stays" if hosts == 1 else "stay"
            stay = f"its {words.count(hosts, 'host')} {verb} in use; " if hosts else ""
            why = f"{stay}missing ones join when they are repaired"
            return Side("keeps the pool", why, Goal.AS_IS)
        if name in self._waiting:
            return Side("waits", self._waiting[name], Goal.AS_IS)
        item = self._view.snapshot.slices_by_name.get(name)
        if item is None:
            return Side("does nothing", "nothing is to be done about it in this cycle", Goal.AS_IS)
        return Side("keeps the slice", f"it is {item.state} and nothing calls for a change", Goal.AS_IS)


def _sides_of(action: reconciling.Action) -> Iterator[tuple[str, Side]]:
    """One for each slice of a gang; what the action interrupts counts for the first of them."""
    subjects = _subjects(action)
    for number, (subject, forming) in enumerate(subjects):
        if action.stopped_by:
            yield (
                subject,
                Side(f"would {action.kind}", f"stopped by {action.stopped_by}: {action.reason}", Goal.AS_IS),
            )
            continue
        first = number == 0
        yield (
            subject,
            Side(
                does=f"{action.kind} {forming.topology}" if forming is not None else str(action.kind),
                reason=action.reason,
                goal=_goal(action.kind, forming),
                chips=action.chips if first else 0,
                pods=action.pods_restarted if first else 0,
                time_s=action.estimate_s if first else 0.0,
                pool_operations=_POOL_OPERATIONS.get(action.kind, 0),
                slice_operations=_SLICE_OPERATIONS.get(action.kind, int(action.kind is Kind.FINISH)),
            ),
        )


def _subjects(action: reconciling.Action) -> list[tuple[str, reconciling.Forming | None]]:
    if action.kind in _POOL_KINDS:
        return [(f"nodepool/{action.target}", None)]
    if action.forming:
        return [(f"slice/{forming.name}", forming) for forming in action.forming]
    if action.kind is Kind.FINISH:
        return [(f"slice/{name}", None) for name in action.slices] or [(f"operation/{action.target}", None)]
    return [(f"slice/{action.target}", None)]


def _goal(kind: reconciling.ActionKind, forming: reconciling.Forming | None) -> Goal:
    if kind in _POOL_KINDS:
        return Goal.POOL
    if kind is Kind.DEFORM:
        return Goal.GONE
    if forming is not None and forming.topology != forming.wanted:
        return Goal.SMALLER
    return Goal.FULL


class _Legacy:
    """The maximizer's turn by subject."""

    def __init__(self, view: Seen, found: maximizer.Round) -> None:
        self._view = view
        self._waiting = dict(found.waiting)
        self._uses = dict(found.uses)
        self._wanted = {name: entry.shapes[0] for entry in view.spec.slices for name in entry.slice_names}
        self.sides = _by_subject((self._subject(change), self._side(change)) for change in found.changes)

    def _subject(self, change: maximizer.Change) -> str:
        known = change.shape is not None or change.target in self._view.snapshot.slices_by_name
        return f"slice/{change.target}" if known else f"nodepool/{change.target}"

    def _side(self, change: maximizer.Change) -> Side:
        return Side(
            does=str(change.kind) if change.shape is None else f"{change.kind} {change.shape}",
            reason=change.reason,
            goal=_legacy_goal(change.shape, self._wanted.get(change.target)),
            chips=change.chips,
            pods=change.pods,
            idled_chips=change.idled_chips,
            time_s=change.duration.typical_s,
            pool_operations=change.pool_operations,
        )

    def leaves(self, subject: str) -> Side:
        """What it means that the maximizer does nothing about a subject."""
        kind, _, name = subject.partition("/")
        if kind == "nodepool":
            return Side("makes no pool", "it makes pools for what is wanted, in the size wanted", Goal.AS_IS)
        if name in self._waiting:
            return Side("waits", self._waiting[name], Goal.AS_IS)
        if name in self._uses:
            return Side("uses an idle pool", f"{self._uses[name]} has the shape", Goal.FULL)
        if name not in self._wanted:
            return Side("keeps the pool", "it is deleted when a larger one needs its cubes", Goal.AS_IS)
        return Side("keeps the pool", "the pool is whole and of a size that is wanted", Goal.AS_IS)


def _legacy_goal(made: topology.Topology | None, wanted: topology.Topology | None) -> Goal:
    if made is None:
        return Goal.GONE
    return Goal.FULL if made == wanted else Goal.SMALLER


def _by_subject(pairs: Iterable[tuple[str, Side]]) -> dict[str, Side]:
    """The maximizer may delete a pool and make it again in one turn: that is one decision."""
    sides: dict[str, Side] = {}
    for subject, side in pairs:
        sides[subject] = _both(sides[subject], side) if subject in sides else side
    return sides


def _both(first: Side, second: Side) -> Side:
    """One after the other."""
    return Side(
        does=f"{first.does}, then {second.does}",
        reason=f"{first.reason}; {second.reason}",
        goal=second.goal,
        chips=first.chips + second.chips,
        pods=first.pods + second.pods,
        idled_chips=first.idled_chips + second.idled_chips,
        time_s=first.time_s + second.time_s,
        pool_operations=first.pool_operations + second.pool_operations,
        slice_operations=first.slice_operations + second.slice_operations,
    )


def _hosts_in(snapshot: fleet.Fleet, pool: str) -> int:
    """Hosts of a node pool that are ready."""
    return sum(
        cube.ready_hosts
        for cube in snapshot.cubes
        if (cube.pool is not None and cube.pool.name == pool) or any(host.pool == pool for host in cube.hosts)
    )
