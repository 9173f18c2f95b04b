"""What a check takes in, and what makes it fail."""

import dataclasses

import pytest

from tests import builders
from tpuctl.model import errors, fleet, health, states
from tpuctl.ops import health_checks

Verdict = states.Verdict
POLICY = health.DEFAULT_POLICY
BROKEN = builders.changed(builders.cube("c2"), 3, chips=2)
DEGRADED = builders.cube("d1", "b2", state=states.PartitionState.DEGRADED)


def scene() -> fleet.Fleet:
    """Two blocks; slice `s` on c1 and c2, of which c2 is broken; d1 has a bad link; e1 was never used."""
    spare = fleet.SubBlock("e1", "id-e1", "HEALTHY", 16, 0, 16, 0)
    bare = fleet.Cube(id="e1", block="b2", sub_block=spare)
    cubes = [
        dataclasses.replace(cube, hosts=tuple(host._replace(slice_name="s") for host in cube.hosts))
        for cube in (builders.cube("c1"), BROKEN)
    ]
    item = builders.slice_of("s", "4x4x8", "c1", "c2")
    return builders.fleet_of(*cubes, DEGRADED, bare, slices=(item,))


def verdicts(result: health_checks.Result) -> dict[str, Verdict]:
    return {f"{item.kind}/{item.id}": item.judgement.verdict for item in result.items}


def test_everything_that_is_in_use_is_checked() -> None:
    result = health_checks.check(scene(), POLICY)
    assert verdicts(result) == {
        "cube/c1": Verdict.HEALTHY,
        "cube/c2": Verdict.UNHEALTHY,
        "cube/d1": Verdict.DEGRADED,
        "slice/s": Verdict.UNHEALTHY,
    }
    assert result.unused == 1
    assert (result.total("cube"), result.count("cube", Verdict.HEALTHY)) == (3, 1)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (["c1"], ["cube/c1"]),
        (["pool-c1"], ["cube/c1"]),
        (["s"], ["slice/s", "cube/c1", "cube/c2"]),
        (["b1"], ["cube/c1", "cube/c2", "slice/s"]),
        (["b2"], ["cube/d1"]),
        (["e1"], ["cube/e1"]),
        (["c2", "s", "c2"], ["cube/c2", "slice/s", "cube/c1"]),
    ],
)
def test_names_of_all_kinds(names: list[str], found: list[str]) -> None:
    assert list(verdicts(health_checks.check(scene(), POLICY, names))) == found


def test_a_name_that_nothing_has() -> None:
    with pytest.raises(errors.NotFound, match="no cube, slice or block 'ghost'"):
        health_checks.check(scene(), POLICY, ["c1", "ghost"])


@pytest.mark.parametrize(
    ("fail_on", "troubled"),
    [
        (health.FailOn.DEGRADED, ["c2", "d1", "s"]),
        (health.FailOn.UNHEALTHY, ["c2", "s"]),
    ],
)
def test_what_fails_a_check(fail_on: health.FailOn, troubled: list[str]) -> None:
    result = health_checks.check(scene(), POLICY)
    assert [item.id for item in result.troubled(fail_on)] == troubled


@pytest.mark.parametrize(
    "cube",
    [
        builders.cube("c", hosts=15),
        builders.changed(builders.cube("c"), 0, ready=None),
        builders.cube("c", state=states.PartitionState.UNSET),
    ],
)
def test_incomplete_and_unknown_fail_every_check(cube: fleet.Cube) -> None:
    result = health_checks.check(builders.fleet_of(cube), POLICY)
    for fail_on in health.FailOn:
        assert len(result.troubled(fail_on)) == 1


def test_nothing_to_check_is_no_success() -> None:
    """draino#54: an empty selection must not pass for all well."""
    unused = fleet.Cube(id="e1", block="b", sub_block=fleet.SubBlock("e1", "", "HEALTHY", 16, 0, 16, 0))
    for snapshot, names in (
        (builders.fleet_of(), []),
        (builders.fleet_of(unused), []),
        (builders.fleet_of(unused), ["b"]),
    ):
        with pytest.raises(errors.Unavailable, match="nothing to check"):
            health_checks.check(snapshot, POLICY, names)


def test_bad_hardware_that_nobody_uses_yet_is_checked() -> None:
    bad = fleet.SubBlock("e1", "", "DEGRADED", 12, 4, 16, 0)
    snapshot = builders.fleet_of(fleet.Cube(id="e1", block="b", sub_block=bad))
    result = health_checks.check(snapshot, POLICY)
    assert verdicts(result) == {"cube/e1": Verdict.INCOMPLETE}
    assert "reservation: DEGRADED, 4 of 16 hosts degraded, no more than have no node" in (
        result.items[0].judgement.reasons
    )
