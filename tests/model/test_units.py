"""Cores, chips, hosts and cubes: every shape there is, counted in each unit."""

import math

from tpuctl.model import topology

SHAPES = (*topology.PARTITION_SHAPES, *topology.cube_shapes())


def test_units_of_every_shape() -> None:
    """xpk#751: tpu7x-128 is 64 chips and 16 VMs, and the three were mixed up."""
    assert len(SHAPES) > 500
    for shape in SHAPES:
        chips = math.prod(shape)
        assert (shape.chips, shape.cores, shape.hosts * 4) == (chips, 2 * chips, chips), shape
        assert shape.accelerator_type == f"tpu7x-{2 * chips}"
        if shape.is_sub_slice:
            assert (shape.cubes, shape.partitions) == (1, 1)
            assert shape.hosts <= 8
        else:
            assert (shape.cubes * 16, shape.partitions) == (shape.hosts, shape.cubes)


def test_the_name_that_was_mixed_up() -> None:
    assert (topology.CUBE.accelerator_type, topology.CUBE.chips, topology.CUBE.hosts) == ("tpu7x-128", 64, 16)
