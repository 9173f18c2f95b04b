"""Wiring, twists and distances against the published machine."""

import random

import pytest

from tpuctl.engine import mix
from tpuctl.engine.fabric import distance, switchboard, twist, wiring
from tpuctl.model import topology

V4 = switchboard.TPU_V4
SHAPES = [topology.parse(text) for text in ("4x4x4", "4x4x8", "4x8x8", "8x8x8", "4x4x32", "8x16x16")]


def lay_out(text: str, prefix: str = "c", *, twisted: bool = False) -> wiring.SliceWiring:
    shape = topology.parse(text)
    names = tuple(f"{prefix}{n}" for n in range(shape.cubes if not shape.is_sub_slice else 1))
    return wiring.SliceWiring(topology=shape, cubes=names, twisted=twisted)


def test_the_published_switches() -> None:
    assert (V4.switches, V4.usable_ports + V4.spare_ports, V4.max_cubes) == (48, 136, 64)
    assert switchboard.TPU7X_ASSUMED.max_cubes == 144


@pytest.mark.parametrize(
    ("switches", "ports", "max_cubes", "lanes", "fibres"),
    [(48, 128, 64, 1, 1), (24, 128, 32, 2, 1), (96, 128, 64, 1, 2), (16, 300, 50, 3, 1)],
)
def test_count_and_radix_are_free(switches: int, ports: int, max_cubes: int, lanes: int, fibres: int) -> None:
    board = switchboard.Switchboard(switches=switches, usable_ports=ports)
    assert (board.max_cubes, board.lanes_per_switch, board.fibres_per_lane) == (max_cubes, lanes, fibres)
    used = {board.switch_of(lane, fibre) for lane in range(48) for fibre in range(fibres)}
    assert used == set(range(switches))
    circuits = lay_out("4x8x8").circuits(board)
    assert len(circuits) == 48 * 4 * fibres
    assert wiring.is_consistent(circuits)


@pytest.mark.parametrize(("switches", "ports"), [(0, 128), (47, 128), (36, 128), (48, 1)])
def test_switches_that_cannot_serve_are_refused(switches: int, ports: int) -> None:
    with pytest.raises(ValueError, match=r"switches|ports"):
        switchboard.Switchboard(switches=switches, usable_ports=ports)


@pytest.mark.parametrize("shape", SHAPES)
def test_every_axis_is_a_permutation_with_cycles_as_long_as_the_axis(shape: topology.Topology) -> None:
    for axis in range(3):
        successor = wiring.successors(shape, axis)
        assert sorted(successor) == list(range(shape.cubes))
        for start in range(shape.cubes):
            walk = [start]
            while (after := successor[walk[-1]]) != start:
                walk.append(after)
            assert len(walk) == shape[axis] // 4


@pytest.mark.parametrize(("text", "circuits"), [("4x4x4", 48), ("8x16x16", 1536), ("16x24x24", 6912)])
def test_a_slice_of_k_cubes_has_48_k_circuits(text: str, circuits: int) -> None:
    found = lay_out(text).circuits(V4)
    assert len(found) == circuits == 48 * topology.parse(text).cubes
    assert wiring.is_consistent(found)


def test_a_lone_cube_is_wired_to_itself_and_a_sub_slice_not_at_all() -> None:
    assert all(circuit.plus == circuit.minus for circuit in lay_out("4x4x4").circuits(V4))
    assert lay_out("2x2x4").circuits(V4) == frozenset()


def test_slices_on_disjoint_cubes_share_no_port_and_any_cubes_will_do() -> None:
    rng = random.Random(4)
    cubes = [f"cube-{n}" for n in range(64)]
    rng.shuffle(cubes)
    pieces = (
        ("8x16x16", cubes[:32]),
        ("8x8x16", cubes[32:48]),
        ("4x8x8", cubes[48:52]),
        ("8x8x12", cubes[52:64]),
    )
    everything = [
        circuit
        for text, ids in pieces
        for circuit in wiring.SliceWiring(topology=topology.parse(text), cubes=tuple(ids)).circuits(V4)
    ]
    assert len(everything) == 48 * 64
    assert wiring.is_consistent(everything)


def test_sharing_a_cube_is_noticed() -> None:
    one, other = lay_out("4x4x8"), lay_out("4x4x12")
    assert not wiring.is_consistent([*one.circuits(V4), *other.circuits(V4)])


@pytest.mark.parametrize("twisted", [False, True])
@pytest.mark.parametrize("text", ["4x4x8", "4x8x8", "8x8x16", "8x16x16"])
def test_a_swap_touches_at_most_96_circuits_each_way(text: str, *, twisted: bool) -> None:
    before = lay_out(text, twisted=twisted)
    for old in before.cubes:
        change = wiring.rewire(before, before.with_swap(old, "new"), V4)
        assert len(change.removed) == len(change.added) <= 96
        assert all(old in (circuit.plus, circuit.minus) for circuit in change.removed)
        assert all("new" in (circuit.plus, circuit.minus) for circuit in change.added)


def test_a_swap_in_2048_chips_is_16_times_less_than_forming() -> None:
    before = lay_out("8x16x16")
    change = wiring.rewire(before, before.with_swap("c5", "new"), V4)
    assert len(before.circuits(V4)) / len(change.removed) == 16


@pytest.mark.parametrize(
    ("text", "cubes", "twisted"),
    [("4x4x8", ("a",), False), ("4x4x8", ("a", "a"), False), ("4x4x12", ("a", "b", "c"), True)],
)
def test_wrong_layouts_are_refused(text: str, cubes: tuple[str, ...], *, twisted: bool) -> None:
    with pytest.raises(ValueError, match=r"distinct|twisted"):
        wiring.SliceWiring(topology=topology.parse(text), cubes=cubes, twisted=twisted)


def test_swapping_a_stranger_is_refused() -> None:
    with pytest.raises(ValueError, match="not a cube"):
        lay_out("4x4x8").with_swap("stranger", "new")


def test_twistable_shapes_up_to_144_cubes() -> None:
    found = [str(shape) for shape in twist.twistable(topology.cube_shapes())]
    assert sorted(found) == sorted(
        ["4x4x8", "4x8x8", "8x8x16", "8x16x16", "12x12x24", "12x24x24", "16x16x32"]
    )
    with pytest.raises(ValueError, match="cannot be twisted"):
        twist.shifts(topology.parse("8x8x8"))


def test_gke_does_not_offer_twists_and_we_say_so() -> None:
    assert twist.OFFERED_BY_GKE is False
    assert "GKE does not offer twisted slices" in twist.NOTE
    assert not hasattr(topology.parse("4x4x8"), "twisted")


@pytest.mark.parametrize(
    ("text", "regular", "twisted"),
    [
        ("4x4x8", (4.031, 8), (3.465, 6)),
        ("4x8x8", (5.020, 10), (4.329, 6)),
        ("8x8x16", (8.008, 16), (6.976, 12)),
        ("8x16x16", (10.005, 20), (8.723, 12)),
    ],
)
def test_distances_found_by_walking_the_circuits(
    text: str, regular: tuple[float, int], twisted: tuple[float, int]
) -> None:
    shape = topology.parse(text)
    for want, found in (
        (regular, distance.distances(shape)),
        (twisted, distance.distances(shape, twisted=True)),
    ):
        assert found.mean_hops == pytest.approx(want[0], abs=5e-4)
        assert found.diameter_hops == want[1]


@pytest.mark.parametrize("twisted", [False, True])
def test_every_chip_of_a_torus_sees_the_same_distances(*, twisted: bool) -> None:
    graph = distance.chip_graph(topology.parse("4x8x8"), twisted=twisted)
    assert {len(neighbours) for neighbours in graph} == {6}
    assert len({tuple(sorted(distance.hops_from(graph, start))) for start in range(256)}) == 1


def test_a_sub_slice_is_a_mesh() -> None:
    assert distance.distances(topology.parse("2x2x4")).diameter_hops == 5
    assert distance.distances(topology.parse("2x2x1")).mean_hops == pytest.approx(4 / 3)
    with pytest.raises(ValueError, match="mesh"):
        distance.all_to_all_bound(topology.parse("2x2x4"))


@pytest.mark.parametrize(
    ("text", "links", "gain"), [("4x4x8", (0.992, 1.732), 1.746), ("4x8x8", (0.996, 1.386), 1.391)]
)
def test_twist_gain_of_figure_6(text: str, links: tuple[float, float], gain: float) -> None:
    shape = topology.parse(text)
    assert distance.all_to_all_bound(shape) == pytest.approx(links[0], abs=5e-4)
    assert distance.all_to_all_bound(shape, twisted=True) == pytest.approx(links[1], abs=6e-4)
    # 1.746 is the quotient of rounded terms; unrounded it is 1.7455.
    assert distance.twist_gain(shape) == pytest.approx(gain, abs=1e-3)


def test_shifts_of_the_wrap_arounds() -> None:
    assert twist.shifts(topology.parse("4x8x8"))[0] == twist.Shift(y=1, z=1)
    assert twist.shifts(topology.parse("8x8x16"))[:2] == (twist.Shift(z=2), twist.Shift(z=2))


def test_twistable_rows_of_the_mix_are_twistable_here() -> None:
    assert all(row.is_twistable for row in mix.TABLE_2 if row.twisted)
