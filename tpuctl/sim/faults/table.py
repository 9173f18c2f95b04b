"""The table of faults of hardware, maintenance and slices. A new fault is a new entry.

How the service shows a fault is published unless an entry or `behaviour.Behaviour` says "assumed".
"""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from tpuctl.sim import hardware as hardwares
from tpuctl.sim.faults import actions, targets

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tpuctl.sim import behaviour as behaviours

_HOST = hardwares.Fault


@dataclasses.dataclass(frozen=True, kw_only=True)
class Fault:
    """One entry of the table."""

    target: str
    """What it is aimed at, for people: "NODE", "CUBE", ..."""
    find: Callable[[targets.Scene, str], targets.Thing]
    summary: str
    action: actions.Action
    lasting: bool = True
    """If true, it stays until it is undone, and takes `for_s`: undone so much later."""
    needs: tuple[str, ...] = ()
    """Parameters without a default."""
    defaults: Callable[[behaviours.Behaviour], Mapping[str, float]] = lambda _behaviour: {}
    """Parameters with one."""
    owns_time: bool = False
    """If true, `after_s` and `for_s` are the action's own business."""
    undone_by: str = ""
    """The fault that takes it back for people; empty if only `sim faults clear` does."""

    def parameters(self, behaviour: behaviours.Behaviour) -> set[str]:
        """Names of all parameters it takes."""
        return {*self.needs, *self.defaults(behaviour), "after_s", *(["for_s"] if self.lasting else [])}


def _once(_behaviour: behaviours.Behaviour) -> Mapping[str, float]:
    return {"times": 1}


_node = functools.partial(Fault, target="NODE", find=targets.node)
_cube = functools.partial(Fault, target="CUBE", find=targets.cube)
_slice = functools.partial(Fault, target="SLICE", find=targets.existing_slice)
_window = functools.partial(Fault, target="CUBE|BLOCK", find=targets.cube_or_block)

FAULTS: dict[str, Fault] = {
    "host-down": _node(
        summary="the machine under a node dies",
        action=actions.host_fault(_HOST.CRASHED, "is down"),
        undone_by="host-up",
    ),
    # Assumed: what a hung guest looks like from outside, see `Behaviour.hung_guest_is_unseen`. Its machine is
    # in order, so Compute shows no fault.
    "host-crash": _node(
        summary="the guest hangs: VM running, node silent; a reset helps",
        action=actions.host_crash,
        undone_by="host-up",
    ),
    "host-gone": _node(
        summary="the machine is taken out: VM and Node object disappear",
        action=actions.host_gone,
        undone_by="host-up",
    ),
    "host-repair": _node(
        summary="the machine is in repair for days, as after a report",
        action=actions.host_fault(_HOST.IN_REPAIR, "is in repair"),
        defaults=lambda behaviour: {"for_s": behaviour.repair_s},
        undone_by="host-up",
    ),
    # Assumed, see `Behaviour.chip_error_state` and `chip_error_breaks_slices`.
    "chip-error": _node(
        summary="a chip fails: node Ready, its partitions unusable",
        action=actions.host_fault(_HOST.CHIP_ERROR, "has a chip error"),
        undone_by="host-up",
    ),
    "flapping": _node(
        summary="the machine goes down and up by turns; it stays up in the end",
        action=actions.flapping,
        defaults=lambda _behaviour: {"every_s": 300.0, "for_s": 3600.0},
        undone_by="host-up",
    ),
    "host-up": _node(summary="the machine is repaired, its VM boots", action=actions.host_up, lasting=False),
    "cube-down": _cube(summary="all machines die", action=actions.cube_down, undone_by="cube-up"),
    "cube-up": _cube(summary="all machines are repaired", action=actions.cube_up, lasting=False),
    "cube-degraded": _cube(
        summary="an optical link fails", action=actions.cube_degraded, undone_by="cube-restored"
    ),
    "cube-restored": _cube(
        summary="the optical links work again", action=actions.cube_restored, lasting=False
    ),
    "partial": _cube(
        summary="fewer hosts than 16, before the cube has a pool",
        action=actions.partial,
        needs=("hosts",),
    ),
    "mig-unstable": _cube(
        summary="the instance group is stuck in an update: SliceCreationFailed",
        action=actions.mig_unstable,
        undone_by="mig-stable",
    ),
    "mig-stable": _cube(summary="the instance group moves on", action=actions.mig_stable, lasting=False),
    "maintenance": _window(
        summary="a window is planned: it opens after --after and closes --for later",
        action=actions.maintenance,
        defaults=lambda behaviour: {
            "after_s": behaviour.maintenance_notice_s,
            "for_s": behaviour.maintenance_s,
        },
        owns_time=True,
        undone_by="maintenance-end",
    ),
    "maintenance-end": _window(
        summary="maintenance is withdrawn, or ends early", action=actions.maintenance_end, lasting=False
    ),
    "fail-activation": Fault(
        target="SLICE|CUBE",
        find=targets.slice_to_come_or_cube,
        summary="the next formations end in FAILED",
        action=actions.fail_activation,
        defaults=_once,
    ),
    # Assumed: that a dismantling can fail, and that it is tried again, see `Behaviour.dismantle_retry_s`.
    "fail-deactivation": _slice(
        summary="the next dismantlings end in FAILED, and are tried again",
        action=actions.fail_deactivation,
        defaults=_once,
    ),
    "stuck-finalizer": _slice(
        summary="once deleted, the slice stays in DEACTIVATING",
        action=actions.stuck_finalizer,
        undone_by="release-finalizer",
    ),
    "release-finalizer": Fault(
        target="SLICE",
        find=targets.released_slice,
        summary="a stuck dismantling goes on",
        action=actions.release_finalizer,
        lasting=False,
    ),
}
"""Name -> fault."""
