"""Draw blocks as grids, one cell a cube.

Cells stand in the order of cube ids: no service tells where in a block a cube is. A cell is a letter for the
slice that holds it or a sign for why it is free or not, so the picture reads without colour too.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.model import health, states
from tpuctl.ops import views

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from tpuctl.model import fleet

COLUMNS = 24
_SLICE_STYLES = ("bold green", "bold blue", "bold magenta", "bold cyan", "green", "blue", "magenta", "cyan")
_LETTERS = string.ascii_lowercase
_TROUBLED = "in a slice and not healthy"
_MANY = "@"


class _Sign(NamedTuple):
    cell: str
    style: str
    meaning: str


_FREE = {
    states.Verdict.HEALTHY: _Sign(".", "", "free"),
    states.Verdict.DEGRADED: _Sign("~", "yellow", "degraded"),
    states.Verdict.UNHEALTHY: _Sign("x", "bold red", "unhealthy"),
    states.Verdict.INCOMPLETE: _Sign("%", "yellow", "incomplete"),
    states.Verdict.UNKNOWN: _Sign("?", "yellow", "unknown"),
}
_KEPT = _Sign("!", "yellow", "cordoned or held")
_NO_NODES = _Sign("-", "dim", "no nodes")
_SHARED = _Sign("*", "bold cyan", "sub-slices")


def draw(
    snapshot: fleet.Fleet,
    paint: Callable[[str, str], str],
    policy: health.HealthPolicy = health.DEFAULT_POLICY,
) -> list[str]:
    """The picture as lines; `paint(text, style)` colours or returns the text as it is."""
    letters = _letters(snapshot)
    lines: list[str] = []
    used: set[_Sign] = set()
    cubes = views.cubes(snapshot, policy)
    for block in snapshot.blocks:
        signs = [_sign(view, letters) for view in cubes if view.block is block]
        used.update(signs)
        lines += [_title(block, signs), *_grid(signs, paint), ""]
    return [*lines, *_legend(snapshot, letters, used, paint)]


def _letters(snapshot: fleet.Fleet) -> Mapping[str, _Sign]:
    """A letter for each slice of whole cubes; one sign for all beyond the alphabet.

    Ready ones come first: where a slice that never formed names the same cubes, the ready one has them.
    """
    found = [item for item in snapshot.slices if item.topology is None or not item.topology.is_sub_slice]
    whole = [item.name for item in sorted(found, key=lambda item: (not item.state.is_ready, item.name))]
    return {
        name: _Sign(
            _LETTERS[index] if index < len(_LETTERS) else _MANY,
            _SLICE_STYLES[index % len(_SLICE_STYLES)],
            name if index < len(_LETTERS) else "other slices",
        )
        for index, name in enumerate(whole)
    }


def _sign(view: views.CubeView, letters: Mapping[str, _Sign]) -> _Sign:
    held = [sign for name, sign in letters.items() if name in view.slices]
    if held and view.verdict is not states.Verdict.HEALTHY:
        # A troubled cube inside a slice: the slice's letter as a capital, so that it shows without colour.
        style = "yellow" if view.verdict is states.Verdict.DEGRADED else "bold red"
        return held[0]._replace(cell=held[0].cell.upper(), style=style, meaning=_TROUBLED)
    if held:
        return held[0]
    if view.slices:
        return _SHARED
    if not view.cube.has_nodes:
        return _NO_NODES
    if view.verdict is states.Verdict.HEALTHY and view.marks:
        return _KEPT
    return _FREE[view.verdict]


def _title(block: fleet.Block, signs: Sequence[_Sign]) -> str:
    free = sum(sign.cell == "." for sign in signs)
    return f"block {block.label}: {len(signs)} cubes, {free} free and healthy"


def _grid(signs: Sequence[_Sign], paint: Callable[[str, str], str]) -> list[str]:
    rows = [signs[start : start + COLUMNS] for start in range(0, len(signs), COLUMNS)]
    return ["  " + " ".join(paint(sign.cell, sign.style) for sign in row) for row in rows]


def _legend(
    snapshot: fleet.Fleet,
    letters: Mapping[str, _Sign],
    used: set[_Sign],
    paint: Callable[[str, str], str],
) -> list[str]:
    plain = [sign for sign in (*_FREE.values(), _KEPT, _NO_NODES, _SHARED) if sign in used]
    lines = [
        f"  {paint(sign.cell, sign.style)} {name} ({_size(snapshot.slices_by_name[name])})"
        for name, sign in letters.items()
    ]
    if any(sign.meaning == _TROUBLED for sign in used):
        lines.append(f"  {paint('A', 'bold red')} (capital) {_TROUBLED}")
    if plain:
        lines.append("  " + "   ".join(f"{paint(sign.cell, sign.style)} {sign.meaning}" for sign in plain))
    return lines


def _size(item: fleet.Slice) -> str:
    return f"{item.raw_topology}, {item.reason or item.state}"
