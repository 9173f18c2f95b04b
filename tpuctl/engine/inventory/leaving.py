"""What takes a cube away with everything in it: its node pool, its sub-block, maintenance of its hardware.

The hosts and the label of a partition say nothing of it. A pool that is upgraded sends the sub-slices on it
to FAILED, one that is deleted takes the nodes along, and so does maintenance. That hosts are missing or
broken, or that a link between cubes is bad, leaves the other partitions what they are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.model import health, states

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.model import fleet

_STAYS = frozenset({"", "READY", "STATUS_UNSPECIFIED", "CREATING"})
"""Sub-block statuses; one that is being created lacks hosts and has others."""
_GOES = frozenset({"DELETING", "INVALID"})


def verdict(cube: fleet.Cube, judgement: health.Judgement) -> states.Verdict | None:
    """The worst of it; None if nothing of the kind is said."""
    return min(_said(cube, judgement), key=health.WORST_FIRST.index, default=None)


def _said(cube: fleet.Cube, judgement: health.Judgement) -> Iterator[states.Verdict]:
    for item in judgement.troubles:
        # A pool that lacks nodes is INCOMPLETE, and keeps those that it has.
        of_pool = item.origin is health.Origin.POOL and item.points_to is not states.Verdict.INCOMPLETE
        if item.points_to is not None and (of_pool or item.origin is health.Origin.RESERVATION_MAINTENANCE):
            yield item.points_to
    status = "" if cube.sub_block is None else cube.sub_block.status
    if status in _GOES:
        yield states.Verdict.UNHEALTHY
    elif status not in _STAYS:
        yield states.Verdict.UNKNOWN
