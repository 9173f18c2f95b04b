"""How long things take, as far as anything was published; shown as guesses, never relied on.

Forming: 20 s at the least and 41 s for 32 cubes, so 4.2 s more for each doubling. Swapping: 2 to 5 minutes.
Making a node pool: 10 to 30 minutes. Taking apart is not published; what clients wait for is a minute.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.model import topology

_FORM_BASE_S, _FORM_DOUBLING_S = 20.0, 4.2
DEFORM_S = 60.0
SWAP_S = 210.0
CREATE_POOL_S = 1200.0
LONGEST_CREATE_POOL_S = 1800.0
RECREATE_POOL_S = 1800.0


def forming_s(shapes: Iterable[topology.Topology]) -> float:
    """Slices that are formed side by side take as long as the largest."""
    cubes = max((max(shape.cubes, 1) for shape in shapes), default=1)
    return _FORM_BASE_S + _FORM_DOUBLING_S * math.log2(cubes)


def remaking_s(shapes: Iterable[topology.Topology]) -> float:
    return DEFORM_S + forming_s(shapes)
