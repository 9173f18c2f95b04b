"""Published values beside ours."""

import pytest

from tpuctl.engine import figures


@pytest.mark.parametrize("name", figures.NAMES)
@pytest.mark.parametrize("pod_cubes", [64, 144])
def test_every_figure_agrees_within_what_its_source_allows(name: str, pod_cubes: int) -> None:
    found = figures.figure(name, pod_cubes)
    assert found.agrees, (found.worst, found.tolerance)
    assert all(len(row) == len(found.columns) for row in found.rows)
    assert len(found.rows) == len(found.points) > 0
    assert found.source


def test_figure_4_has_the_published_points_for_64_cubes_only() -> None:
    small, large = figures.figure("isca4"), figures.figure("isca4", 144)
    assert sum(point.published is not None for point in small.points) == 23
    assert small.worst == pytest.approx(1.25, abs=0.01)
    assert all(point.published is None for point in large.points)
    assert "prediction" in large.notes[0]
    assert ("1024 chips, hosts 99.0 %, OCS", "74.6", "74.7", "+0.1") in small.rows
    assert ("4096 chips, hosts 99.9 %, OCS", "", "35.9", "") in small.rows


def test_figure_6_says_that_gke_offers_no_twist() -> None:
    found = figures.figure("isca6")
    assert found.rows[:2] == (("4x4x8", "1.730", "1.745", "+0.015"), ("4x8x8", "1.390", "1.391", "+0.001"))
    assert any("GKE does not offer" in note for note in found.notes)


def test_figure_1_rows() -> None:
    found = figures.figure("nsdi1")
    assert ("57 cubes", "51.0", "51.2", "+0.2") in found.rows
    assert len(found.rows) == 14 + 7
    assert figures.figure("nsdi1", 144).rows[-1][0] == "144 cubes, no fault-tolerant routes"


def test_a_difference_that_rounds_to_nothing_has_no_minus() -> None:
    assert ("3072 chips, hosts 99.5 %, OCS", "75.0", "75.0", "+0.0") in figures.figure("isca4").rows


def test_an_error_would_be_noticed() -> None:
    wrong = figures.Figure(
        name="x", title="x", unit="%", source="x", tolerance=1.0, points=(figures.Point("a", 10.0, 12.0),)
    )
    assert not wrong.agrees
    assert wrong.rows == (("a", "10.0", "12.0", "+2.0"),)


@pytest.mark.parametrize(("name", "pod_cubes"), [("isca5", 64), ("isca4", 0)])
def test_unknown_figures_are_refused(name: str, pod_cubes: int) -> None:
    with pytest.raises(figures.UnknownFigureError):
        figures.figure(name, pod_cubes)
