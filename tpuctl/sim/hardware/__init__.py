"""The machines behind the three APIs: reservations, blocks, sub-blocks (cubes), hosts and their VMs.

Everything that can be wrong with hardware is state here (`Host.faults`, `SubBlock.ocs_degraded`,
`SubBlock.maintenance`); the APIs and the controllers only look at it and subscribe to its changes. Names are
what the Compute API addresses; ids are the opaque values of node labels and of `physicalTopology`. They
share no text, so that a program that mixes them up fails.

`parts` says what there is; `fleet` builds it, breaks it and repairs it.
"""

from __future__ import annotations

from tpuctl.sim.hardware.fleet import BLOCK_CUBES, Hardware
from tpuctl.sim.hardware.parts import (
    Block,
    Change,
    ChangeKind,
    Fault,
    Host,
    Maintenance,
    Reservation,
    SubBlock,
    Vm,
    VmStatus,
)

__all__ = [
    "BLOCK_CUBES",
    "Block",
    "Change",
    "ChangeKind",
    "Fault",
    "Hardware",
    "Host",
    "Maintenance",
    "Reservation",
    "SubBlock",
    "Vm",
    "VmStatus",
]
