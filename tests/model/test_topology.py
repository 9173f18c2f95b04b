"""Shapes: rules, units, suggestions, counts."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tpuctl.model import errors, exit_status, topology


@pytest.mark.parametrize(
    ("text", "chips", "hosts", "cubes", "accelerator_type"),
    [
        ("2x2x1", 4, 1, 1, "tpu7x-8"),
        ("2x2x4", 16, 4, 1, "tpu7x-32"),
        ("4x4x4", 64, 16, 1, "tpu7x-128"),
        ("4x4x8", 128, 32, 2, "tpu7x-256"),
        ("4x8x8", 256, 64, 4, "tpu7x-512"),
        ("4x12x16", 768, 192, 12, "tpu7x-1536"),
        ("12x12x12", 1728, 432, 27, "tpu7x-3456"),
        ("8x16x16", 2048, 512, 32, "tpu7x-4096"),
        ("16x24x24", 9216, 2304, 144, "tpu7x-18432"),
        ("4x4x576", 9216, 2304, 144, "tpu7x-18432"),
    ],
)
def test_units(text: str, chips: int, hosts: int, cubes: int, accelerator_type: str) -> None:
    shape = topology.parse(text)
    assert (shape.chips, shape.hosts, shape.cubes) == (chips, hosts, cubes)
    assert shape.accelerator_type == accelerator_type
    assert shape.cores == 2 * chips
    assert str(shape) == text


@pytest.mark.parametrize(
    ("text", "rule", "hint"),
    [
        ("4x8x4", "must not decrease", "4x4x8"),
        ("-4x4x4", "negative", "4x4x4"),
        ("4x4", "three dimensions", "4x4x4"),
        ("8x8", "three dimensions", "4x8x8"),
        ("4x4x4x4", "three dimensions", "4x4x4"),
        ("4x4x4junk", "write AxBxC", "4x4x4"),
        ("100x100x100", "more than one block has", "16x24x24"),
        ("16x16x40", "more than one block has", "16x16x36"),
        ("0x4x4", "at least 1", "4x4x4"),
        ("04x4x4", "leading zeros", "4x4x4"),
        ("4X4X4", "small x", "4x4x4"),
        ("", "needed", "4x4x8"),
        (" 4x4x4", "write AxBxC", "4x4x4"),
        ("4x4x4\n", "write AxBxC", "4x4x4"),
        ("２x2x1", "write AxBxC", ""),  # noqa: RUF001
        ("6x6x6", "multiple of 4", "8x8x8"),
        ("2x1x2", "multiple of 4", "2x2x1"),
        ("1x1x1", "multiple of 4", "4x4x4"),
        ("2x2x8", "multiple of 4", "4x4x8"),
        ("9" * 400 + "x4x4", "more than one block has", "9,216 chips"),
        ("9" * 5000 + "x4x4", "more than one block has", "9,216 chips"),
    ],
)
def test_refused_with_rule_and_nearest(text: str, rule: str, hint: str) -> None:
    with pytest.raises(topology.TopologyError) as refused:
        topology.parse(text)
    assert rule in refused.value.message
    assert hint in (refused.value.hint or "")
    assert refused.value.exit_status is exit_status.ExitStatus.USAGE


def test_every_listed_shape_parses_and_no_other_order_of_it_does() -> None:
    for shape in topology.cube_shapes():
        assert topology.parse(str(shape)) == shape
        assert shape.cubes * 64 == shape.chips <= 9216
        if shape.a != shape.c:
            with pytest.raises(topology.TopologyError):
                topology.of(shape.c, shape.b, shape.a)


def test_catalogue_sizes_of_the_published_limits() -> None:
    # xpk's catalogue: 64 cubes (v4), 140 (v5p), 144 (TPU7x), edges up to 256 chips.
    assert len(topology.cube_shapes(64)) == 182
    assert len(topology.cube_shapes(140, 256)) == 410
    assert len(topology.cube_shapes(144, 256)) == 428
    assert len(topology.cube_shapes(144)) == 516


@given(st.lists(st.integers(-3, 700), min_size=1, max_size=4))
def test_a_suggestion_is_always_legal(dimensions: list[int]) -> None:
    for shape in topology.nearest(tuple(dimensions)):
        assert topology.broken_rule(tuple(shape)) is None


@given(st.lists(st.integers(1, 40), min_size=3, max_size=3))
def test_of_accepts_exactly_the_documented_shapes(dimensions: list[int]) -> None:
    a, b, c = dimensions
    documented = (a, b, c) in {(2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4)} or (
        a % 4 == b % 4 == c % 4 == 0 and a <= b <= c and math.prod(dimensions) <= 9216
    )
    assert (topology.broken_rule((a, b, c)) is None) == documented


def test_error_tree_has_the_documented_codes() -> None:
    codes = {kind.__name__: kind.exit_status.value for kind in errors.TpuctlError.__subclasses__()}
    assert codes["NotPermitted"] == 4
    assert codes["NotFound"] == 5
    assert codes["Conflict"] == 6
    assert codes["PartlyDone"] == 7
    assert codes["DoesNotFit"] == 8
    assert codes["GuardStopped"] == 9
    assert codes["TimedOut"] == 10
    assert codes["TroubleFound"] == 11
    assert codes["UsageError"] == 64
    assert codes["Busy"] == 75
    assert sorted(exit_status.ExitStatus) == [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 64, 75, 130, 143]
