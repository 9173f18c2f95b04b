"""The rules from what is wrong to what is done about it: a table for people and for the program.

A cube under a slice leaves the slice first (failover); what is left is repaired when no work is on it. The
remedies of a row are tried from left to right, each as often as the policy says. Times that no source gives
are labelled as chosen here.
"""

from __future__ import annotations

from typing import NamedTuple

from tpuctl.model import declared, repairs

Ailment = repairs.Ailment
Remedy = declared.Remedy

DAY_S = 86_400.0
REPAIR_FROM_S, REPAIR_TO_S = 3 * DAY_S, 14 * DAY_S
"""How long the repair of a reported host takes; published: 3 to 14 days, or longer."""
REBOOT_TIMEOUT_S = 1200.0
"""A host that is not well so long after its reset was not helped by it. Chosen here: boot times are not
published, and a host must have been up for the policy's settle time before it counts as well."""
REPROVISION_TIMEOUT_S = 2 * 3600.0
"""Chosen here: others wait 30 minutes for a node pool, and the loop has to get to it first."""
FAILOVER_TIMEOUT_S = 1800.0
"""Chosen here: taking apart counts as stuck after 15 minutes, forming takes minutes at most."""
ATTEMPTS_WINDOW_S = 7 * DAY_S
"""Attempts older than this do not count any more. Chosen here."""
KEPT_AWAY_S = DAY_S
"""A cube that is healthy, yet held or cordoned for longer, was probably forgotten. Chosen here."""

HOLD_PREFIX = "in repair: "
"""How the reason of a hold begins that a repair has put on its cube; only such holds are ever taken off."""
CHIP_ERROR = "CHIP_ERROR"
UNSPECIFIED = "BEHAVIOR_UNSPECIFIED"


class Rule(NamedTuple):
    """One row."""

    ailment: Ailment
    when: str
    """What must be so, in words."""
    grace_s: float
    """How long it must have lasted; 0: as long as the health policy or the fleet's pool settings say."""
    remedies: tuple[Remedy, ...]
    """The mildest first."""
    behavior: str = ""
    """What a report of the host says is wrong."""


RULES = {
    rule.ailment: rule
    for rule in (
        Rule(
            Ailment.CUBE_BROKEN,
            "a cube under a slice lacks hosts, is unhealthy, or a host of it needs a remedy (then a person "
            "decides), and a spare can take its place",
            0.0,
            (Remedy.FAILOVER,),
        ),
        Rule(
            Ailment.CUBE_DEGRADED,
            "a cube under a slice has a degraded link, and the fleet file wants the slice healthy",
            0.0,
            (Remedy.FAILOVER,),
        ),
        Rule(
            Ailment.CHIPS_MISSING,
            "a ready host offers fewer than 4 chips after its settle time",
            0.0,
            (Remedy.REBOOT, Remedy.REMOVE),
            CHIP_ERROR,
        ),
        Rule(
            Ailment.CHIPS_UNUSABLE,
            "a ready host's own partition 2x2x1 is UNHEALTHY after its settle time",
            0.0,
            (Remedy.REBOOT, Remedy.REMOVE),
            CHIP_ERROR,
        ),
        Rule(
            Ailment.HOST_NOT_READY,
            "a node says it is not ready while its VM is RUNNING",
            300.0,
            (Remedy.REBOOT, Remedy.REMOVE),
            UNSPECIFIED,
        ),
        Rule(
            Ailment.HOST_SILENT,
            "a kubelet does not report while its VM is RUNNING",
            600.0,
            (Remedy.REBOOT, Remedy.REMOVE),
            UNSPECIFIED,
        ),
        Rule(
            Ailment.NODE_CONDITION,
            "a condition that the policy calls unhealthy, newer than the host's start and its last repair",
            0.0,
            (Remedy.REBOOT,),
        ),
        Rule(
            Ailment.POOL_ERROR,
            "a node pool has no node at all, and the reservation has healthy hosts for it",
            0.0,
            (Remedy.REPROVISION,),
        ),
        Rule(
            Ailment.POOL_SHORT,
            "a node pool lacks hosts that the reservation calls healthy, and nothing is under way",
            0.0,
            (Remedy.REPROVISION,),
        ),
    )
}

NOTHING = (
    "unknown or contradictory evidence",
    "a host, cube or block in maintenance, or with maintenance near",
    "a VM that is REPAIRING, starting or stopping; a node pool that GKE works on",
    "a VM that was stopped: only a running one can be reset or reported",
    "a degraded link on a cube without a slice that demands better",
    "a condition that has been True for so long that it may be latched, or that a repair did not clear",
    "a cube that an open operation works on, or in its cooldown",
    "a block that the fleet file does not name",
)
"""What is left alone, and told."""

RANK = {remedy: rank for rank, remedy in enumerate(Remedy)}
"""The mildest has rank 0."""
EFFORTS: dict[Remedy, tuple[float, float, str]] = {
    Remedy.REBOOT: (120.0, REBOOT_TIMEOUT_S, "estimate: boot time is not published"),
    Remedy.REPROVISION: (600.0, 2700.0, "estimate: node pools take up to 30 min to make"),
    Remedy.FAILOVER: (60.0, 600.0, "estimate: slices form in seconds to minutes, pods start again after"),
    Remedy.REMOVE: (REPAIR_FROM_S, REPAIR_TO_S, "published: repair in place takes 3 to 14 days or longer"),
}
"""From, to, and where the figure is from."""
