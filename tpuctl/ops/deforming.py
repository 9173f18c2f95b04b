"""Take a slice apart: show what it hits, look again, delete, wait until the hardware is free."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from tpuctl.engine import blast
from tpuctl.model import errors, fleet
from tpuctl.ops import waiting

if TYPE_CHECKING:
    from tpuctl.ops import ports as ports_module

SOURCES = (fleet.SourceName.NODES, fleet.SourceName.SLICES, fleet.SourceName.PODS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prepared:
    """The slice as seen, and what its end would hit."""

    slice: fleet.Slice
    radius: blast.BlastRadius


def prepare(ports: ports_module.Ports, name: str, *, force_foreign: bool) -> Prepared | None:
    """Observe; None if there is no such slice (so there is nothing to do).

    Raises GuardStopped if another controller owns it and `force_foreign` is not set.
    """
    snapshot = ports.fleet.observe(SOURCES)
    item = snapshot.slices_by_name.get(name)
    if item is None:
        return None
    if item.owner is not None and not force_foreign:
        raise _foreign(name, item.owner)
    return Prepared(slice=item, radius=blast.of_slice(snapshot, item))


def execute(
    ports: ports_module.Ports,
    reporter: ports_module.Reporter,
    prepared: Prepared,
    *,
    wait: bool = True,
    timeout_s: float = waiting.DEFAULT_GONE_TIMEOUT_S,
) -> float:
    """Delete what was shown, if it still is what was shown; returns the seconds waited.

    Raises Conflict if the slice was replaced, or pods have come that the user did not see.
    """
    before = prepared.slice
    started_s = ports.clock.monotonic_s()
    now = prepare(ports, before.name, force_foreign=True)
    if now is not None:
        _check_unmoved(prepared, now)
        ports.slices.delete(before.name, uid=before.uid)
        reporter.step(f"slice {before.name}: deletion asked for")
    if wait:
        waiting.until_gone(ports, reporter, before.name, uid=before.uid, timeout_s=timeout_s)
    return ports.clock.monotonic_s() - started_s


def _foreign(name: str, owner: fleet.Owner) -> errors.GuardStopped:
    if owner == fleet.BY_HAND:
        return errors.GuardStopped(
            f"slice {name} was made by hand or by an unknown program, not by tpuctl",
            hint="make sure that nobody needs it, then add --force-foreign",
        )
    return errors.GuardStopped(
        f"slice {name} belongs to {owner}, which would make it again",
        hint=f"act on that {owner.kind or 'object'} instead, or add --force-foreign",
    )


def _check_unmoved(before: Prepared, now: Prepared) -> None:
    if now.slice.uid != before.slice.uid:
        raise errors.Conflict(
            f"slice {before.slice.name} was replaced by another one meanwhile; nothing was done"
        )
    seen = {pod.uid for pod in before.radius.pods}
    new = sorted(f"{pod.namespace}/{pod.name}" for pod in now.radius.pods if pod.uid not in seen)
    if new:
        started = "1 pod has" if len(new) == 1 else f"{len(new)} pods have"
        raise errors.Conflict(
            f"{started} started on slice {before.slice.name} since it was shown; nothing was done",
            hint="run the command again to see them",
            details=tuple(new[:5]),
        )
