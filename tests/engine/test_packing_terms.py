"""Terms of slices and requests in a plan: who is ended for whom, and who may pass somebody that waits."""

from __future__ import annotations

import dataclasses
import datetime
import itertools

import hypothesis
import pytest
from hypothesis import strategies as st

from tests import builders
from tpuctl.engine import changes, placement, preemption, tenancy
from tpuctl.engine.packing import plan, wishes
from tpuctl.engine.tenancy import Tenancy
from tpuctl.model import errors, fleet, invariants, topology

NOW = builders.NOW
HOUR = datetime.timedelta(hours=1)
YIELDS = Tenancy(preemptible=True)
BOTH = pytest.mark.parametrize("mode", list(plan.Mode))


def row(cubes: int) -> str:
    return f"4x4x{4 * cubes}"


def wish(name: str, *shapes: str, **changes_: object) -> wishes.Wish:
    return wishes.Wish(name=name, shapes=tuple(topology.parse(shape) for shape in shapes), **changes_)


def world(*running: tuple[str, int], **blocks: int) -> fleet.Fleet:
    """Blocks of so many cubes, and slices s0, s1 ... that fill them from the front: (block, cubes)."""
    used = dict.fromkeys(blocks, 0)
    slices = []
    for number, (block, cubes) in enumerate(running):
        ids = [f"{block}-{i:02}" for i in range(used[block], used[block] + cubes)]
        used[block] += cubes
        slices.append(builders.slice_of(f"s{number}", row(cubes), *ids))
    cubes_ = [
        builders.cube(f"{block}-{i:02}", block) for block, count in blocks.items() for i in range(count)
    ]
    return builders.fleet_of(*cubes_, slices=tuple(slices))


def pack(
    snapshot: fleet.Fleet, asked: list[wishes.Wish], mode: plan.Mode = plan.Mode.OPTIMAL, **terms: Tenancy
) -> plan.Plan:
    return plan.pack(snapshot, asked, plan.Settings(mode=mode, tenants=tenancy.Tenants(terms)))


def placed(found: plan.Plan) -> dict[str, str]:
    return {grant.slice_name: grant.block for grant in found.grants}


# -- preemption ------------------------------------------------------------------------------------------


@BOTH
def test_the_fewest_chips_are_ended_then_the_fewest_slices(mode: plan.Mode) -> None:
    snapshot = world(("a", 2), ("a", 1), ("a", 1), ("b", 3), a=4, b=4)
    everybody = dict.fromkeys(("s0", "s1", "s2", "s3"), YIELDS)
    found = pack(snapshot, [wish("w", row(2), priority=1)], mode, **everybody)
    # In a, s0 alone gives two cubes, as s1 and s2 do together; in b one is free and s3 has three.
    assert found.evictions == ((("w",), ("s0",), 128),)
    assert placed(found) == {"w": "a"}
    assert found.classes[0].gap == 0.0


@BOTH
@pytest.mark.parametrize(
    "terms",
    [
        Tenancy(),
        Tenancy(preemptible=True, priority=1),
        Tenancy(preemptible=True, gang="g"),
        Tenancy(preemptible=True, min_run_s=3600.0, started_at=NOW - HOUR / 2),
    ],
    ids=["not preemptible", "as urgent", "of a gang", "too young"],
)
def test_who_may_not_be_ended_is_not(mode: plan.Mode, terms: Tenancy) -> None:
    found = pack(world(("a", 2), a=2), [wish("w", row(2), priority=1)], mode, s0=terms)
    assert (found.grants, found.evictions) == ((), ())


def test_a_total_that_is_not_the_shape_ends_nobody() -> None:
    """Known fault 15: eight devices were freed on four nodes, and the job still did not fit."""
    snapshot = world(("a", 2), ("b", 2), a=2, b=2)
    asked = [wish("w", row(4), priority=1), wish("g", row(2), count=3, gang="g", priority=1)]
    found = pack(snapshot, asked, s0=YIELDS, s1=YIELDS)
    assert (found.grants, found.evictions) == ((), ())


def test_nobody_is_ended_where_a_fallback_fits() -> None:
    found = pack(world(("a", 2), a=3), [wish("w", row(2), row(1), priority=1)], s0=YIELDS)
    assert found.evictions == ()
    assert [str(grant.topology) for grant in found.grants] == [row(1)]


def test_a_gang_makes_room_for_all_of_its_slices_or_for_none() -> None:
    snapshot = world(("a", 2), ("b", 2), a=3, b=3)
    asked = [wish("g", row(3), count=2, gang="g", priority=1)]
    assert pack(snapshot, asked, s0=YIELDS).evictions == ()
    both = pack(snapshot, asked, s0=YIELDS, s1=YIELDS)
    assert both.evictions == ((("g-0", "g-1"), ("s0", "s1"), 256),)
    assert placed(both) == {"g-0": "a", "g-1": "b"}


def test_a_gang_that_wants_one_block_takes_the_one_where_the_fewest_chips_go() -> None:
    snapshot = world(("a", 3), ("b", 1), ("b", 1), ("c", 4), a=4, b=4, c=4)
    asked = [wish("g", row(2), count=2, gang="g", same_block=True, priority=1)]
    found = pack(snapshot, asked, **dict.fromkeys(("s0", "s1", "s2", "s3"), YIELDS))
    assert [eviction.victims for eviction in found.evictions] == [("s1", "s2")]
    assert placed(found) == {"g-0": "b", "g-1": "b"}


def test_what_a_gang_does_not_need_after_all_is_left_alone() -> None:
    """The first slice ends s0, whose cubes then hold the second one too."""
    snapshot = world(("a", 4), ("b", 1), a=4, b=2)
    asked = [wish("x", row(3), gang="g", priority=1), wish("y", row(1), gang="g", priority=1)]
    found = pack(snapshot, asked, s0=YIELDS, s1=YIELDS)
    assert [eviction.victims for eviction in found.evictions] == [("s0",)]


def test_there_is_a_limit_and_natural_ends_are_waited_for() -> None:
    """Known fault 31: eviction without a limit on what it wastes."""
    snapshot, asked = world(("a", 2), a=2), [wish("w", row(2), priority=1)]
    ending = tenancy.Tenants({"s0": Tenancy(preemptible=True, ends_at=NOW + HOUR / 4)})
    for limits, victims in (
        (preemption.Limits(), ["s0"]),
        (preemption.Limits(chips=64), []),
        (preemption.Limits(patience_s=1800), []),
    ):
        found = plan.pack(snapshot, asked, plan.Settings(tenants=ending, limits=limits))
        assert [name for eviction in found.evictions for name in eviction.victims] == victims


def test_the_urgent_are_served_first_and_the_rest_of_a_victim_s_cubes_is_not_wasted() -> None:
    snapshot = world(("a", 6), a=6)
    asked = [wish("low", row(2), priority=1), wish("high", row(4), priority=2), wish("idle", row(3))]
    found = pack(snapshot, asked, s0=YIELDS)
    assert found.evictions == ((("high",), ("s0",), 384),)
    assert set(placed(found)) == {"high", "low"}


def test_who_fits_into_what_ended_for_another_ends_nobody() -> None:
    """One slice goes for the first of them; the other of the same priority needs no end of its own."""
    asked = [wish("one", row(4), priority=1), wish("two", row(2), priority=1)]
    found = pack(world(("a", 6), ("b", 3), a=6, b=3), asked, s0=YIELDS, s1=YIELDS)
    assert found.evictions == ((("one",), ("s0",), 384),)
    assert set(placed(found)) == {"one", "two"}


def test_a_request_called_like_a_slice_that_runs_is_refused() -> None:
    with pytest.raises(errors.UsageError):
        plan.pack(world(("a", 1), a=2), [wish("s0", row(1))])


# -- backfill --------------------------------------------------------------------------------------------

SOON, LATE = NOW + HOUR, NOW + 9 * HOUR
ENDS = Tenancy(ends_at=NOW + 2 * HOUR)


@BOTH
def test_a_later_request_passes_only_if_the_first_starts_no_later(mode: plan.Mode) -> None:
    asked = [
        wish("head", row(5)),
        wish("long", row(2), ends_at=LATE),
        wish("short", row(1), ends_at=SOON),
        wish("narrow", row(1), ends_at=LATE),
    ]
    found = pack(world(("a", 4), a=6), asked, mode, s0=ENDS)
    assert found.promise is not None
    assert found.promise.unit.first.name == "head"
    assert found.promise.shadow == (NOW + 2 * HOUR, ("s0",))
    # Of 6 cubes the head leaves one, which somebody long-lived may have.
    assert {grant.slice_name: grant.passes for grant in found.grants} == {"short": True, "narrow": True}
    assert [left.unit.first.name for left in found.left] == ["head", "long"]
    assert found.left[0].refusal is not None


def test_who_is_turned_away_hears_who_would_wait_for_it() -> None:
    asked = [wish("head", row(6), priority=1), wish("long", row(2), ends_at=LATE)]
    found = pack(world(("a", 4), a=6), asked, s0=ENDS)
    assert found.grants == ()
    assert [left.why for left in found.left] == [
        "4x4x24 does not fit now: 6 cubes of one block needed, 2 usable",
        "it would fit now, but head, whose turn is before, would start later than 2026-01-05T10:00:00Z",
    ]


def test_who_is_turned_away_from_one_block_may_go_to_another() -> None:
    asked = [wish("head", row(6), priority=1), wish("long", row(2), ends_at=LATE)]
    found = pack(world(("a", 4), a=6, b=5), asked, s0=ENDS)
    assert placed(found) == {"long": "b"}


@pytest.mark.parametrize(
    ("terms", "passes"),
    [
        ({"preemptible": True}, True),
        ({"preemptible": True, "min_run_s": 7200.0}, True),
        ({"preemptible": True, "min_run_s": 7201.0}, False),
        ({"min_run_s": 60.0}, False),
        ({"preemptible": True, "priority": 1}, False),
        ({"preemptible": True, "gang": "g", "count": 2}, False),
        ({"ends_at": NOW + 2 * HOUR}, True),
    ],
    ids=["preemptible", "old enough by then", "too young by then", "fixed", "as urgent", "gang", "gone"],
)
def test_what_may_be_ended_by_then_is_not_in_the_way(terms: dict[str, object], passes: bool) -> None:
    asked = [wish("head", row(6), priority=1), wish("filler", row(1), **terms)]
    found = pack(world(("a", 4), a=6), asked, s0=ENDS)
    assert bool(found.grants) is passes


def test_who_lost_to_others_that_serve_more_chips_waits_for_nobody_s_end() -> None:
    asked = [wish("a", row(6)), wish("b", row(5)), wish("c", row(5))]
    found = pack(world(("x", 4), x=14), asked, s0=ENDS)
    assert set(placed(found)) == {"b", "c"}
    assert found.promise is None


def test_an_end_asked_for_counts_for_the_next_class() -> None:
    """`first` is granted and ends; `head` is promised its cubes, and nobody without an end gets them."""
    asked = [
        wish("first", row(3), priority=2, ends_at=SOON),
        wish("head", row(4), priority=1),
        wish("rest", row(1)),
    ]
    found = pack(world(a=4), asked)
    assert placed(found) == {"first": "a"}
    assert found.promise is not None
    assert found.promise.shadow == (SOON, ("first",))
    assert set(placed(pack(world(a=4), [dataclasses.replace(one, ends_at=None) for one in asked]))) == {
        "first",
        "rest",
    }


def test_the_end_of_nobody_known_holds_nobody_back() -> None:
    asked = [wish("head", row(5)), wish("long", row(2), ends_at=LATE)]
    found = pack(world(("a", 4), a=6), asked, s0=Tenancy())
    assert placed(found) == {"long": "a"}
    assert found.promise is None


def test_a_gang_is_promised_a_time_at_which_all_of_it_fits() -> None:
    asked = [
        wish("g", row(3), count=2, gang="g", priority=1),
        wish("short", row(1), ends_at=SOON),
        wish("long", row(1), ends_at=LATE),
    ]
    later = Tenancy(ends_at=NOW + 3 * HOUR)
    found = pack(world(("a", 2), ("b", 2), a=3, b=3), asked, s0=ENDS, s1=later)
    assert found.promise is not None
    assert found.promise.shadow == (NOW + 3 * HOUR, ("s0", "s1"))
    assert {spot.block for spot in found.promise.spots} == {"a", "b"}
    assert set(placed(found)) == {"short"}


# -- properties ------------------------------------------------------------------------------------------

SHAPES = ("2x2x1", "2x4x4", "4x4x4", "4x4x8", "4x4x12")
KINDS = st.sampled_from(["whole", "whole", "whole", "worn", "sick", "short"])
WHEN = st.sampled_from([None, NOW + HOUR, NOW + 3 * HOUR, NOW + 5 * HOUR])


@st.composite
def busy_worlds(draw: st.DrawFn) -> tuple[fleet.Fleet, tenancy.Tenants]:
    kinds = draw(st.lists(KINDS, min_size=2, max_size=9))
    snapshot = builders.fleet_of(
        *(builders.cube_of(f"c{i}", f"b{i % 2}", kind) for i, kind in enumerate(kinds))
    )
    terms = {}
    for number in range(draw(st.integers(0, 6))):
        shape = draw(st.sampled_from(SHAPES))
        found = placement.place(snapshot, placement.Request(topology=topology.parse(shape)))
        if isinstance(found, placement.Placement):
            name = f"s{number}"
            item = builders.slice_of(name, shape, *found.partition_ids)
            snapshot = dataclasses.replace(snapshot, slices=(*snapshot.slices, item))
            terms[name] = Tenancy(
                priority=draw(st.integers(0, 2)),
                preemptible=draw(st.booleans()),
                gang=draw(st.sampled_from(["", "", "g"])),
                min_run_s=draw(st.sampled_from([0.0, 7200.0])),
                started_at=NOW - draw(st.sampled_from([1, 3])) * HOUR,
                ends_at=draw(WHEN),
            )
    return snapshot, tenancy.Tenants(terms)


@st.composite
def asks(draw: st.DrawFn) -> list[wishes.Wish]:
    return [
        wish(
            f"w{number}",
            *draw(st.lists(st.sampled_from(SHAPES), min_size=1, max_size=2, unique=True)),
            count=draw(st.integers(1, 2)),
            gang=draw(st.sampled_from(["", "", "g"])),
            same_block=draw(st.booleans()),
            priority=draw(st.integers(0, 3)),
            preemptible=draw(st.booleans()),
            min_run_s=draw(st.sampled_from([0.0, 7200.0])),
            ends_at=draw(WHEN),
            allow_degraded=draw(st.booleans()),
        )
        for number in range(draw(st.integers(1, 6)))
    ]


def with_grants(snapshot: fleet.Fleet, grants: list[plan.Grant]) -> fleet.Fleet:
    items = tuple(
        builders.slice_of(grant.slice_name, str(grant.topology), *grant.partition_ids) for grant in grants
    )
    return dataclasses.replace(snapshot, slices=(*snapshot.slices, *items))


@hypothesis.settings(max_examples=80, deadline=None)
@hypothesis.given(busy_worlds(), asks(), st.sampled_from(list(plan.Mode)))
def test_only_who_may_be_ended_is_and_everything_granted_then_fits(
    known: tuple[fleet.Fleet, tenancy.Tenants], asked: list[wishes.Wish], mode: plan.Mode
) -> None:
    snapshot, tenants = known
    settings = plan.Settings(mode=mode, tenants=tenants)
    found = plan.pack(snapshot, asked, settings)
    assert found == plan.pack(snapshot, asked, settings)
    victims = [name for eviction in found.evictions for name in eviction.victims]
    assert len(victims) == len(set(victims))
    unit_of = {name: unit for unit in wishes.units(asked) for name, _ in unit.members}
    granted = {grant.slice_name for grant in found.grants}
    for eviction in found.evictions:
        assert granted.issuperset(eviction.slices)
        unit = unit_of[eviction.slices[0]]
        assert eviction.victims
        for name in eviction.victims:
            assert tenants.may_be_evicted(snapshot.slices_by_name[name], unit.priority, NOW)
    after = with_grants(changes.without_slices(snapshot, victims), list(found.grants))
    assert set(invariants.check_invariants(after)) <= set(invariants.check_invariants(snapshot))
    for unit in unit_of.values():
        assert {name for name, _ in unit.members} & granted in ({name for name, _ in unit.members}, set())
    for report in found.classes:
        assert report.placed_chips <= report.bound_chips


@hypothesis.settings(max_examples=100, deadline=None)
@hypothesis.given(busy_worlds(), st.sampled_from(SHAPES))
def test_one_request_ends_the_cheapest_set_there_is(
    known: tuple[fleet.Fleet, tenancy.Tenants], shape: str
) -> None:
    snapshot, tenants = known
    request = placement.Request(topology=topology.parse(shape))
    chips = preemption.chips_of_slices(snapshot)
    allowed = [item.name for item in snapshot.slices if tenants.may_be_evicted(item, 3, NOW)]
    sets = [
        names
        for size in range(len(allowed) + 1)
        for names in itertools.combinations(allowed, size)
        if isinstance(placement.place(changes.without_slices(snapshot, names), request), placement.Placement)
    ]
    found = plan.pack(snapshot, [wish("w", shape, priority=3)], plan.Settings(tenants=tenants))
    victims = [name for eviction in found.evictions for name in eviction.victims]
    assert bool(found.grants) is bool(sets)
    if sets:
        cheapest = min((sum(chips[name] for name in names), len(names)) for names in sets)
        assert (sum(chips[name] for name in victims), len(victims)) == cheapest


@hypothesis.settings(max_examples=120, deadline=None)
@hypothesis.given(busy_worlds(), asks(), st.sampled_from(list(plan.Mode)))
def test_what_is_promised_holds_whoever_passes(
    known: tuple[fleet.Fleet, tenancy.Tenants], asked: list[wishes.Wish], mode: plan.Mode
) -> None:
    snapshot, tenants = known
    found = plan.pack(snapshot, asked, plan.Settings(mode=mode, tenants=tenants))
    if found.promise is None:
        assert not any(grant.passes for grant in found.grants)
        return
    head, at = found.promise.unit, found.promise.shadow.at
    assert at >= NOW
    assert head in [left.unit for left in found.left]
    victims = {name for eviction in found.evictions for name in eviction.victims}
    ended = {item.name for item in snapshot.slices if (tenants.end_of(item, NOW) or at + HOUR) <= at}
    then = changes.without_slices(snapshot, victims | ended)
    lasting = [grant for grant in found.grants if not is_gone(grant, asked, head, at)]
    then = with_grants(then, lasting)
    assert fits_together(then, head)


def is_gone(grant: plan.Grant, asked: list[wishes.Wish], head: wishes.Unit, at: datetime.datetime) -> bool:
    """By its own end, or because the one that waits may end it, if it passed."""
    one = grant.wish
    if one.ends_at is not None and one.ends_at <= at:
        return True
    [unit] = [unit for unit in wishes.units(asked) if grant.slice_name in dict(unit.members)]
    old_enough = NOW + datetime.timedelta(seconds=one.min_run_s) <= at
    return one.preemptible and not unit.is_gang and unit.priority < head.priority and old_enough


def fits_together(snapshot: fleet.Fleet, unit: wishes.Unit) -> bool:
    """Some way to serve it fits, by asking for nothing else."""
    asked = [
        dataclasses.replace(unit.wishes[index], name=f"again-{number}", count=1)
        for number, (_, index) in enumerate(unit.members)
    ]
    return bool(plan.pack(snapshot, asked).grants)


@hypothesis.settings(max_examples=60, deadline=None)
@hypothesis.given(busy_worlds(), asks(), st.sampled_from(list(plan.Mode)))
def test_without_terms_a_plan_is_what_it_was(
    known: tuple[fleet.Fleet, tenancy.Tenants], asked: list[wishes.Wish], mode: plan.Mode
) -> None:
    """Nothing known of who runs, no ends: what a request says of its own interruption changes nothing."""
    snapshot, _ = known
    silent = [dataclasses.replace(one, ends_at=None) for one in asked]
    plain = [dataclasses.replace(one, preemptible=False, min_run_s=0.0) for one in silent]
    unknown = tenancy.Tenants({item.name: Tenancy() for item in snapshot.slices})
    found = [
        plan.pack(snapshot, plain, plan.Settings(mode=mode)),
        plan.pack(snapshot, silent, plan.Settings(mode=mode)),
        plan.pack(snapshot, silent, plan.Settings(mode=mode, tenants=unknown)),
    ]
    for one in found:
        assert (one.evictions, one.promise) == ((), None)
    spots = [[(grant.slice_name, grant.partition_ids) for grant in one.grants] for one in found]
    assert spots[0] == spots[1] == spots[2]
    assert found[0].classes == found[1].classes == found[2].classes
