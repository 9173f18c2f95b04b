"""The steps of each remedy: write down what is intended, act once, write down what was done.

What an earlier run announced and did not confirm is looked up before anything is repeated: a remote operation
that was not there before the announcement is ours. Only the adapters repeat a request, under its own id.
"""

from __future__ import annotations

import dataclasses
import datetime
import uuid
from typing import TYPE_CHECKING

from tpuctl.engine.remediation import rules
from tpuctl.model import errors, repairs
from tpuctl.ops import fault_reports, journal, pool_deletion, running, swapping
from tpuctl.ops.repairs import holds, registry

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuctl.ops import ports as ports_module
    from tpuctl.ops.repairs import values

State = repairs.State
Step = repairs.Step
DELETE_POOL = "DELETE_NODE_POOL"
BUSY_TIMEOUT_S = 120.0
"""How long a cluster that is busy with other operations is waited for; the next cycle asks again."""
_SPACE = uuid.UUID("6f0f6b5e-0c0c-5d5a-9b9e-2f2b8c6d7a10")
"""Chosen once: a request id is the same for the same attempt on every machine."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Act:
    """One item in hand: ports that the item's lock fences, and the time of the look that allowed it."""

    ports: ports_module.Ports
    reporter: ports_module.Reporter
    now: datetime.datetime
    did: Callable[[repairs.Item, str], None]
    """Told of everything that was done to the world."""

    def announced(
        self, entry: registry.Entry, step: Step, *, timeout_s: float | None, known: Sequence[str] = ()
    ) -> registry.Entry:
        """Write down what will be done now; from here on a crash leaves it to be looked up."""
        due = None if timeout_s is None else self.now + datetime.timedelta(seconds=timeout_s)
        return entry.amended(
            self.ports,
            state=State.RUNNING,
            step=step,
            step_at=self.now,
            started_at=entry.item.started_at or self.now,
            due_at=due,
            known=tuple(known),
            request_id=str(uuid.uuid5(_SPACE, f"{entry.item.id}/{step.name}")),
        )

    def confirmed(self, entry: registry.Entry, step: Step, operation: str, text: str) -> registry.Entry:
        """Write down that it was done."""
        entry = entry.amended(self.ports, step=step, operation=operation)
        self.did(entry.item, text)
        return entry

    def ended(self, entry: registry.Entry, state: State, note: str) -> registry.Entry:
        return entry.replaced(self.ports, entry.item.ended(state, self.now, note))


# -- reboot ------------------------------------------------------------------------------------------------


def reboot(act: Act, entry: registry.Entry) -> registry.Entry:
    """Reset the VM, once."""
    case = entry.item.case
    instance = act.ports.instances.get(case.provider_id)
    if instance is None:
        return act.ended(entry, State.CANCELLED, f"target absent: the VM of host {case.host} is gone")
    resets = act.ports.instances.resets(instance)
    if entry.item.step is Step.RESETTING:
        ours = [operation for operation in resets if operation.name not in entry.item.known]
        if ours:
            text = f"host {case.host}: its VM was reset before the interruption ({ours[0].name})"
            return act.confirmed(entry, Step.RESET, ours[0].name, text)
    if instance.status != fault_reports.RUNNING:
        note = f"the VM of host {case.host} is {instance.status}: only a running VM can be reset"
        return act.ended(entry, State.CANCELLED, note)
    if entry.item.step is not Step.RESETTING:
        known = [operation.name for operation in resets]
        entry = act.announced(entry, Step.RESETTING, timeout_s=rules.REBOOT_TIMEOUT_S, known=known)
    operation = act.ports.instances.reset(instance, entry.item.request_id)
    return act.confirmed(entry, Step.RESET, operation.name, f"host {case.host}: its VM was reset")


# -- remove ------------------------------------------------------------------------------------------------


def remove(act: Act, entry: registry.Entry) -> registry.Entry:
    """Hold the cube, report the host; what follows takes Google days, and evidence of repair ends it."""
    case = entry.item.case
    instance = act.ports.instances.get(case.provider_id)
    if instance is None:
        return act.ended(entry, State.CANCELLED, f"target absent: the VM of host {case.host} is gone")
    reports = act.ports.instances.reports(instance)
    if entry.item.step is Step.REPORTING:
        ours = [operation for operation in reports if operation.name not in entry.item.known]
        if ours:
            text = f"host {case.host} was reported before the interruption ({ours[-1].name})"
            return act.confirmed(entry, Step.REPORTED, ours[-1].name, text)
    else:
        entry = act.announced(entry, Step.HELD, timeout_s=None)
        holds.put(act.ports, act.reporter, case.cube)
    try:
        prepared = fault_reports.prepare(
            act.ports,
            case.host,
            behavior=fault_reports.Behavior(case.behavior),
            reason=_description(entry.item),
            disruption=fault_reports.Disruption.IMMEDIATE,
        )
    except errors.Conflict as refused:
        return act.ended(entry, State.CANCELLED, refused.message)
    if entry.item.step is not Step.REPORTING:
        known = [operation.name for operation in reports]
        entry = act.announced(entry, Step.REPORTING, timeout_s=None, known=known)
    outcome = fault_reports.execute(act.ports, act.reporter, prepared)
    text = f"host {case.host} was reported as faulty; {fault_reports.REPAIR}"
    return act.confirmed(entry, Step.REPORTED, outcome.operation.name, text)


def _description(item: repairs.Item) -> str:
    """For whoever repairs it."""
    tried = [f"{rung.remedy} {rung.state} at {rung.at:%Y-%m-%d %H:%M} UTC" for rung in item.previous]
    return "; ".join((item.case.reason, *tried))[:_DESCRIPTION]


_DESCRIPTION = 500
"""Characters; how many the service takes is not published."""


# -- reprovision -------------------------------------------------------------------------------------------


def reprovision(act: Act, entry: registry.Entry) -> registry.Entry:
    """Delete the node pool; the loop makes it again, as it makes any that is missing."""
    pool = entry.item.case.pool
    if entry.item.step is Step.DELETING:
        ours = [name for name in _deletions(act.ports, pool) if name not in entry.item.known]
        if ours:
            text = f"node pool {pool}: its deletion was asked for before the interruption ({ours[-1]})"
            return act.confirmed(entry, Step.DELETED, ours[-1], text)
    pools = pool_deletion.prepare(act.ports, [pool])
    if not pools:
        if entry.item.step is Step.DELETING:
            return act.confirmed(entry, Step.DELETED, "", f"node pool {pool} is gone")
        return act.ended(entry, State.CANCELLED, f"target absent: node pool {pool} is gone")
    if entry.item.step is not Step.DELETING:
        known = _deletions(act.ports, pool)
        entry = act.announced(entry, Step.DELETING, timeout_s=rules.REPROVISION_TIMEOUT_S, known=known)
    pool_deletion.execute(act.ports, act.reporter, pools, wait=False, timeout_s=BUSY_TIMEOUT_S)
    begun = [name for name in _deletions(act.ports, pool) if name not in entry.item.known]
    text = f"node pool {pool}: its deletion was asked for; the loop makes it again"
    return act.confirmed(entry, Step.DELETED, begun[-1] if begun else "", text)


def _deletions(ports: ports_module.Ports, pool: str) -> Sequence[str]:
    found = ports.pools.operations()
    return [item.name for item in found if item.kind == DELETE_POOL and item.target == pool]


# -- failover ----------------------------------------------------------------------------------------------


def announce_failover(act: Act, entry: registry.Entry) -> registry.Entry:
    """Write down that the cube will be swapped out; the swap has locks and a journal of its own."""
    if entry.item.step is Step.SWAPPING:
        return entry
    return act.announced(entry, Step.SWAPPING, timeout_s=rules.FAILOVER_TIMEOUT_S)


def swap(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    situation: values.Situation,
    item: repairs.Item,
) -> tuple[State, str]:
    """Swap the cube out; what the item is then, and why. An operation that stays open is carried on later.

    Raises what `swapping` raises if it was refused.
    """
    case = item.case
    is_open = journal.of_slice(ports, case.slice)
    if is_open is not None:
        return State.RUNNING, f"operation {is_open.operation.id} is open and is carried on"
    wanted = {name: entry for entry in situation.spec.slices for name in entry.slice_names}.get(case.slice)
    wish = swapping.Wish(
        cubes=(case.cube,),
        allow_degraded=wanted is not None and wanted.allow_degraded,
        policy=situation.policy,
    )
    shown = swapping.prepare(ports, case.slice, wish)
    if shown is None:
        return State.CANCELLED, f"no cube of slice {case.slice} needs to go any more"
    try:
        outcome = swapping.swap(ports, reporter, shown, wish)
    except (running.Stopped, errors.TimedOut) as stopped:
        return State.RUNNING, stopped.message
    if outcome.went_back:
        return State.FAILED, "no other cubes would do; the slice has its old ones again"
    return State.DONE, f"cube {shown.exchanges[0].new} took the place; {outcome.restarted} pods restarted"
