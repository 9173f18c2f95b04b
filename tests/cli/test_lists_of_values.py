"""Options and variables that take several values: repeated, with commas, by default, and badly written."""

from __future__ import annotations

import json

import pytest

from tests.cli.test_config import view
from tests.cli.test_swap_commands import members
from tests.ops.conftest import whole
from tpuctl.cli import options
from tpuctl.model import errors


def free(scene):
    """Ids of the two cubes that no slice has."""
    return [cube.id for cube in whole(scene).cubes if cube.id not in members(scene)]


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (None, ()),
        ([], ()),
        (["a"], ("a",)),
        (["a,b"], ("a", "b")),
        (["a", "b"], ("a", "b")),
        (["a,b", "c"], ("a", "b", "c")),
        (["cube/a, nodepool/b"], ("a", "b")),
        (["a b"], ("a b",)),
    ],
)
def test_lists(given, wanted):
    """typer#1788, #1791, #1821: values were split at blanks, and defaults came as texts."""
    assert options.split(given) == wanted


@pytest.mark.parametrize("given", [[""], ["a,"], [",a"], ["a,,b"], [" "], ["a", ""]])
def test_an_empty_part_is_never_any(given):
    with pytest.raises(errors.UsageError, match="an empty name was given"):
        options.split(given)


@pytest.mark.parametrize("how", [lambda a, b: [f"{a},{b}"], lambda a, b: [a, "--cubes", b]])
def test_a_repeated_option_adds_up(tpuctl, scene, how):
    cubes = free(scene)
    made = tpuctl("slice", "form", "pair", "--topology", "4x4x8", "--cubes", *how(*cubes), "-o", "json")
    assert made.status == 0, made.err
    shown = json.loads(tpuctl("slice", "show", "pair", "-o", "json").out)
    assert sorted(shown["partitionIds"]) == sorted(cubes)


def test_a_repeated_option_of_a_swap_keeps_its_order(tpuctl, scene):
    bad, good = members(scene), free(scene)
    pairs = ["--cube", bad[1], "--with", good[0], "--cube", bad[0], "--with", good[1]]
    planned = tpuctl("slice", "swap", "train", *pairs, "--dry-run")
    assert planned.status == 0, planned.err
    assert f"{bad[1]} -> {good[0]}" in planned.out
    assert f"{bad[0]} -> {good[1]}" in planned.out


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("r1", ["r1"]),
        ("r1,projects/p/reservations/r2", ["r1", "projects/p/reservations/r2"]),
        (" r1 , r2 ", ["r1", "r2"]),
    ],
)
def test_lists_in_variables(prod, text, wanted):
    found = view(prod, env={"TPUCTL_RESERVATIONS": text})
    assert found["contexts.prod.reservations"] == (wanted, "TPUCTL_RESERVATIONS")


@pytest.mark.parametrize("text", ["r1 r2", "r1,,r2", ",", "r1,"])
def test_a_list_that_is_none_is_told_as_one(prod, text):
    refused = prod("config", "view", env={"TPUCTL_RESERVATIONS": text})
    assert refused.status == 64
    assert "expected texts with commas between, for example a,b" in refused.err
