"""Carry out one item under its lock: look again, then take the steps of its remedy."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import remediation
from tpuctl.model import declared, errors, fleet, repairs
from tpuctl.ops import locking
from tpuctl.ops.reconciling import pauses
from tpuctl.ops.repairs import acts, looking, registry, values

if TYPE_CHECKING:
    import datetime

    from tpuctl.ops import ports as ports_module

State = repairs.State
Remedy = declared.Remedy
REFUSALS = (
    errors.Busy,
    errors.Conflict,
    errors.DoesNotFit,
    errors.GuardStopped,
    errors.NotFound,
    errors.NotPermitted,
    errors.UsageError,
)
"""Answers that say no: the attempt is over. After anything else it is open what was done, and the next review
looks."""
_STEPS = {
    Remedy.REBOOT: acts.reboot,
    Remedy.REPROVISION: acts.reprovision,
    Remedy.FAILOVER: acts.announce_failover,
    Remedy.REMOVE: acts.remove,
}


class Executor:
    """Carries out the items of one review."""

    def __init__(
        self,
        ports: ports_module.Ports,
        reporter: ports_module.Reporter,
        situation: values.Situation,
        ledger: repairs.Ledger,
        may_act: values.MayAct,
    ) -> None:
        self._ports = ports
        self._reporter = reporter
        self._situation = situation
        self._ledger = ledger
        self._may_act = may_act
        self.executed: list[values.Executed] = []
        self.waiting: list[tuple[str, str]] = []

    def carry_out(self, entry: registry.Entry) -> registry.Entry:
        """Do the next steps of an item; the entry as it is then.

        Raises LostLock and DamagedRecord. Whatever else happens to one item stays with it.
        """
        try:
            return self._carried_out(entry)
        except locking.LostLock:
            raise
        except (errors.Conflict, errors.Unavailable, errors.TimedOut, pauses.Paused) as error:
            # Somebody else has the lock or wrote, an answer did not come, or the loop was paused between two
            # steps: the next review looks.
            self._reporter.warn(f"repair {entry.item.id}: {error.message}")
            self.waiting.append((entry.item.id, error.message))
            return self._latest(entry)

    def _carried_out(self, entry: registry.Entry) -> registry.Entry:
        with registry.locked(self._ports, self._reporter, entry.item.case) as fenced:
            if self._is_changed(fenced, entry):
                self.waiting.append((entry.item.id, "somebody has changed it meanwhile"))
                return self._latest(entry)
            against = self._against(entry.item)
            if against:
                self.waiting.append((entry.item.id, against))
                return entry
            entry, now = self._looked_again(fenced, entry)
            if now is None:
                return entry
            act = acts.Act(ports=fenced, reporter=self._reporter, now=now, did=self._did)
            entry = self._stepped(act, entry)
        if entry.item.state is State.RUNNING and entry.item.step is repairs.Step.SWAPPING:
            entry = self._swapped(entry)
        return entry

    def _against(self, item: repairs.Item) -> str:
        """Why it is not carried out now; empty if nothing speaks against it."""
        pause = pauses.current(self._ports)
        if pause is not None:
            return f"the loop is {pauses.sentence(pause)}"
        return self._may_act(item)

    def _is_changed(self, ports: ports_module.Ports, entry: registry.Entry) -> bool:
        found = ports.records.get(entry.record.name)
        return found is None or found.revision != entry.record.revision

    def _latest(self, entry: registry.Entry) -> registry.Entry:
        """The item as it stands in the cluster; as we knew it if it is put away."""
        found = self._ports.records.get(entry.record.name)
        return entry if found is None else registry.entry_of(found)

    def _looked_again(
        self, ports: ports_module.Ports, entry: registry.Entry
    ) -> tuple[registry.Entry, datetime.datetime | None]:
        """Judge it by a new look at everything; the time of that look, None if it is not to be done now."""
        items = [entry.item]
        world = remediation.World(
            snapshot=ports.fleet.observe(tuple(fleet.SourceName)),
            spec=self._situation.spec,
            policy=self._situation.policy,
            mode=self._situation.mode,
            ledger=self._ledger,
        )
        vms = looking.at_vms(ports, self._reporter, looking.hosts_of(world, items))
        world = dataclasses.replace(world, vms=vms)
        signs = looking.at_signs(ports, self._reporter, world, items)
        found = remediation.review(world, items, signs)
        for item in found.changed:
            entry = entry.replaced(ports, item)
        self.waiting += found.waiting
        return entry, world.now if found.begin else None

    def _stepped(self, act: acts.Act, entry: registry.Entry) -> registry.Entry:
        try:
            return _STEPS[entry.item.case.remedy](act, entry)
        except (locking.LostLock, pauses.Paused):
            raise
        except REFUSALS as refused:
            latest = self._latest(entry)
            return self._refused(act.ports, latest, refused) if latest.item.is_open else latest

    def _refused(
        self, ports: ports_module.Ports, entry: registry.Entry, refused: errors.TpuctlError
    ) -> registry.Entry:
        self._reporter.warn(f"repair {entry.item.id} failed: {refused.message}")
        now = entry.record.observed_at
        return entry.replaced(ports, entry.item.ended(State.FAILED, now, refused.message))

    def _swapped(self, entry: registry.Entry) -> registry.Entry:
        """The swap takes minutes and has its own locks, so that of the item is not held meanwhile."""
        refused: errors.TpuctlError | None = None
        try:
            state, note = acts.swap(self._ports, self._reporter, self._situation, entry.item)
        except (locking.LostLock, pauses.Paused):
            raise
        except REFUSALS as error:
            refused, state, note = error, State.FAILED, error.message
        with registry.locked(self._ports, self._reporter, entry.item.case) as fenced:
            entry = self._latest(entry)
            if not entry.item.is_open or state is State.RUNNING:
                return entry
            if refused is not None:
                return self._refused(fenced, entry, refused)
            if state is State.DONE:
                self._did(entry.item, note)
            return entry.replaced(fenced, entry.item.ended(state, entry.record.observed_at, note))

    def _did(self, item: repairs.Item, text: str) -> None:
        self._reporter.step(f"repair {item.id}: {text}")
        self.executed.append(values.Executed(item, text, item.case.blast.interrupted_chips))
