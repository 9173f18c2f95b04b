"""Packing many requests: most chips, priorities first, gangs whole, and never worse than it says."""

from __future__ import annotations

import itertools
import random
import subprocess
import sys

import hypothesis
import pytest
from hypothesis import strategies as st

from tests import builders
from tpuctl.engine import health, placement
from tpuctl.engine.packing import exact, fair, fast, plan, wishes
from tpuctl.engine.packing import problem as problems
from tpuctl.model import errors, fleet, states, topology

FAST = plan.Settings(mode=plan.Mode.FAST)
OPTIMAL = plan.Settings(mode=plan.Mode.OPTIMAL)
BOTH = pytest.mark.parametrize("settings", [FAST, OPTIMAL], ids=["fast", "optimal"])


def wish(name: str, *shapes: str, **changes: object) -> wishes.Wish:
    return wishes.Wish(name=name, shapes=tuple(topology.parse(shape) for shape in shapes), **changes)


def row(cubes: int) -> str:
    return f"4x4x{4 * cubes}"


def fleet_with(**blocks: int) -> fleet.Fleet:
    return builders.fleet_of(
        *(builders.cube(f"{block}-{i:03}", block) for block, count in blocks.items() for i in range(count))
    )


def placed(found: plan.Plan) -> dict[str, str]:
    return {grant.slice_name: grant.block for grant in found.grants}


@BOTH
def test_blocks_are_filled_exactly_where_best_fit_decreasing_would_not(settings: plan.Settings) -> None:
    asked = [wish("a", row(6)), wish("b", row(5)), wish("c", row(5))]
    found = plan.pack(fleet_with(b1=10), asked, settings)
    assert sorted(placed(found)) == ["b", "c"]
    assert (found.classes[0].placed_chips, found.classes[0].gap) == (640, 0.0)
    assert found.left[0].why == "4x4x24 does not fit now: 6 cubes of one block needed, 0 usable"


@BOTH
def test_a_higher_priority_is_never_passed_by_more_chips(settings: plan.Settings) -> None:
    asked = [wish("many", row(5), count=2, priority=1), wish("one", row(6), priority=2)]
    found = plan.pack(fleet_with(b1=10), asked, settings)
    assert set(placed(found)) == {"one"}
    assert [report.priority for report in found.classes] == [2, 1]


@BOTH
def test_two_gangs_that_want_all_do_not_share_it(settings: plan.Settings) -> None:
    """Known faults 28 and 32: partial gangs that wait for each other, members that arrive interleaved."""
    asked = [
        wish("a1", row(5), gang="a"),
        wish("b1", row(5), gang="b"),
        wish("a2", row(5), gang="a"),
        wish("b2", row(5), gang="b"),
    ]
    found = plan.pack(fleet_with(b1=10), asked, settings)
    assert set(placed(found)) == {"a1", "a2"}
    assert [left.unit.members for left in found.left] == [(("b1", 0), ("b2", 1))]


@BOTH
def test_a_gang_may_spread_over_blocks_unless_it_wants_one(settings: plan.Settings) -> None:
    snapshot = fleet_with(b1=5, b2=5)
    spread = plan.pack(snapshot, [wish("g", row(5), count=2, gang="g")], settings)
    assert placed(spread) == {"g-0": "b1", "g-1": "b2"}
    together = wish("g", row(5), count=2, gang="g", same_block=True)
    refused = plan.pack(snapshot, [together], settings)
    assert refused.grants == ()
    assert refused.left[0].why == "its 2 slices do not fit all together in one block"
    assert placed(plan.pack(fleet_with(b1=5, b2=10), [together], settings)) == {"g-0": "b2", "g-1": "b2"}


@BOTH
def test_sizes_are_worked_down_in_the_order_given(settings: plan.Settings) -> None:
    asked = [wish("a", "8x8x16", "8x8x8", "4x8x8")]
    found = plan.pack(fleet_with(b1=9), asked, settings)
    assert (str(found.grants[0].topology), found.grants[0].is_fallback) == ("8x8x8", True)
    assert plan.pack(fleet_with(b1=16), asked, settings).grants[0].is_fallback is False


@BOTH
def test_among_equals_the_team_with_less_for_its_weight_is_served(settings: plan.Settings) -> None:
    asked = [wish(f"{team}{i}", row(2), team=team) for team in ("a", "b") for i in range(4)]
    found = plan.pack(fleet_with(b1=8), asked, settings)
    assert sorted(placed(found)) == ["a0", "a1", "b0", "b1"]
    weighted = plan.Settings(mode=settings.mode, weights={"a": 3.0})
    assert sorted(placed(plan.pack(fleet_with(b1=8), asked, weighted))) == ["a0", "a1", "a2", "b0"]
    holding = plan.Settings(mode=settings.mode, team_chips={"a": 10_000})
    assert sorted(placed(plan.pack(fleet_with(b1=8), asked, holding))) == ["b0", "b1", "b2", "b3"]


def test_the_optimum_decides_between_sizes_by_turn_too() -> None:
    asked = [wish("late-b", row(3), team="b"), wish("a1", row(2), team="a"), wish("a2", row(1), team="a")]
    found = plan.pack(fleet_with(b1=3), asked, plan.Settings(team_chips={"b": 5000}))
    assert sorted(placed(found)) == ["a1", "a2"]


@BOTH
def test_sub_slices_use_up_spoiled_cubes_and_then_as_few_whole_ones_as_can_be(
    settings: plan.Settings,
) -> None:
    snapshot = builders.fleet_of(
        builders.cube("b0", hosts=8),
        builders.cube("b1", state=states.PartitionState.DEGRADED),
        *(builders.cube(f"c{i}") for i in range(3)),
    )
    asked = [
        wish("big", row(2)),
        wish("half", "2x4x4", count=4),
        wish("bit", "2x2x1", count=8),
    ]
    found = plan.pack(snapshot, asked, settings)
    assert found.left == ()
    cubes = {grant.slice_name: grant.cubes[0] for grant in found.grants if grant.topology.is_sub_slice}
    assert set(cubes.values()) == {"b0", "b1", "c0"}
    ids = [part for grant in found.grants for part in grant.partition_ids]
    assert len(ids) == len(set(ids))


@BOTH
def test_only_who_tolerates_degraded_cubes_gets_them(settings: plan.Settings) -> None:
    worn = [builders.cube(f"w{i}", state=states.PartitionState.DEGRADED) for i in range(2)]
    snapshot = builders.fleet_of(builders.cube("c1"), builders.cube("c2"), *worn)
    asked = [wish("strict", row(2)), wish("tolerant", row(2), allow_degraded=True)]
    found = {grant.slice_name: grant.cubes for grant in plan.pack(snapshot, asked, settings).grants}
    assert found == {"strict": ("c1", "c2"), "tolerant": ("w0", "w1")}
    mixed = plan.pack(snapshot, [wish("t", row(4), allow_degraded=True)], settings)
    assert mixed.grants[0].cubes == ("c1", "c2", "w0", "w1")


@BOTH
def test_spares_are_for_the_urgent(settings: plan.Settings) -> None:
    kept = plan.Settings(mode=settings.mode, spares=2, spares_below=5)
    asked = [wish("low", row(1), count=4), wish("low-part", "2x2x1")]
    assert len(plan.pack(fleet_with(b1=4), asked, kept).grants) == 2
    urgent = plan.pack(fleet_with(b1=4), [wish("high", row(4), priority=5)], kept)
    assert set(placed(urgent)) == {"high"}


@BOTH
def test_what_runs_is_not_touched_and_a_slice_that_leaves_still_holds(settings: plan.Settings) -> None:
    """Known fault 33: what is being evicted still has its place until it is gone."""
    leaving = builders.slice_of("old", row(2), "b1-000", "b1-001", deleting=True)
    snapshot = builders.fleet_of(*(builders.cube(f"b1-{i:03}") for i in range(4)), slices=(leaving,))
    found = plan.pack(snapshot, [wish("a", row(2)), wish("b", row(2))], settings)
    assert [(grant.slice_name, grant.cubes) for grant in found.grants] == [("a", ("b1-002", "b1-003"))]


@BOTH
def test_no_optimum_is_claimed_where_the_numbers_do_not_prove_it(settings: plan.Settings) -> None:
    """Sub-slices of a gang might have fitted into rests of cubes, which the numbers do not look at."""
    asked = [wish("g", "2x4x4", count=3, gang="g")]
    found = plan.pack(builders.fleet_of(builders.cube("c1")), asked, settings)
    assert found.grants == ()
    assert (found.classes[0].placed_chips, found.classes[0].bound_chips) == (0, 96)
    assert found.classes[0].gap == 1.0


def test_a_named_block_that_does_not_exist_holds_nothing() -> None:
    found = plan.pack(fleet_with(b1=4), [wish("a", row(1), block="nowhere"), wish("b", "2x2x1", block="no")])
    assert found.grants == ()


def test_requests_that_contradict_each_other_are_refused() -> None:
    for asked in (
        [wish("a", row(1)), wish("a", row(1))],
        [wish("a", row(1), count=0)],
        [wish("a", row(1), gang="g", block="b1"), wish("b", row(1), gang="g", block="b2")],
    ):
        with pytest.raises(errors.UsageError):
            plan.pack(fleet_with(b1=1), asked)


@pytest.mark.parametrize(
    ("chips", "shape"),
    [(4, "2x2x1"), (32, "2x4x4"), (64, "4x4x4"), (512, "8x8x8"), (2048, "8x16x16"), (9216, "16x24x24")],
)
def test_the_shape_of_so_many_chips_is_the_most_cubic(chips: int, shape: str) -> None:
    assert str(wishes.most_cubic(chips)) == shape


def test_a_number_of_chips_that_no_shape_has_is_refused_with_its_neighbours() -> None:
    with pytest.raises(errors.UsageError) as raised:
        wishes.most_cubic(100)
    assert raised.value.hint == "the nearest are 64 and 128"


def test_turns_alternate_by_weight() -> None:
    asked = [wish(f"{team}{i}", row(1), team=team) for team in ("a", "b") for i in range(3)]
    order = fair.turns(wishes.units(asked), {"a": 2.0}, {})
    assert [unit.first.name for unit in order] == ["a0", "b0", "a1", "a2", "b1", "b2"]


# -- numbers ---------------------------------------------------------------------------------------------


def broken_rules(problem: problems.Problem, solution: problems.Solution) -> tuple[str, ...]:
    """One sentence for each limit that a solution breaks; empty if it is a packing."""
    found: list[str] = []
    slices = [
        (problem.groups[group].size, problem.groups[group].tolerant, problem.groups[group].block, block)
        for (group, block), count in solution.loose.items()
        for _ in range(count)
    ]
    for number, (way, blocks) in solution.bundles.items():
        bundle = problem.bundles[number]
        option = bundle.options[way]
        if option.same_block and len(set(blocks)) > 1:
            found.append(f"bundle {number} is in several blocks")
        slices += [
            (size, bundle.tolerant, bundle.block, block)
            for size, block in zip(option.sizes, blocks, strict=True)
        ]
    found += [
        f"a slice is in block {block}, not {only}" for *_, only, block in slices if only not in (None, block)
    ]
    for number, group in enumerate(problem.groups):
        placed = sum(count for (other, _), count in solution.loose.items() if other == number)
        if placed > group.demand:
            found.append(f"{placed} of group {number}, wanted {group.demand}")
    for block, (healthy, degraded) in enumerate(zip(problem.healthy, problem.degraded, strict=True)):
        strict = sum(size for size, tolerant, _, where in slices if where == block and not tolerant)
        every = sum(size for size, _, _, where in slices if where == block)
        if strict > healthy or every > healthy + degraded:
            found.append(f"block {block} is overfull")
    return tuple(found)


def best_by_force(problem: problems.Problem) -> int:
    """The optimum of a small problem without degraded cubes, by trying everything."""
    slices = [(group.size, group.hosts, group.block) for group in problem.groups for _ in range(group.demand)]
    blocks = range(len(problem.healthy))
    best = 0
    for where in itertools.product((None, *blocks), repeat=len(slices)):
        used = [0] * len(problem.healthy)
        for (size, _, _), block in zip(slices, where, strict=True):
            if block is not None:
                used[block] += size
        if all(a <= b for a, b in zip(used, problem.healthy, strict=True)):
            hosts = [s[1] for s, block in zip(slices, where, strict=True) if block is not None]
            best = max(best, sum(hosts))
    return best


@st.composite
def small_problems(draw: st.DrawFn) -> problems.Problem:
    healthy = tuple(draw(st.lists(st.integers(0, 9), min_size=1, max_size=2)))
    sizes = draw(st.lists(st.integers(1, 6), min_size=1, max_size=5))
    groups = tuple(problems.Group(size, 16 * size, sizes.count(size)) for size in sorted(set(sizes)))
    return problems.Problem(healthy=healthy, degraded=(0,) * len(healthy), groups=groups)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(small_problems())
def test_the_optimum_is_the_optimum_and_the_bound_is_a_bound(problem: problems.Problem) -> None:
    truth = best_by_force(problem)
    quick, proven = fast.solve(problem), exact.solve(problem)
    assert broken_rules(problem, quick) == broken_rules(problem, proven) == ()
    assert quick.hosts <= truth == proven.hosts
    assert proven.is_optimal
    assert quick.bound_hosts >= truth


@st.composite
def rich_problems(draw: st.DrawFn) -> problems.Problem:
    blocks = draw(st.integers(1, 4))
    room = st.integers(0, 20)
    block = st.one_of(st.none(), st.integers(0, blocks - 1))
    group = st.builds(
        lambda size, demand, tolerant, only: problems.Group(size, 16 * size, demand, tolerant, only),
        st.integers(1, 9),
        st.integers(0, 5),
        st.booleans(),
        block,
    )
    option = st.builds(
        lambda sizes, same: problems.Option(tuple(sizes), 16 * sum(sizes), same),
        st.lists(st.integers(1, 6), min_size=1, max_size=3),
        st.booleans(),
    )
    bundle = st.builds(
        lambda options, tolerant, only: problems.Bundle(tuple(options), tolerant, only),
        st.lists(option, min_size=1, max_size=3),
        st.booleans(),
        block,
    )
    return problems.Problem(
        healthy=tuple(draw(st.lists(room, min_size=blocks, max_size=blocks))),
        degraded=tuple(draw(st.lists(st.integers(0, 5), min_size=blocks, max_size=blocks))),
        groups=tuple(draw(st.lists(group, max_size=5))),
        bundles=tuple(draw(st.lists(bundle, max_size=4))),
    )


@hypothesis.settings(max_examples=80, deadline=None)
@hypothesis.given(rich_problems())
def test_every_solution_keeps_the_limits(problem: problems.Problem) -> None:
    quick, proven = fast.solve(problem), exact.solve(problem)
    assert broken_rules(problem, quick) == broken_rules(problem, proven) == ()
    assert quick.hosts <= proven.hosts <= min(proven.bound_hosts, quick.bound_hosts)
    assert proven.is_optimal


def test_the_hard_mix_is_packed_to_within_one_and_a_half_percent() -> None:
    """Slices of at least 6 cubes leave no filler; the bench runs more of these."""
    for seed in range(10):
        rng = random.Random(seed)
        healthy = tuple(sum(rng.random() > 0.065 for _ in range(144)) for _ in range(16))
        sizes = [rng.choice((6, 8, 12, 16, 32, 48)) for _ in range(100)]
        groups = tuple(problems.Group(size, 16 * size, sizes.count(size)) for size in sorted(set(sizes)))
        problem = problems.Problem(healthy=healthy, degraded=(0,) * 16, groups=groups)
        quick, proven = fast.solve(problem), exact.solve(problem)
        assert proven.is_optimal
        assert quick.hosts >= 0.985 * proven.hosts


def test_the_solver_writes_nothing_to_stdout() -> None:
    """Its banner would end up in the middle of a JSON document."""
    code = """
from tpuctl.engine.packing import exact, problem
groups = tuple(problem.Group(size, 16 * size, 3) for size in (7, 9, 11, 13))
exact._most_hosts(problem.Problem(healthy=(29, 31, 33), degraded=(0, 0, 0), groups=groups), 5.0)
exact._Model(problem.Problem(healthy=(29, 31, 33), degraded=(0, 0, 0), groups=groups)).run(5.0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


# -- whole plans -----------------------------------------------------------------------------------------

KINDS = st.sampled_from(["whole", "whole", "whole", "worn", "sick", "short"])
SHAPES = st.sampled_from(["2x2x1", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x4x12", "4x8x8"])


def cube_of(cube_id: str, block: str, kind: str) -> fleet.Cube:
    if kind == "short":
        return builders.cube(cube_id, block, hosts=13)
    state = {"worn": states.PartitionState.DEGRADED, "sick": states.PartitionState.UNHEALTHY}.get(kind)
    return builders.cube(cube_id, block, state=state or states.PartitionState.HEALTHY)


@st.composite
def worlds(draw: st.DrawFn) -> fleet.Fleet:
    kinds = draw(st.lists(KINDS, min_size=1, max_size=14))
    return builders.fleet_of(*(cube_of(f"c{i:02}", f"b{i % 3}", kind) for i, kind in enumerate(kinds)))


@st.composite
def asks(draw: st.DrawFn) -> list[wishes.Wish]:
    return [
        wish(
            f"w{number}",
            *draw(st.lists(SHAPES, min_size=1, max_size=2, unique=True)),
            count=draw(st.integers(1, 3)),
            gang=draw(st.sampled_from(["", "", "g", "h"])),
            same_block=draw(st.booleans()),
            priority=draw(st.integers(0, 2)),
            team=draw(st.sampled_from(["", "a", "b"])),
            allow_degraded=draw(st.booleans()),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


def check(snapshot: fleet.Fleet, found: plan.Plan) -> None:
    """The rules that no plan may break."""
    hosts: list[str] = []
    for grant in found.grants:
        assert len(grant.partition_ids) == grant.topology.partitions
        cubes = [snapshot.cubes_by_id[cube_id] for cube_id in grant.cubes]
        assert {cube.block for cube in cubes} == {grant.block}
        if not grant.topology.is_sub_slice:
            good = {states.Verdict.HEALTHY}
            good |= {states.Verdict.DEGRADED} if grant.wish.allow_degraded else set()
            assert {health.judge(cube).verdict for cube in cubes} <= good
        hosts += [
            host.name
            for cube in cubes
            for host in cube.hosts
            if set(host.partition_ids).intersection(grant.partition_ids)
        ]
        assert grant.topology in grant.wish.shapes
    assert len(hosts) == len(set(hosts))
    assert len(hosts) == sum(grant.topology.hosts for grant in found.grants)
    names = {grant.slice_name for grant in found.grants}
    for left in found.left:
        assert not names.intersection(name for name, _ in left.unit.members)
    for report in found.classes:
        assert report.placed_chips <= report.bound_chips


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(worlds(), asks(), st.sampled_from(list(plan.Mode)))
def test_no_plan_breaks_a_rule(snapshot: fleet.Fleet, asked: list[wishes.Wish], mode: plan.Mode) -> None:
    """One block a slice, no overlap across shapes, no untolerated cube, arity exact, gangs atomic.

    Known faults 12 and 14: nothing is accepted that is not placed, and what is left says why.
    """
    settings = plan.Settings(mode=mode)
    found = plan.pack(snapshot, asked, settings)
    check(snapshot, found)
    assert found == plan.pack(snapshot, asked, settings)
    for unit in wishes.units(asked):
        members = {name for name, _ in unit.members}
        served = members.intersection(grant.slice_name for grant in found.grants)
        assert served in (set(), members)
    assert all(left.why for left in found.left)


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(worlds(), asks(), st.sampled_from(list(plan.Mode)))
def test_what_has_no_room_would_not_fit_beside_what_was_placed(
    snapshot: fleet.Fleet, asked: list[wishes.Wish], mode: plan.Mode
) -> None:
    """Also: a lower priority has never cost a higher one its place."""
    found = plan.pack(snapshot, asked, plan.Settings(mode=mode))
    for left in found.left:
        above = [grant for grant in found.grants if grant.wish.priority >= left.unit.priority]
        slices = tuple(
            builders.slice_of(grant.slice_name, str(grant.topology), *grant.partition_ids) for grant in above
        )
        beside = builders.fleet_of(*snapshot.cubes, slices=slices)
        if not left.unit.is_gang:
            request = placement.Request(topology=left.unit.shapes(0)[0], allow_degraded=left.unit.tolerant)
            assert isinstance(placement.place(beside, request), placement.Refusal)


@hypothesis.settings(max_examples=40, deadline=None)
@hypothesis.given(worlds(), asks())
def test_more_capacity_never_places_less(snapshot: fleet.Fleet, asked: list[wishes.Wish]) -> None:
    """Of the most urgent class, whose place nobody can take."""
    larger = builders.fleet_of(*snapshot.cubes, *(builders.cube(f"new{i}", "b9") for i in range(4)))
    before = plan.pack(snapshot, asked).classes[0]
    after = plan.pack(larger, asked).classes[0]
    assert after.placed_chips >= before.placed_chips
