"""Twisted tori: which shapes can be twisted, and by how much each wrap-around link is shifted.

Published for TPU v4 (ISCA 2023, section 2.8). GKE offers no twisted slices of TPU7x: nothing that tpuctl
forms is twisted, and these functions serve comparison only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import topology

if TYPE_CHECKING:
    from collections.abc import Iterable

OFFERED_BY_GKE = False
NOTE = "GKE does not offer twisted slices; computed for comparison with the published TPU v4 machine"


class Shift(NamedTuple):
    """Cubes to add on each axis when a link goes round the end of one axis."""

    x: int = 0
    y: int = 0
    z: int = 0


NO_SHIFT = (Shift(), Shift(), Shift())


def is_twistable(shape: topology.Topology) -> bool:
    """If true, the shape is n x n x 2n or n x 2n x 2n with n a multiple of 4."""
    return not shape.is_sub_slice and shape.c == 2 * shape.a and shape.b in (shape.a, shape.c)


def shifts(shape: topology.Topology) -> tuple[Shift, Shift, Shift]:
    """The shift of the wrap-around of x, y and z.

    n x n x 2n: the wraps of x and of y add n to z. n x 2n x 2n: the wrap of x adds n to y and to z.
    Raises ValueError for a shape that cannot be twisted.
    """
    if not is_twistable(shape):
        raise ValueError(f"{shape} cannot be twisted")
    n_cubes = shape.a // topology.CUBE_EDGE_CHIPS
    if shape.a == shape.b:
        return (Shift(z=n_cubes), Shift(z=n_cubes), Shift())
    return (Shift(y=n_cubes, z=n_cubes), Shift(), Shift())


def twistable(shapes: Iterable[topology.Topology]) -> tuple[topology.Topology, ...]:
    """Those of `shapes` that can be twisted, in the order given."""
    return tuple(shape for shape in shapes if is_twistable(shape))
