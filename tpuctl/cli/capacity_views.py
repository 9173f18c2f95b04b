"""How answers about room are shown: tables and small bars for people, everything as a document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cli import durations, layout, output, session
from tpuctl.model import counts, topology
from tpuctl.ops import capacity, ways_out

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Mapping, Sequence

    from tpuctl.model import fleet

_BAR = 20
_SHOWN_IDS = 3
_IDS = ("BLOCK", "FROM BLOCK", "TO BLOCK", "THEN IN BLOCK")
"""Columns of names that may be shortened."""
_KEPT = ("WHY", "WHY NOT", "DO", "THEN", "NOT-FREE")
"""Columns that stay as long as there are others to leave out."""


class Section(NamedTuple):
    """A part of a page: a heading and a table or lines."""

    heading: str
    titles: tuple[str, ...] | None
    rows: Sequence[Sequence[object]]
    whole: bool = False
    """If true, its lines are commands, which are not folded."""


def bar(part: float, whole: float) -> str:
    """`#########...........`: part of whole, in ASCII."""
    filled = round(_BAR * part / whole) if whole else 0
    if part and not filled:
        filled = 1
    return "#" * min(filled, _BAR) + "." * (_BAR - min(filled, _BAR))


def page(
    kind: str,
    document: Mapping[str, Any],
    sections: Sequence[Section],
    *,
    name: str,
    fmt: output.Format | None,
    observed_at: datetime.datetime | None,
) -> None:
    """Write a page for people, or the document."""
    wanted = output.chosen(fmt)
    if wanted.is_document or wanted is output.Format.NAME:
        output.render_one(kind, document, rows=(), name=name, fmt=fmt, observed_at=observed_at)
        return
    screen = session.current().terminal
    shown = []
    for section in sections:
        if section.rows:
            heading = [screen.styled(section.heading, "bold")] if section.heading else []
            shown.append("\n".join([*heading, *_table(section)]))
    screen.out("\n\n".join(shown))


def _table(section: Section) -> list[str]:
    screen = session.current().terminal
    cells = [[layout.cell(value) for value in row] for row in section.rows]
    plain: list[list[str | None]] = [[None] * len(row) for row in cells]
    titles = section.titles or ("",) * len(cells[0])
    traits = [
        layout.Trait(shorten=title in _IDS, keep=title in _KEPT, whole=section.whole) for title in titles
    ]
    lines, left_out = layout.table(
        cells, section.titles, plain, screen.styled, width=screen.width, traits=traits
    )
    output.tell_left_out(left_out)
    return lines


# -- show ------------------------------------------------------------------------------------------------


def show_overview(snapshot: fleet.Fleet, found: capacity.Overview, fmt: output.Format | None) -> None:
    """What fits now."""
    free, stranded = counts.of(found.free_chips, "chip"), counts.of(found.stranded_chips, "chip")
    sections = [
        Section(
            "Blocks",
            ("BLOCK", "CUBES", "FREE", "", "LARGEST", "STRANDED-CHIPS", "NOT-FREE"),
            [
                (
                    block.block.label,
                    block.cubes,
                    block.free,
                    bar(block.free, block.cubes),
                    block.largest,
                    block.stranded_chips,
                    _counts(block.obstacles),
                )
                for block in found.blocks
            ],
        ),
        Section(
            "Slices of one shape that fit now",
            ("TOPOLOGY", "CHIPS", "SLICES", ""),
            [
                (
                    room.shape,
                    room.shape.chips,
                    room.slices,
                    bar(room.slices * room.shape.chips, _chips(found)),
                )
                for room in found.shapes
            ],
        ),
        Section("", None, [(f"{free} in free cubes, {stranded} stranded",)]),
    ]
    name = f"fleet/{snapshot.cluster}"
    page("Capacity", overview(found), sections, name=name, fmt=fmt, observed_at=snapshot.observed_at)


def overview(found: capacity.Overview) -> dict[str, Any]:
    """An overview as `-o json` gives it."""
    return {
        "freeChips": found.free_chips,
        "strandedChips": found.stranded_chips,
        "blocks": [
            {
                "id": block.block.id,
                "name": block.block.name,
                "cubes": block.cubes,
                "freeCubes": block.free,
                "largest": None if block.largest is None else str(block.largest),
                "largestChips": 0 if block.largest is None else block.largest.chips,
                "strandedChips": block.stranded_chips,
                "obstacles": dict(block.obstacles),
                "holders": dict(block.holders),
            }
            for block in found.blocks
        ],
        "shapes": [
            {"topology": str(room.shape), "chips": room.shape.chips, "slices": room.slices}
            for room in found.shapes
        ],
    }


def _chips(found: capacity.Overview) -> int:
    return sum(block.cubes for block in found.blocks) * topology.CHIPS_PER_CUBE


def _counts(found: Sequence[tuple[object, int]]) -> str:
    return ", ".join(f"{count:,} {word}" for word, count in found)


# -- why-not ---------------------------------------------------------------------------------------------


def show_answer(
    snapshot: fleet.Fleet,
    question: capacity.Question,
    found: capacity.Placement | capacity.Advice,
    fmt: output.Format | None,
    *,
    me: Callable[[], str] = ways_out.nobody,
) -> None:
    """Where it fits, or why not and what would help."""
    labels = snapshot.block_labels
    fits = isinstance(found, capacity.Placement)
    candidates = found.candidates if isinstance(found, capacity.Placement) else found.refusal.candidates
    block = found.block if isinstance(found, capacity.Placement) else None
    chosen = next((candidate for candidate in candidates if candidate.block == block), None)
    document: dict[str, Any] = {
        "topology": str(question.shape),
        "chips": question.shape.chips,
        "fits": fits,
        "never": isinstance(found, capacity.Advice) and found.refusal.never,
        "needed": question.shape.partitions,
        "unit": "partitions" if question.shape.is_sub_slice else "cubes",
        "placement": placement(found) if isinstance(found, capacity.Placement) else None,
        "candidates": [{**_candidate(candidate), "chosen": candidate is chosen} for candidate in candidates],
        "ways": [way(snapshot, one, me) for one in found.ways] if isinstance(found, capacity.Advice) else [],
    }
    sections = [
        Section("", None, [(_verdict(question, found, labels),)]),
        Section(
            "",
            ("", "BLOCK", "USABLE", "OF", "", "WHY NOT", "SLICES", "KEPT BY"),
            [_candidate_row(candidate, labels, question, chosen) for candidate in candidates],
        ),
    ]
    if isinstance(found, capacity.Advice):
        sections.append(_ways(snapshot, found, labels, me))
    page(
        "CapacityAnswer",
        document,
        sections,
        name=f"topology/{question.shape}",
        fmt=fmt,
        observed_at=snapshot.observed_at,
    )


def placement(found: capacity.Placement) -> dict[str, Any]:
    """A placement as `-o json` gives it."""
    return {
        "topology": str(found.topology),
        "block": found.block,
        "cubes": list(found.cubes),
        "partitionIds": list(found.partition_ids),
    }


def way(snapshot: fleet.Fleet, found: capacity.Way, me: Callable[[], str]) -> dict[str, Any]:
    """A way out as `-o json` gives it; `run` is what to run for each action, or a sentence."""
    return {
        "actions": [
            {
                "do": str(action.act),
                "target": action.target,
                "detail": action.detail,
                "partitionIds": list(action.partition_ids),
                "run": list(ways_out.commands(snapshot, action, me)),
            }
            for action in found.actions
        ],
        "placement": placement(found.placement),
        "disturbedChips": found.disturbed_chips,
        "delayHours": round(found.delay_h, 3),
        "costChipHours": round(found.cost_chip_h, 3),
    }


def _verdict(
    question: capacity.Question,
    found: capacity.Placement | capacity.Advice,
    labels: Mapping[str, str],
) -> str:
    what = f"{question.shape} ({question.shape.chips:,} chips)"
    if isinstance(found, capacity.Placement):
        return f"{what} fits now in block {labels.get(found.block, found.block)}"
    refusal = found.refusal
    if refusal.never:
        return f"{what} never fits: {refusal.demand}, no block has so many"
    return f"{what} does not fit now: {refusal.demand}, the best block has {refusal.usable} usable"


def _candidate(candidate: capacity.Candidate) -> dict[str, Any]:
    return {
        "block": candidate.block,
        "usable": candidate.usable,
        "total": candidate.total,
        "obstacles": {str(reason): count for reason, count in candidate.obstacles},
        "holders": dict(candidate.holders),
        "claims": list(candidate.claims),
    }


def _candidate_row(
    candidate: capacity.Candidate,
    labels: Mapping[str, str],
    question: capacity.Question,
    chosen: capacity.Candidate | None,
) -> tuple[object, ...]:
    why = _why(candidate, question, chosen)
    return (
        "*" if candidate is chosen else "",
        labels.get(candidate.block, candidate.block),
        candidate.usable,
        candidate.total,
        bar(candidate.usable, candidate.total),
        why,
        layout.few([f"{name} {count}" for name, count in candidate.holders], _SHOWN_IDS),
        "; ".join(candidate.claims),
    )


def _why(
    candidate: capacity.Candidate, question: capacity.Question, chosen: capacity.Candidate | None
) -> str:
    """Why a block was not chosen, in a few words."""
    if candidate is chosen:
        return "chosen"
    if chosen is None or candidate.usable < question.shape.partitions:
        return _counts(candidate.obstacles) or "too small"
    if question.shape.is_sub_slice:
        return "its cubes are less worn"
    return "a larger hole, kept for larger slices" if candidate.usable > chosen.usable else "equal"


def _ways(
    snapshot: fleet.Fleet, found: capacity.Advice, labels: Mapping[str, str], me: Callable[[], str]
) -> Section:
    if not found.ways:
        kept = ways_out.open_operations(found.refusal)
        finishing = "; ".join(f"tpuctl operation resume {name}" for name in kept)
        first = [(f"Open operations keep some cubes, finish those first: {finishing}",)] if kept else []
        return Section("", None, [("No way out was found that the engine could verify.",), *first])
    return Section(
        "What would make it fit, each way verified, the cheapest first",
        ("", "DO", "THEN IN BLOCK", "AFTER", "DISTURBED CHIPS", "COST CHIP-HOURS"),
        [
            (
                number,
                _actions(snapshot, one, me),
                labels.get(one.placement.block, one.placement.block),
                durations.short(one.delay_h * 3600) if one.delay_h else "now",
                one.disturbed_chips,
                f"{one.cost_chip_h:,.0f}",
            )
            for number, one in enumerate(found.ways, start=1)
        ],
    )


def _actions(snapshot: fleet.Fleet, found: capacity.Way, me: Callable[[], str]) -> str:
    """What to run, in order."""
    steps = [step for action in found.actions for step in ways_out.commands(snapshot, action, me)]
    return layout.few(steps, _SHOWN_IDS, "; ")
