"""Sums over groups and their replicas, against counting one by one."""

from __future__ import annotations

import math

import hypothesis
from hypothesis import strategies as st

from tests.engine.test_packing import FAST, fleet_with, wish
from tpuctl.engine.packing import plan

SHAPES = ("2x2x1", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8")
groups = st.lists(
    st.tuples(
        st.sampled_from(SHAPES), st.integers(1, 5), st.sampled_from(["", "", "g", "h"]), st.integers(0, 2)
    ),
    min_size=1,
    max_size=6,
)


def chips_of(shape: str) -> int:
    return math.prod(int(part) for part in shape.split("x"))


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(groups, st.integers(0, 12))
def test_what_was_asked_for_is_counted_once_whether_it_was_placed_or_not(asked, cubes) -> None:
    """xpk#1106, #1132: VM counts were wrong as soon as there were several groups or replicas."""
    # A gang has one priority.
    asked = [(shape, count, gang, 1 if gang else priority) for shape, count, gang, priority in asked]
    wishes = [
        wish(f"w{number}", shape, count=count, gang=gang, priority=priority)
        for number, (shape, count, gang, priority) in enumerate(asked)
    ]
    one_by_one = [
        (f"w{number}-{replica}" if count > 1 else f"w{number}", chips_of(shape), priority)
        for number, (shape, count, _, priority) in enumerate(asked)
        for replica in range(count)
    ]
    found = plan.pack(fleet_with(b1=cubes), wishes, FAST)
    granted = {grant.slice_name: grant.topology.chips for grant in found.grants}
    left = [name for entry in found.left for name, _ in entry.unit.members]
    assert sorted([*granted, *left]) == sorted(name for name, _, _ in one_by_one)
    for report in found.classes:
        members = {name: chips for name, chips, priority in one_by_one if priority == report.priority}
        assert report.wanted_chips == sum(members.values())
        assert report.placed_chips == sum(granted[name] for name in members if name in granted)
    assert sum(report.wanted_chips for report in found.classes) == sum(chips for _, chips, _ in one_by_one)
