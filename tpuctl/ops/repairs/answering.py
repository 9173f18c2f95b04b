"""What people say to an item. Whoever answers is who the server says they are, not who they say."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.engine.health import hosts as host_evidence
from tpuctl.model import declared, errors, reconciling, repairs
from tpuctl.ops.reconciling import history
from tpuctl.ops.repairs import holds, registry

if TYPE_CHECKING:
    import datetime

    from tpuctl.ops import ports as ports_module

State = repairs.State
UNKNOWN = "unknown"
"""What the Identity port calls somebody whom the server does not name."""
_DONE = {
    repairs.Step.RESETTING: "the VM may have been reset: that was announced and not confirmed",
    repairs.Step.RESET: "the VM was reset, which cannot be undone",
    repairs.Step.DELETING: "the deletion of node pool {pool} was announced; see: tpuctl nodepool list",
    repairs.Step.DELETED: "the deletion of node pool {pool} was asked for; the loop makes it again",
    repairs.Step.SWAPPING: (
        "the swap of slice {slice} was begun; to finish it or take it back, see: tpuctl operation list"
    ),
    repairs.Step.REPORTING: "host {host} may have been reported: that was announced and not confirmed; "
    "the cube stays held",
    repairs.Step.REPORTED: "host {host} was reported, its VM will be stopped for 3 to 14 days or longer; "
    "the cube stays held until somebody releases it: tpuctl cube release {cube}",
}


class Answer(NamedTuple):
    """The item after an answer, and whether the answer changed it."""

    item: repairs.Item
    changed: bool


def approve(
    ports: ports_module.Ports, reporter: ports_module.Reporter, item_id: str, *, reason: str = ""
) -> Answer:
    """Say yes. The loop carries it out after another look, if it still is right then.

    Raises NotFound, Conflict for an item that is over or has expired, GuardStopped if another person has to
    say yes too, NotPermitted if the server does not tell who we are.
    """
    who = _who(ports)
    found = registry.find_entry(ports, item_id)
    with registry.locked(ports, reporter, found.item.case) as fenced:
        entry = registry.find_entry(fenced, item_id)
        item, now = entry.item, entry.record.observed_at
        _check_open(item, now)
        has_said_so = any(approval.by == who for approval in item.approvals)
        if item.state is not State.PROPOSED:
            return Answer(item, changed=False)
        if has_said_so:
            raise errors.GuardStopped(
                f"you ({who}) have approved repair {item.id} already; {item.approvals_missing} other person "
                "has to approve it too"
            )
        approvals = (*item.approvals, repairs.Approval(who, now, reason.strip()))
        missing = item.approvals_needed - len({approval.by for approval in approvals})
        changes: dict[str, object] = {"approvals": approvals, "note": ""}
        if missing <= 0:
            # From the yes on it has as long to begin as it had to be answered.
            span = item.expires_at - item.proposed_at
            changes |= {"state": State.APPROVED, "expires_at": now + span}
        answered = Answer(entry.amended(fenced, **changes).item, changed=True)
        _remember(fenced, reporter, answered.item, now, who, "approved", reason)
        return answered


def reject(
    ports: ports_module.Ports, reporter: ports_module.Reporter, item_id: str, *, reason: str
) -> Answer:
    """Say no: it is not proposed again for as long as a proposal lives, unless something worse turns up.

    Raises NotFound, UsageError without a reason, Conflict for an item that is over or under way.
    """
    who = _who(ports)
    _check_reason(reason)
    found = registry.find_entry(ports, item_id)
    with registry.locked(ports, reporter, found.item.case) as fenced:
        entry = registry.find_entry(fenced, item_id)
        item, now = entry.item, entry.record.observed_at
        if item.state is State.REJECTED:
            return Answer(item, changed=False)
        _check_open(item, now)
        if item.state is State.RUNNING:
            raise errors.Conflict(
                f"repair {item.id} is under way: {item.step}",
                hint=f"stop it before its next step: tpuctl repair cancel {item.id} --reason TEXT",
            )
        ended = item.ended(State.REJECTED, now, reason.strip(), by=who)
        answered = Answer(entry.replaced(fenced, ended).item, changed=True)
        _remember(fenced, reporter, answered.item, now, who, "rejected", reason)
        return answered


def cancel(
    ports: ports_module.Ports, reporter: ports_module.Reporter, item_id: str, *, reason: str
) -> Answer:
    """Stop it before its next step that cannot be taken back; its note says what was done already.

    Raises NotFound, UsageError without a reason, Conflict for an item that is over.
    """
    who = _who(ports)
    _check_reason(reason)
    found = registry.find_entry(ports, item_id)
    with registry.locked(ports, reporter, found.item.case) as fenced:
        entry = registry.find_entry(fenced, item_id)
        item, now = entry.item, entry.record.observed_at
        if item.state is State.CANCELLED:
            return Answer(item, changed=False)
        if not item.is_open:
            raise registry.over(item)
        note = f"{reason.strip()} ({already_done(item)})"
        entry = entry.replaced(fenced, item.ended(State.CANCELLED, now, note, by=who))
        if item.case.remedy is declared.Remedy.REMOVE:
            others = registry.list_open(fenced)
            if holds.is_over(entry.item, others):
                holds.take_off(fenced, item.case.cube)
        _remember(fenced, reporter, entry.item, now, who, "cancelled", reason)
        return Answer(entry.item, changed=True)


def _remember(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    item: repairs.Item,
    at: datetime.datetime,
    who: str,
    answer: str,
    reason: str,
) -> None:
    """Add it to the history; a failure is told, and undoes nothing."""
    why = f" ({reason.strip()})" if reason.strip() else ""
    text = f"{item.case.remedy} {item.case.target}: {answer}{why}"
    told = reconciling.Entry(at, "", "", who, text, "told", f"repair/{item.id}")
    try:
        history.append(ports, (told,))
    except errors.TpuctlError as error:
        reporter.warn(f"the history was not written: {error.message}")


def already_done(item: repairs.Item) -> str:
    """Which step was done already, and what follows from it."""
    case = item.case
    text = _DONE.get(item.step, "nothing was done to it yet")
    return text.format(pool=case.pool, slice=case.slice, host=case.host, cube=case.cube)


def _who(ports: ports_module.Ports) -> str:
    """The authenticated name; host and process say nothing about a person."""
    name = ports.identity.actor().rpartition("@")[0]
    if not name or name == UNKNOWN:
        raise errors.NotPermitted(
            "the server does not tell who you are, so your answer would be nobody's",
            hint="check with: kubectl auth whoami",
        )
    return name


def _check_reason(reason: str) -> None:
    if not reason.strip():
        raise errors.UsageError("a reason is needed", hint="write it for whoever reads the history")


def _check_open(item: repairs.Item, now: datetime.datetime) -> None:
    if not item.is_open:
        raise registry.over(item)
    if item.state is not State.RUNNING and now >= item.expires_at:
        raise errors.Conflict(
            f"repair {item.id} expired at {host_evidence.when(item.expires_at)}",
            hint="if the fault is still there, it is proposed again; see: tpuctl repair list",
        )
