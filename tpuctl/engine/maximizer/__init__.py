"""The maximizer: the loop that `tpuctl reconcile` replaces, kept as a policy to compare with.

As the published case study of dynamic slicing has it: for ever { delete unhealthy node pools; try to merge
small topologies into larger ones; where the full size cannot be had, work down through smaller and smaller
ones }. A node pool of that time was a whole slice, made with its links, and was whole or was not.

turn      one turn of the loop over pools and cubes as plain values; the simulated block plays it too
sizes     the sizes that it works down through
standing  a fleet's snapshot as the maximizer would see it
changes   what it decides, with durations and whom it hits
deciding  one turn on a snapshot and a declared state
"""

from tpuctl.engine.maximizer.changes import Change, ChangeKind, Duration, Round, Settings
from tpuctl.engine.maximizer.deciding import decide

__all__ = ["Change", "ChangeKind", "Duration", "Round", "Settings", "decide"]
