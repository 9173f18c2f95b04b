"""How many optical circuit switches (OCS) a block has, and which link of a cube goes to which.

A cube has six faces of 16 optical links. The two ends of one link position on one axis must reach the same
switch, or an axis could not wrap around; that makes 3 axes x 16 positions = 48 *lanes*, and in the published
TPU v4 machine one switch per lane (ISCA 2023, section 2). Every cube is connected to every switch.
"""

from __future__ import annotations

import dataclasses

AXES = 3
POSITIONS = 16
"""Links on one face of a cube: 4x4 chips."""
LANES = AXES * POSITIONS
ENDS_PER_CUBE_AND_LANE = 2
"""A cube brings its plus side and its minus side to each lane."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Switchboard:
    """The switches of one block.

    Raises ValueError if the lanes cannot be spread evenly over the switches.
    """

    switches: int = LANES
    """48 is one for each lane; 24 carry two lanes each; 96 have one for each direction (no circulators)."""
    usable_ports: int
    """Fibre ends that one switch can connect, spare ones not counted."""
    spare_ports: int = 0
    """Ports kept for test and repair."""

    def __post_init__(self) -> None:
        if self.switches < 1 or (LANES % self.switches and self.switches % LANES):
            raise ValueError(f"{self.switches} switches cannot share {LANES} lanes evenly")
        if self.max_cubes < 1:
            raise ValueError(f"{self.usable_ports} ports are too few for one cube")

    @property
    def fibres_per_lane(self) -> int:
        """Circuits that one link needs: 1 with circulators, 2 if each direction has a fibre of its own."""
        return max(self.switches // LANES, 1)

    @property
    def lanes_per_switch(self) -> int:
        return max(LANES // self.switches, 1)

    @property
    def max_cubes(self) -> int:
        """Cubes that can be connected to every switch."""
        return self.usable_ports // (ENDS_PER_CUBE_AND_LANE * self.lanes_per_switch)

    def switch_of(self, lane: int, fibre: int = 0) -> int:
        """The number of the switch that carries `fibre` of `lane`."""
        return lane * self.fibres_per_lane // self.lanes_per_switch + fibre


TPU_V4 = Switchboard(usable_ports=128, spare_ports=8)
"""The published machine: 48 Palomar switches of 128 + 8 ports, 64 cubes."""
TPU7X_ASSUMED = Switchboard(usable_ports=288)
"""144 cubes on 48 switches. An assumption: no published source gives the number of switches of TPU7x."""


def lane_of(axis: int, position: int) -> int:
    """Number of the lane of a face position (0 to 15) on an axis (0 = x, 1 = y, 2 = z)."""
    return axis * POSITIONS + position
