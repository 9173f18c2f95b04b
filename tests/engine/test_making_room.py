"""Preemption, backfill, defragmentation, spares and advice: only what really helps, and what it costs."""

from __future__ import annotations

import dataclasses
import datetime

import hypothesis
import pytest
from hypothesis import strategies as st

from tests import builders
from tpuctl.engine import advice, backfill, changes, defrag, mending, placement, preemption, spares, tenancy
from tpuctl.engine.availability import spares as formulas
from tpuctl.model import fleet, invariants, operations, states, topology

NOW = builders.NOW
HOUR = datetime.timedelta(hours=1)
Tenancy = tenancy.Tenancy
YIELDS = Tenancy(preemptible=True)


def row(cubes: int) -> str:
    return f"4x4x{4 * cubes}"


def request(shape: str, **changes_: object) -> placement.Request:
    return placement.Request(topology=topology.parse(shape), **changes_)


def world(*slices: tuple[str, int, int], blocks: dict[str, int]) -> fleet.Fleet:
    """Blocks of so many cubes, and slices as (block, first cube, cubes) named s0, s1 ..."""
    cubes = [builders.cube(f"{block}-{i:02}", block) for block, n in blocks.items() for i in range(n)]
    items = [
        builders.slice_of(f"s{number}", row(count), *(f"{block}-{i:02}" for i in range(first, first + count)))
        for number, (block, first, count) in enumerate(slices)
    ]
    return builders.fleet_of(*cubes, slices=tuple(items))


def tenants(**terms: Tenancy) -> tenancy.Tenants:
    return tenancy.Tenants(terms)


# -- preemption ------------------------------------------------------------------------------------------


def test_the_priority_of_a_slice_is_its_own_unless_the_file_says_otherwise() -> None:
    def victims(own: int, said: Tenancy) -> object:
        item = builders.slice_of("s0", "4x4x4", "c0", priority=own)
        snapshot = builders.fleet_of(builders.cube("c0", "b"), slices=(item,))
        found = preemption.choose(snapshot, request("4x4x4"), tenants(s0=said), priority=5)
        return found and found.victims

    assert victims(0, YIELDS) == ("s0",)
    assert victims(5, YIELDS) is None
    assert victims(5, Tenancy(preemptible=True, priority=1)) == ("s0",)
    assert victims(0, Tenancy(preemptible=True, priority=6)) is None


def test_the_fewest_chips_go_then_the_fewest_slices() -> None:
    snapshot = world(("a", 0, 3), ("a", 3, 1), ("a", 4, 1), ("a", 5, 2), blocks={"a": 7})
    everybody = tenants(s0=YIELDS, s1=YIELDS, s2=YIELDS, s3=YIELDS)
    found = preemption.choose(snapshot, request(row(2)), everybody, priority=5)
    assert found is not None
    assert (found.victims, found.chips) == (("s3",), 128)
    three = preemption.choose(snapshot, request(row(3)), everybody, priority=5)
    assert three is not None
    assert three.victims == ("s0",)


def test_a_total_that_is_not_the_shape_costs_nobody_anything() -> None:
    """Known fault 15: 8 devices freed on 4 nodes, and the job still does not fit."""
    snapshot = world(("a", 0, 1), ("a", 1, 1), ("b", 0, 1), ("b", 1, 1), blocks={"a": 2, "b": 2})
    everybody = tenants(s0=YIELDS, s1=YIELDS, s2=YIELDS, s3=YIELDS)
    assert preemption.choose(snapshot, request(row(3)), everybody, priority=5) is None
    two = preemption.choose(snapshot, request(row(2)), everybody, priority=5)
    assert two is not None
    assert {snapshot.cubes_by_id[cube].block for cube in two.placement.cubes} == {"a"}
    assert two.victims == ("s0", "s1")


def test_unusable_cubes_of_a_victim_do_not_count() -> None:
    snapshot = changes.failed(world(("a", 0, 2), blocks={"a": 2}), ["a-00"])
    assert preemption.choose(snapshot, request(row(2)), tenants(s0=YIELDS), priority=5) is None


@pytest.mark.parametrize(
    "terms",
    [
        Tenancy(),
        Tenancy(preemptible=True, priority=5),
        Tenancy(preemptible=True, gang="g"),
        Tenancy(preemptible=True, min_run_s=3600.0, started_at=NOW - HOUR / 2),
    ],
    ids=["not preemptible", "as urgent", "of a gang", "too young"],
)
def test_who_may_not_be_ended_is_not(terms: Tenancy) -> None:
    snapshot = world(("a", 0, 2), blocks={"a": 2})
    assert preemption.choose(snapshot, request(row(2)), tenants(s0=terms), priority=5) is None


def test_nobody_else_s_slice_is_ended() -> None:
    snapshot = world(("a", 0, 2), blocks={"a": 2})
    foreign = snapshot.slices[0]._replace(owner=fleet.Owner("kueue", "Workload", "n", "w"))
    snapshot = dataclasses.replace(snapshot, slices=(foreign,))
    assert preemption.choose(snapshot, request(row(2)), tenants(s0=YIELDS), priority=5) is None


def test_there_is_a_limit_and_natural_ends_are_waited_for() -> None:
    """Known fault 31: eviction without a limit on what it wastes."""
    snapshot = world(("a", 0, 2), blocks={"a": 2})
    few = preemption.Limits(chips=64)
    assert preemption.choose(snapshot, request(row(2)), tenants(s0=YIELDS), 5, few) is None
    ending = tenants(s0=Tenancy(preemptible=True, ends_at=NOW + HOUR / 4))
    patient = preemption.Limits(patience_s=1800)
    assert preemption.choose(snapshot, request(row(2)), ending, 5, patient) is None
    assert preemption.choose(snapshot, request(row(2)), ending, 5) is not None


def test_sub_slices_free_a_cube_only_together() -> None:
    parts = (
        builders.slice_of("p1", "2x4x4", "c1.244.0"),
        builders.slice_of("p2", "2x2x1", "c1.221.9"),
    )
    snapshot = builders.fleet_of(builders.cube("c1"), slices=parts)
    one = preemption.choose(snapshot, request("4x4x4"), tenants(p1=YIELDS), 5)
    assert one is None
    both = preemption.choose(snapshot, request("4x4x4"), tenants(p1=YIELDS, p2=YIELDS), 5)
    assert both is not None
    assert (both.victims, both.chips) == (("p1", "p2"), 36)
    half = preemption.choose(snapshot, request("2x4x4"), tenants(p1=YIELDS, p2=YIELDS), 5)
    assert half is not None
    assert half.victims == ("p2",)


# -- backfill --------------------------------------------------------------------------------------------


def test_the_shadow_time_is_when_the_ends_expected_make_room() -> None:
    snapshot = world(("a", 0, 2), ("a", 2, 2), ("a", 4, 2), blocks={"a": 6})
    known = tenants(s0=Tenancy(ends_at=NOW + 3 * HOUR), s1=Tenancy(ends_at=NOW + HOUR))
    assert backfill.shadow(snapshot, request(row(2)), known) == (NOW + HOUR, ("s1",))
    assert backfill.shadow(snapshot, request(row(4)), known) == (NOW + 3 * HOUR, ("s1", "s0"))
    assert backfill.shadow(snapshot, request(row(6)), known) is None


def test_a_later_request_jumps_only_if_the_head_starts_no_later() -> None:
    snapshot = world(("a", 0, 4), blocks={"a": 6})
    known = tenants(s0=Tenancy(ends_at=NOW + 2 * HOUR))
    queue = [
        backfill.Queued("head", request(row(5))),
        backfill.Queued("long", request(row(2)), NOW + 9 * HOUR),
        backfill.Queued("short", request(row(1)), NOW + HOUR),
        backfill.Queued("narrow", request(row(1)), NOW + 9 * HOUR),
    ]
    found = backfill.plan(snapshot, queue, known)
    assert (found.head, found.shadow) == ("head", (NOW + 2 * HOUR, ("s0",)))
    # Of 6 cubes the head leaves one, which somebody long-lived may have.
    assert [(start.name, start.jumped) for start in found.starts] == [("short", True), ("narrow", True)]
    assert found.delaying == ("long",)


def test_overdue_slices_may_end_any_moment() -> None:
    snapshot = world(("a", 0, 2), blocks={"a": 2})
    late = tenants(s0=Tenancy(ends_at=NOW - HOUR))
    assert backfill.shadow(snapshot, request(row(1)), late) == (NOW, ("s0",))


def test_who_leaves_counts_as_leaving_and_holds_until_it_has_left() -> None:
    """Known fault 33."""
    snapshot = world(("a", 0, 2), blocks={"a": 2})
    leaving = dataclasses.replace(snapshot, slices=(snapshot.slices[0]._replace(deleting=True),))
    assert isinstance(placement.place(leaving, request(row(1))), placement.Refusal)
    assert backfill.shadow(leaving, request(row(1)), tenants()) == (NOW, ("s0",))


# -- defragmentation -------------------------------------------------------------------------------------


def test_the_smallest_slice_that_makes_room_is_moved_and_nothing_else() -> None:
    snapshot = world(("a", 0, 3), ("a", 3, 1), ("b", 0, 2), blocks={"a": 6, "b": 4})
    found = defrag.plan(snapshot, request(row(3)), tenants())
    assert isinstance(found, defrag.Plan)
    [move] = found.moves
    assert (move.slice_name, move.from_block, move.to_block) == ("s1", "a", "b")
    assert (found.cost_chip_h, found.gain_chip_h, found.pays) == (32.0, 192 * 24.0, True)


def test_it_does_not_pay_if_room_comes_by_itself_soon_enough() -> None:
    snapshot = world(("a", 0, 3), ("a", 3, 2), blocks={"a": 5, "b": 3})
    known = tenants(s0=Tenancy(ends_at=NOW + HOUR / 60), s1=Tenancy(exempt=True))
    found = defrag.plan(snapshot, request(row(4), block="b"), known)
    assert isinstance(found, defrag.Hopeless)
    moving = defrag.plan(snapshot, request(row(3), block="a"), known)
    assert isinstance(moving, defrag.Plan)
    assert moving.wait_is_known
    assert not moving.pays


@pytest.mark.parametrize(
    "terms",
    [Tenancy(exempt=True), Tenancy(min_run_s=7200.0, started_at=NOW - HOUR)],
    ids=["exempt", "too young"],
)
def test_who_may_not_be_moved_is_not(terms: Tenancy) -> None:
    snapshot = world(("a", 0, 2), blocks={"a": 3, "b": 2})
    assert isinstance(defrag.plan(snapshot, request(row(3)), tenants(s0=terms)), defrag.Hopeless)
    assert isinstance(defrag.plan(snapshot, request(row(3)), tenants()), defrag.Plan)


def test_sub_slices_are_gathered_into_fewer_cubes() -> None:
    parts = tuple(builders.slice_of(f"p{i}", "2x2x1", f"c{i}.221.0") for i in range(3))
    snapshot = builders.fleet_of(*(builders.cube(f"c{i}") for i in range(3)), slices=parts)
    found = defrag.plan(snapshot, request(row(2)), tenants())
    assert isinstance(found, defrag.Plan)
    assert len(found.moves) == 2
    assert {move.new_partitions[0].split(".")[0] for move in found.moves} == {
        cube.id for cube in snapshot.cubes if cube.id not in found.placement.cubes
    }


# -- spares ----------------------------------------------------------------------------------------------


def test_spares_follow_the_published_table() -> None:
    """u = .0127 (a day away at 8 in 10,000 host-days): 16 cubes need 2 for 99 %, 48 need 3."""
    outages = formulas.Outages(failures_per_host_day=8e-4, outage_h=24.0)
    snapshot = world(("a", 0, 48), ("b", 0, 16), blocks={"a": 50, "b": 17, "c": 4})
    found = spares.advise(snapshot, outages, 0.99, recovery_h=0.1)
    assert [(line.block, line.needed, line.free, line.missing) for line in found] == [
        ("a", 3, 2, 1),
        ("b", 2, 1, 1),
        ("c", 0, 4, 0),
    ]
    assert found[0].pays
    assert found[0].pays_below == pytest.approx(16 * 48 * 48 * 8e-4 * 23.9 / 24)


# -- advice ----------------------------------------------------------------------------------------------


def acts(found: object) -> list[tuple[str, tuple[str, ...]]]:
    assert isinstance(found, advice.Advice)
    return [(way.actions[0].act, tuple(action.target for action in way.actions)) for way in found.ways]


def ask(snapshot: fleet.Fleet, shape: str, **changes_: object) -> placement.Placement | advice.Advice:
    question = {"tenants": tenants(), "request": request(shape), **changes_}
    return advice.advise(snapshot, advice.Question(**question))


def test_what_fits_needs_no_advice() -> None:
    assert isinstance(ask(world(blocks={"a": 2}), row(2)), placement.Placement)


def test_never_is_told_from_not_now() -> None:
    snapshot = world(("a", 0, 2), blocks={"a": 2})
    never, later = ask(snapshot, row(3)), ask(snapshot, row(2))
    assert isinstance(never, advice.Advice)
    assert isinstance(later, advice.Advice)
    assert (never.refusal.never, later.refusal.never) == (True, False)
    assert never.ways == ()


def test_all_kinds_of_ways_are_found_and_the_cheapest_is_first() -> None:
    snapshot = world(("a", 0, 2), ("b", 0, 1), blocks={"a": 3, "b": 3})
    known = tenants(s0=Tenancy(preemptible=True, ends_at=NOW + 5 * HOUR), s1=Tenancy(ends_at=NOW + 99 * HOUR))
    found = ask(snapshot, row(3), tenants=known, priority=1, fallbacks=(topology.parse(row(2)),))
    assert acts(found) == [
        (advice.Act.MOVE, ("s1",)),
        (advice.Act.PREEMPT, ("s0",)),
        (advice.Act.WAIT, ("s0",)),
        (advice.Act.FALL_BACK, (row(2),)),
    ]
    assert isinstance(found, advice.Advice)
    # 64 chips lose half an hour; 128 an hour; 192 wait 5 hours; 64 are missing for a day.
    assert [way.cost_chip_h for way in found.ways] == [32.0, 128.0, 960.0, 1536.0]


def test_holds_cordons_and_repairs() -> None:
    base = world(blocks={"a": 3})
    held = dataclasses.replace(base, claims=(operations.Claim("a-00", "hold by jo: burn-in"),))
    assert acts(ask(held, row(3)))[0] == (advice.Act.RELEASE, ("a-00",))
    closed = [builders.changed(cube, 0, schedulable=False) for cube in base.cubes[:1]]
    cordoned = builders.fleet_of(*closed, *base.cubes[1:])
    assert acts(ask(cordoned, row(3))) == [(advice.Act.UNCORDON, ("a-00",))]
    broken = changes.failed(base, ["a-01"])
    assert acts(ask(broken, row(3))) == [(advice.Act.REPAIR, ("a-01",))]
    bare = builders.fleet_of(*base.cubes[:2], dataclasses.replace(base.cubes[2], hosts=()))
    assert acts(ask(bare, row(3))) == [(advice.Act.REPAIR, ("a-02",))]


def test_degraded_cubes_can_be_allowed_or_given_to_somebody_who_does_not_mind() -> None:
    worn = [builders.cube(f"w{i}", "a", state=states.PartitionState.DEGRADED) for i in range(2)]
    running = builders.slice_of("s0", row(2), "c0", "c1")
    snapshot = builders.fleet_of(*(builders.cube(f"c{i}", "a") for i in range(2)), *worn, slices=(running,))
    content = tenants(s0=Tenancy(allow_degraded=True))
    found = acts(ask(snapshot, row(2), tenants=content))
    assert (advice.Act.ALLOW_DEGRADED, (row(2),)) in found
    assert (advice.Act.SWAP, ("s0",)) in found
    assert advice.Act.SWAP not in [act for act, _ in acts(ask(snapshot, row(2)))]


def test_where_no_single_kind_suffices_kinds_are_combined() -> None:
    snapshot = changes.failed(world(("a", 0, 1), blocks={"a": 3}), ["a-02"])
    found = ask(snapshot, row(3), tenants=tenants(s0=YIELDS), priority=1)
    assert isinstance(found, advice.Advice)
    [way] = found.ways
    assert {(action.act, action.target) for action in way.actions} == {
        (advice.Act.REPAIR, "a-02"),
        (advice.Act.PREEMPT, "s0"),
    }


KINDS = st.sampled_from(
    ["whole", "whole", "whole", "worn", "sick", "short", "cordoned", "held", "worn and cordoned"]
)
SHAPES = ("2x2x1", "2x4x4", "4x4x4", "4x4x8", "4x4x12")


def _cube_of(cube_id: str, block: str, kind: str) -> fleet.Cube:
    if kind == "worn and cordoned":
        return builders.changed(builders.cube_of(cube_id, block, "worn"), 3, schedulable=False)
    return builders.cube_of(cube_id, block, kind)


@st.composite
def busy_worlds(draw: st.DrawFn) -> tuple[fleet.Fleet, tenancy.Tenants]:
    kinds = draw(st.lists(KINDS, min_size=2, max_size=11))
    snapshot = builders.fleet_of(
        *(_cube_of(f"c{i}", f"b{i % 3}", kind) for i, kind in enumerate(kinds)),
    )
    terms = {}
    for number in range(draw(st.integers(0, 6))):
        shape = draw(st.sampled_from(SHAPES))
        found = placement.place(snapshot, request(shape))
        if isinstance(found, placement.Placement):
            name = f"s{number}"
            item = builders.slice_of(name, shape, *found.partition_ids)
            snapshot = dataclasses.replace(snapshot, slices=(*snapshot.slices, item))
            terms[name] = Tenancy(
                preemptible=draw(st.booleans()),
                exempt=draw(st.booleans()),
                gang=draw(st.sampled_from(["", "g"])),
                allow_degraded=draw(st.booleans()),
                ends_at=draw(st.sampled_from([None, NOW + HOUR, NOW + 5 * HOUR])),
            )
    claims = tuple(operations.Claim(f"c{i}", "hold by jo") for i, kind in enumerate(kinds) if kind == "held")
    return dataclasses.replace(snapshot, claims=claims), tenancy.Tenants(terms)


@st.composite
def scattered_worlds(draw: st.DrawFn) -> tuple[fleet.Fleet, tenancy.Tenants]:
    """Small slices all over the place, so that there is room, but not in one block."""
    kinds = draw(st.lists(KINDS, min_size=4, max_size=11))
    items, terms = [], {}
    for number, kind in enumerate(kinds):
        part, shape = draw(
            st.sampled_from([("", ""), ("", "4x4x4"), (".221.0", "2x2x1"), (".244.1", "2x4x4")])
        )
        if not shape or kind in ("sick", "short"):
            continue
        items.append(builders.slice_of(f"s{number}", shape, f"c{number}{part}"))
        terms[f"s{number}"] = Tenancy(
            exempt=draw(st.sampled_from([False, False, False, True])), allow_degraded=draw(st.booleans())
        )
    snapshot = builders.fleet_of(
        *(_cube_of(f"c{i}", f"b{i % 3}", kind) for i, kind in enumerate(kinds)), slices=tuple(items)
    )
    claims = tuple(operations.Claim(f"c{i}", "hold by jo") for i, kind in enumerate(kinds) if kind == "held")
    return dataclasses.replace(snapshot, claims=claims), tenancy.Tenants(terms)


WORLDS = st.one_of(busy_worlds(), scattered_worlds())


@st.composite
def requests(draw: st.DrawFn) -> placement.Request:
    return request(
        draw(st.sampled_from(SHAPES)),
        allow_degraded=draw(st.booleans()),
        keep_free=draw(st.sampled_from([0, 0, 1])),
    )


def can_be_formed(
    snapshot: fleet.Fleet, terms: tenancy.Tenants, name: str, partition_ids: tuple[str, ...]
) -> bool:
    """If true, the slice could be formed there by itself, once it is gone from where it is."""
    item = snapshot.slices_by_name[name]
    assert item.topology is not None
    wish = placement.Request(
        topology=item.topology, cubes=partition_ids, allow_degraded=terms.of(item).allow_degraded
    )
    found = placement.place(snapshot.without_slice(name), wish)
    return isinstance(found, placement.Placement) and found.partition_ids == partition_ids


@hypothesis.settings(max_examples=200, deadline=None)
@hypothesis.given(WORLDS, requests(), st.integers(0, 1))
def test_every_way_that_is_named_works(
    known: tuple[fleet.Fleet, tenancy.Tenants], wish: placement.Request, priority: int
) -> None:
    """Applied one by one, its actions keep the rules, every slice that is made again can be formed where it
    goes, and the request fits in the end; nobody protected is touched.
    """
    snapshot, terms = known
    question = advice.Question(
        request=wish, tenants=terms, priority=priority, fallbacks=(topology.parse("2x2x1"),)
    )
    found = advice.advise(snapshot, question)
    assert found == advice.advise(snapshot, question)
    if isinstance(found, placement.Placement):
        return
    rules = set(invariants.check_invariants(snapshot))
    for way in found.ways:
        after = snapshot
        for action in way.actions:
            if action.act is advice.Act.PREEMPT:
                assert terms.by_name[action.target].preemptible
                assert not terms.by_name[action.target].gang
            if action.act in (advice.Act.MOVE, advice.Act.SWAP):
                assert not terms.by_name[action.target].exempt
                assert can_be_formed(after, terms, action.target, action.partition_ids)
            after = mending.applied(after, action)
        assert after == advice.apply(snapshot, way)
        assert placement.place(after, way.request) == way.placement
        assert set(invariants.check_invariants(after)) <= rules


@hypothesis.settings(max_examples=120, deadline=None)
@hypothesis.given(scattered_worlds(), requests())
def test_moves_can_be_made_in_any_order(
    known: tuple[fleet.Fleet, tenancy.Tenants], wish: placement.Request
) -> None:
    snapshot, terms = known
    found = defrag.plan(snapshot, wish, terms)
    if not isinstance(found, defrag.Plan):
        return
    for moves in (found.moves, found.moves[::-1]):
        after = snapshot
        for move in moves:
            assert can_be_formed(after, terms, move.slice_name, move.new_partitions)
            after = changes.moved(after, move.slice_name, move.new_partitions)
            assert invariants.check_invariants(after) == invariants.check_invariants(snapshot)
    assert placement.place(after, wish) == found.placement
