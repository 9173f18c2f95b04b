"""The index: constant work, real partition ids, and the books always balance."""

from __future__ import annotations

import dataclasses
import itertools

import hypothesis
import pytest
from hypothesis import stateful
from hypothesis import strategies as st

from tests import builders
from tpuctl.engine import health, placement
from tpuctl.engine.inventory import obstacles, recent, shelves, stock
from tpuctl.model import fleet, invariants, states, topology

SMALL = topology.SUB_SLICE_SHAPES
HALF = topology.parse("2x4x4")


def index_of(snapshot: fleet.Fleet, **terms: object) -> stock.Stock:
    return stock.Stock(snapshot, stock.Terms(**terms))


def multisets(volume: int) -> list[tuple[int, ...]]:
    """Every way to write at most `volume` hosts as sizes 1, 2, 4, 8 (and 16 as a whole cube)."""
    counts = itertools.product(range(2), range(3), range(5), range(9), range(17))
    sizes = (16, 8, 4, 2, 1)
    return [
        tuple(size for size, count in zip(sizes, row, strict=True) for _ in range(count))
        for row in counts
        if sum(size * count for size, count in zip(sizes, row, strict=True)) <= volume
    ]


def test_every_mix_of_sub_slices_that_fills_a_cube_at_most_fits_into_it() -> None:
    """All 201 multisets with a volume of up to 16 hosts: sizes that divide each other leave no gaps."""
    shape_of = {shape.hosts: shape for shape in topology.PARTITION_SHAPES}
    mixes = [mix for mix in multisets(16) if mix]
    assert len(mixes) == 201
    snapshot = builders.fleet_of(builders.cube("c1"))
    for mix in mixes:
        index = index_of(snapshot)
        for number, hosts in enumerate(mix):
            if hosts == topology.HOSTS_PER_CUBE:
                index.take(f"s{number}", 0, 1)
                continue
            found = index.best_part(shape_of[hosts])
            assert found is not None, mix
            index.take_part(f"s{number}", *found)
        assert index.hosts(index.slot_of_cube["c1"]) == (16 - sum(mix), sum(mix), 0)


def test_small_pieces_are_taken_where_they_break_up_the_least() -> None:
    snapshot = builders.fleet_of(builders.cube("c1"), slices=(builders.slice_of("s", "2x2x1", "c1.221.5"),))
    for shape, wanted in (("2x2x1", "c1.221.4"), ("2x2x2", "c1.222.3"), ("2x2x4", "c1.224.0")):
        found = placement.place(snapshot, placement.Request(topology=topology.parse(shape)))
        assert isinstance(found, placement.Placement)
        assert found.partition_ids == (wanted,)


def test_a_cube_short_of_hosts_serves_sub_slices_and_its_missing_hosts_count_as_broken() -> None:
    index = index_of(builders.fleet_of(builders.cube("c1", hosts=11)))
    slot = index.slot_of_cube["c1"]
    assert index.hosts(slot) == (11, 0, 5)
    found = index.best_part(HALF)
    assert found is not None
    index.take_part("s", *found)
    assert index.hosts(slot) == (3, 8, 5)
    assert index.best_part(HALF) is None


def test_a_cube_with_a_degraded_link_is_home_to_sub_slices_before_whole_cubes_are() -> None:
    """An optical link outside the cube does not concern what is inside it."""
    worn = builders.cube("c2", state=states.PartitionState.DEGRADED)
    snapshot = builders.fleet_of(builders.cube("c1"), worn, builders.cube("c3"))
    found = placement.place(snapshot, placement.Request(topology=HALF))
    assert isinstance(found, placement.Placement)
    assert found.cubes == ("c2",)


@pytest.mark.parametrize("kind", ["whole", "worn", "sick", "short", "cordoned"])
@pytest.mark.parametrize("tolerant", [False, True])
def test_the_shortcut_for_quiet_cubes_judges_as_health_does(kind: str, tolerant: bool) -> None:
    cube = builders.cube_of("c1", "b1", kind)
    index = index_of(builders.fleet_of(cube), allow_degraded=tolerant)
    parts = {
        part.id: part.obstacle for shape in SMALL for part in index.tree_of(index.slots[0][0]).parts[shape]
    }
    by_name = {host.name: host for host in cube.hosts}
    for partition in cube.partitions:
        if partition.shape in SMALL:
            hosts = tuple(by_name[name] for name in partition.hosts)
            verdict = health.judge_part(hosts, partition.shape, now=builders.NOW).verdict
            wanted = obstacles.of_health(verdict, hosts, allow_degraded=tolerant)
            assert parts.pop(partition.id) == wanted
    assert parts == {}


def test_labels_that_lack_a_shape_are_found_out_in_time() -> None:
    """A healthy cube is believed to have all partitions until one is asked for."""
    ids = ("", "c1.222.0", "c1.224.0", "c1.244.0", "c1")
    bare = builders.cube("c1")
    bare = dataclasses.replace(
        bare,
        hosts=tuple(host._replace(partition_ids=(ids[0], *host.partition_ids[1:])) for host in bare.hosts),
    )
    one = placement.Request(topology=SMALL[0])
    assert isinstance(placement.place(builders.fleet_of(bare), one), placement.Refusal)
    found = placement.place(builders.fleet_of(bare, builders.cube("c2")), one)
    assert isinstance(found, placement.Placement)
    assert found.cubes == ("c2",)


def test_a_cube_id_that_equals_a_block_id_hides_neither() -> None:
    """Known fault 20: a name that two levels share."""
    snapshot = builders.fleet_of(builders.cube("same", "same"), builders.cube("other", "same"))
    found = placement.place(snapshot, placement.Request(topology=topology.parse("4x4x8")))
    assert isinstance(found, placement.Placement)
    assert (found.block, found.cubes) == ("same", ("other", "same"))


def test_spares_are_kept_and_counted() -> None:
    snapshot = builders.fleet_of(*(builders.cube(f"c{i}") for i in range(4)))
    wish = placement.Request(topology=topology.parse("4x4x12"), keep_free=2)
    refused = placement.place(snapshot, wish)
    assert isinstance(refused, placement.Refusal)
    assert (refused.usable, dict(refused.candidates[0].obstacles)) == (2, {placement.Obstacle.SPARE: 2})
    assert isinstance(placement.place(snapshot, dataclasses.replace(wish, keep_free=1)), placement.Placement)


def test_a_sub_slice_breaks_no_spare_but_uses_spoiled_cubes() -> None:
    whole = builders.fleet_of(builders.cube("c1"))
    wish = placement.Request(topology=HALF, keep_free=1)
    assert isinstance(placement.place(whole, wish), placement.Refusal)
    mixed = builders.fleet_of(builders.cube("c1"), builders.cube("c2", hosts=15))
    found = placement.place(mixed, wish)
    assert isinstance(found, placement.Placement)
    assert found.cubes == ("c2",)


@pytest.mark.parametrize("kind", ["short", "worn", "sick"])
def test_cubes_that_stay_spoiled_are_filled_before_those_that_will_be_whole_again(kind: str) -> None:
    """A healthy cube is whole again when its sub-slices end, however full it is now."""
    spoiled = {
        "short": builders.cube("c3", hosts=15),
        "worn": builders.cube("c3", state=states.PartitionState.DEGRADED),
        "sick": builders.changed(builders.cube("c3"), 3, ready=False),
    }[kind]
    shared = builders.slice_of("s", "2x4x4", "c2.244.0")
    snapshot = builders.fleet_of(builders.cube("c1"), builders.cube("c2"), spoiled, slices=(shared,))
    index = index_of(snapshot, allow_degraded=True)
    order = []
    for number in range(18):
        found = index.best_part(SMALL[0])
        assert found is not None
        index.take_part(f"t{number}", *found)
        order.append(found[0].cube.id)
    usable = 15 if kind != "worn" else 16
    assert order == ["c3"] * usable + ["c2"] * (18 - usable)


def test_the_index_of_a_snapshot_is_made_once() -> None:
    snapshot = builders.fleet_of(builders.cube("c1"))
    assert recent.of(snapshot, stock.Terms()) is recent.of(snapshot, stock.Terms())
    other = dataclasses.replace(snapshot)
    assert recent.of(other, stock.Terms()) is not recent.of(snapshot, stock.Terms())


@hypothesis.given(st.sets(st.integers(0, 200), min_size=1), st.data())
def test_sets_as_bits(numbers: set[int], data: st.DataObject) -> None:
    mask = sum(1 << number for number in numbers)
    assert list(shelves.members(mask)) == sorted(numbers)
    assert shelves.lowest(mask) == min(numbers)
    count = data.draw(st.integers(0, len(numbers)))
    assert list(shelves.members(shelves.first(mask, count))) == sorted(numbers)[:count]


BLOCKS = ("b1", "b2", "b3")
KINDS = st.sampled_from(["whole", "whole", "whole", "worn", "sick", "short", "cordoned"])


class Books(stateful.RuleBasedStateMachine):
    """Take, release, fail and repair in any order; the index must equal one that is built anew."""

    @stateful.initialize(kinds=st.lists(KINDS, min_size=3, max_size=9), tolerant=st.booleans())
    def begin(self, kinds: list[str], tolerant: bool) -> None:
        self.cubes = {
            f"c{number}": builders.cube_of(f"c{number}", BLOCKS[number % 3], kind)
            for number, kind in enumerate(kinds)
        }
        self.kinds = {f"c{number}": kind for number, kind in enumerate(kinds)}
        self.slices: dict[str, fleet.Slice] = {}
        self.tolerant = tolerant
        self.index = index_of(self.snapshot, allow_degraded=tolerant)

    @property
    def snapshot(self) -> fleet.Fleet:
        return builders.fleet_of(*self.cubes.values(), slices=tuple(self.slices.values()))

    @stateful.rule(shape=st.sampled_from([*SMALL, topology.CUBE, topology.parse("4x4x8")]))
    def place(self, shape: topology.Topology) -> None:
        name = f"s{len(self.slices)}-{shape}"
        if name in self.slices:
            return
        request = placement.Request(topology=shape, allow_degraded=self.tolerant)
        found = placement.choose(self.index, request)
        same = placement.place(self.snapshot, request)
        if found is None:
            assert isinstance(same, placement.Refusal)
            return
        assert isinstance(same, placement.Placement)
        assert found == (same.block, same.cubes, same.partition_ids)
        self.slices[name] = builders.slice_of(name, str(shape), *found[2])
        block = self.index.number_of_block[found[0]]
        if shape.is_sub_slice:
            slot = self.index.slot_of_cube[found[1][0]]
            [part] = [part for part in self.index.tree_of(slot).parts[shape] if part.id == found[2][0]]
            self.index.take_part(name, slot, part)
        else:
            numbers = [self.index.slot_of_cube[cube_id].number for cube_id in found[1]]
            self.index.take(name, block, sum(1 << number for number in numbers))

    @stateful.precondition(lambda self: self.slices)
    @stateful.rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.slices)))
        del self.slices[name]
        self.index.release(name)

    @stateful.rule(data=st.data(), kind=KINDS)
    def change(self, data: st.DataObject, kind: str) -> None:
        cube_id = data.draw(st.sampled_from(sorted(self.cubes)))
        held = {part for item in self.slices.values() for part in item.partition_ids}
        short = "short" in (kind, self.kinds[cube_id])
        if short and any(part == cube_id or part.startswith(f"{cube_id}.") for part in held):
            return  # hosts that a slice has neither come nor go in this test
        self.kinds[cube_id] = kind
        self.cubes[cube_id] = builders.cube_of(cube_id, self.cubes[cube_id].block, kind)
        self.index.replace(self.cubes[cube_id])

    @stateful.invariant()
    def balance(self) -> None:
        snapshot = self.snapshot
        fresh = index_of(snapshot, allow_degraded=self.tolerant)
        assert fresh.free == self.index.free
        assert fresh.largest == self.index.largest
        for cube_id, slot in self.index.slot_of_cube.items():
            assert sum(self.index.hosts(slot)) == topology.HOSTS_PER_CUBE
            assert self.index.hosts(slot) == fresh.hosts(fresh.slot_of_cube[cube_id])
        for shape in SMALL:
            mine, other = self.index.best_part(shape), fresh.best_part(shape)
            assert (mine and mine[1].id) == (other and other[1].id)
        assert invariants.check_invariants(snapshot) == ()


Books.TestCase.settings = hypothesis.settings(max_examples=40, stateful_step_count=20, deadline=None)
TestBooks = Books.TestCase
