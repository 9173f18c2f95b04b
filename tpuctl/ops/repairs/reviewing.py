"""One review: look, judge, write down what changed, carry out what was agreed to, put away what is over.

Called in each cycle of the loop, before anything else is decided. In a fleet without trouble it makes two
small reads and writes nothing.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import remediation
from tpuctl.model import declared, errors, fleet, repairs
from tpuctl.ops import locking
from tpuctl.ops.repairs import executing, holds, looking, registry, values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.ops import ports as ports_module

SOURCES = tuple(fleet.SourceName)
"""What the snapshot must have been read from: everything."""
RUNNING = repairs.State.RUNNING


def review(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    situation: values.Situation,
    hooks: values.Hooks | None = None,
    *,
    may_act: values.MayAct = values.nothing_against,
) -> values.Review:
    """Judge every open item against the present, open new ones, carry out what was agreed to.

    Raises Unavailable if the snapshot lacks a source, DamagedRecord if a record cannot be read, LostLock; in
    none of these cases anything was decided on what is not known.
    """
    turn = _turn(ports, reporter, situation, hooks, may_act)
    return turn.looked() if situation.mode is declared.Mode.OBSERVE else turn.done()


def look(
    ports: ports_module.Ports, reporter: ports_module.Reporter, situation: values.Situation
) -> values.Review:
    """What a review would come to in this situation, judged as that would judge; nothing is written.

    Raises what `review` raises, LostLock apart.
    """
    return _turn(ports, reporter, situation, None, values.nothing_against).looked()


def _turn(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    situation: values.Situation,
    hooks: values.Hooks | None,
    may_act: values.MayAct,
) -> _Turn:
    missing = [source for source in SOURCES if not situation.snapshot.has(source)]
    if missing:
        raise errors.Unavailable(f"repairs cannot be reviewed without {', '.join(missing)}")
    found = registry.entries(ports)
    book = registry.load(ports)
    return _Turn(ports, reporter, situation, hooks, may_act, found, book)


class _Turn:
    """One review under way."""

    def __init__(
        self,
        ports: ports_module.Ports,
        reporter: ports_module.Reporter,
        situation: values.Situation,
        hooks: values.Hooks | None,
        may_act: values.MayAct,
        found: Sequence[registry.Entry],
        book: registry.Book,
    ) -> None:
        self._ports = ports
        self._reporter = reporter
        self._situation = situation
        self._hooks = hooks
        self._may_act = may_act
        self._entries = {entry.item.id: entry for entry in found}
        self._book = book
        # What an earlier run ended and did not put away counts at once.
        over = [entry.item for entry in found if not entry.item.is_open]
        self._ledger = registry.with_ended(book.ledger, over, situation.snapshot.observed_at)

    def looked(self) -> values.Review:
        """What would be done; nothing is written."""
        _, changes = self._judged()
        changed = {item.id: item for item in changes.changed}
        items = [changed.get(item.id, item) for item in self._open()]
        # Those that run are judged by the reviews that come in any case.
        due = [item.id for item in (*changes.changed, *changes.begin) if item.state is not RUNNING]
        return values.Review(
            repairing=changes.repairing,
            items=(*(item for item in items if item.is_open), *changes.opened),
            opened=changes.opened,
            due=tuple(sorted(set(due))),
            closed=tuple(item for item in items if not item.is_open),
            waiting=changes.waiting,
            told=changes.told,
            stuck=changes.stuck,
        )

    def done(self) -> values.Review:
        world, changes = self._judged()
        for item in changes.changed:
            self._write(item)
        opened = [item for item in changes.opened if self._open_one(item)]
        executor = executing.Executor(
            self._ports, self._reporter, self._situation, self._ledger, self._may_act
        )
        for item in changes.begin:
            entry = self._entries[item.id]
            if entry.item == item:
                self._entries[item.id] = executor.carry_out(entry)
        closed = [entry.item for entry in self._entries.values() if not entry.item.is_open]
        self._put_away(world, changes.sightings)
        items = self._open()
        busy = {item.case.cube for item in items if item.state is RUNNING}
        busy |= {item.case.cube for item in closed if item.rung(item.state, world.now).counts}
        return values.Review(
            repairing=changes.repairing | busy,
            items=tuple(items),
            opened=tuple(opened),
            closed=tuple(closed),
            executed=tuple(executor.executed),
            waiting=(*changes.waiting, *executor.waiting),
            told=changes.told,
            stuck=changes.stuck,
        )

    def _open(self) -> list[repairs.Item]:
        return [entry.item for entry in self._entries.values() if entry.item.is_open]

    def _judged(self) -> tuple[remediation.World, remediation.Changes]:
        situation, items = self._situation, self._open()
        world = remediation.World(
            snapshot=situation.snapshot,
            spec=situation.spec,
            policy=situation.policy,
            mode=situation.mode,
            ledger=self._ledger,
        )
        vms = looking.at_vms(self._ports, self._reporter, looking.hosts_to_ask(world, items))
        world = dataclasses.replace(world, vms=vms)
        signs = looking.at_signs(self._ports, self._reporter, world, items)
        return world, remediation.review(world, items, signs)

    def _write(self, item: repairs.Item) -> None:
        """What somebody else has changed meanwhile is judged anew in the next review."""
        entry = self._entries[item.id]
        before = entry.item
        try:
            with registry.locked(self._ports, self._reporter, before.case) as fenced:
                self._entries[item.id] = entry.replaced(fenced, item)
        except locking.LostLock:
            raise
        except errors.Conflict as conflict:
            self._reporter.warn(f"repair {item.id}: {conflict.message}")
            return
        if not item.is_open:
            self._reporter.step(f"repair {item.id} ({item.case.remedy} of {item.case.target}): {_end(item)}")
        elif item.case.key != before.case.key:
            self._reporter.step(f"repair {item.id} was escalated to {item.case.remedy} of {item.case.target}")
            self._tell(item)

    def _open_one(self, item: repairs.Item) -> bool:
        """False if somebody was faster."""
        try:
            with registry.locked(self._ports, self._reporter, item.case) as fenced:
                self._entries[item.id] = registry.begin(fenced, item)
        except locking.LostLock:
            raise
        except errors.Conflict as conflict:
            self._reporter.warn(f"{item.case.remedy} of {item.case.target}: {conflict.message}")
            return False
        case = item.case
        self._reporter.step(f"repair {item.id} proposed: {case.remedy} of {case.target}: {case.reason}")
        self._tell(item)
        return True

    def _tell(self, item: repairs.Item) -> None:
        if self._hooks is not None:
            self._hooks.run(declared.HookEvent.REPAIR_RECOMMENDED, facts(item))

    def _put_away(self, world: remediation.World, sightings: Sequence[repairs.Sighting]) -> None:
        """Into the ledger first, then away: a crash in between leaves both, which is noticed and harmless."""
        over = [entry for entry in self._entries.values() if not entry.item.is_open]
        items = [entry.item for entry in self._entries.values()]
        for entry in over:
            if holds.is_over(entry.item, items):
                self._give_back(entry.item)
        ledger = registry.with_ended(self._book.ledger, [entry.item for entry in over], world.now)
        ledger = dataclasses.replace(ledger, sightings=tuple(sightings))
        self._book = self._book.saved(self._ports, self._reporter, ledger)
        for entry in over:
            with registry.locked(self._ports, self._reporter, entry.item.case) as fenced:
                fenced.records.delete(entry.record)

    def _give_back(self, item: repairs.Item) -> None:
        with registry.locked(self._ports, self._reporter, item.case) as fenced:
            if holds.take_off(fenced, item.case.cube) is not None:
                self._reporter.step(f"cube {item.case.cube} was given back to placement")


def _end(item: repairs.Item) -> str:
    return f"{item.state}: {item.note}" if item.note else str(item.state)


def facts(item: repairs.Item) -> dict[str, str]:
    """What a hook is told of a recommendation."""
    case = item.case
    return {
        "object": f"repair/{item.id}",
        "repair": item.id,
        "remedy": str(case.remedy),
        "cube": case.cube,
        "block": case.block,
        "host": case.host,
        "slice": case.slice,
        "reason": case.reason,
        "blast": str(case.blast),
        "approvals-needed": str(item.approvals_missing),
        "expires-at": item.expires_at.isoformat(),
    }
