"""The hold that a repair puts on its cube, told from everybody else's by how its reason begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.engine.remediation import rules
from tpuctl.model import declared, errors, operations, records, repairs
from tpuctl.ops import holding, locking

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.ops import ports as ports_module

REASON = (
    f"{rules.HOLD_PREFIX}a host was reported as faulty, which takes 3 to 14 days or longer; "
    "ends with evidence of repair (tpuctl repair list)"
)
_BEFORE_THE_REPORT = frozenset({repairs.Step.NONE, repairs.Step.HELD})


def put(ports: ports_module.Ports, reporter: ports_module.Reporter, cube: str) -> None:
    """Hold a cube; one that somebody else holds is out of use as well, and stays theirs."""
    try:
        holding.hold(ports, cube, reason=REASON)
    except locking.LostLock:
        raise
    except errors.Conflict as theirs:
        reporter.step(f"{theirs.message}; that hold is left as it is")


def take_off(ports: ports_module.Ports, cube: str) -> operations.Hold | None:
    """Give a cube back if a repair holds it; the hold of a person stays."""
    for record in ports.records.list(records.HOLD):
        hold = records.read_hold(record.text, record.name)
        if hold.cube_id == cube and hold.reason.startswith(rules.HOLD_PREFIX):
            ports.records.delete(record)
            return hold
    return None


def is_over(item: repairs.Item, others: Iterable[repairs.Item]) -> bool:
    """If true, the item's end is a reason to give its cube back.

    A report that was made is not taken back by cancelling the item: the VM will be stopped, so the cube stays
    out of use until somebody releases it.
    """
    case = item.case
    if case.remedy is not declared.Remedy.REMOVE or item.step is repairs.Step.NONE:
        return False
    still = [
        one
        for one in others
        if one.is_open and one.id != item.id and one.case.remedy is case.remedy and one.case.cube == case.cube
    ]
    if any(one.state is repairs.State.RUNNING for one in still):
        return False
    return item.state is not repairs.State.CANCELLED or item.step in _BEFORE_THE_REPORT
