"""How plans, imagined changes, spares and simulations are shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.cli import capacity_views, durations, layout, output
from tpuctl.cli.capacity_views import Section
from tpuctl.ops import capacity, remaking

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tpuctl.model import fleet, topology
    from tpuctl.ops import simulating


def show_plan(snapshot: fleet.Fleet, found: capacity.Plan, fmt: output.Format | None) -> None:
    """What was placed, what was not and why, and how good the plan is."""
    labels = snapshot.block_labels
    document: dict[str, Any] = {
        "placed": [
            {
                "slice": grant.slice_name,
                "request": grant.wish.name,
                "fallback": grant.is_fallback,
                "priority": grant.wish.priority,
                "team": grant.wish.team,
                "topology": str(grant.topology),
                "chips": grant.topology.chips,
                "block": grant.block,
                "partitionIds": list(grant.partition_ids),
                "passes": grant.passes,
            }
            for grant in found.grants
        ],
        "evictions": [
            {"victims": list(one.victims), "chips": one.chips, "for": list(one.slices)}
            for one in found.evictions
        ],
        "promise": _promise_plain(found.promise),
        "left": [{"slices": [name for name, _ in left.unit.members], "why": left.why} for left in found.left],
        "classes": [
            {
                "priority": report.priority,
                "method": report.method,
                "wantedChips": report.wanted_chips,
                "placedChips": report.placed_chips,
                "boundChips": report.bound_chips,
                "gap": round(report.gap, 6),
            }
            for report in found.classes
        ],
    }
    sections = [
        Section("Placed", ("SLICE", "TOPOLOGY", "CHIPS", "BLOCK", "REMARK"), [*_placed(found, labels)]),
        Section(
            "Has to end first",
            ("SLICE", "CHIPS", "FOR"),
            [(", ".join(one.victims), one.chips, ", ".join(one.slices)) for one in found.evictions],
        ),
        Section("Left over", ("SLICE", "WHY"), [*_left(found)]),
        Section(
            "How good it is",
            ("PRIORITY", "WANTED-CHIPS", "PLACED-CHIPS", "", "AT-MOST", "BY", "GAP"),
            [
                (
                    report.priority,
                    report.wanted_chips,
                    report.placed_chips,
                    capacity_views.bar(report.placed_chips, report.wanted_chips),
                    report.bound_chips,
                    report.method,
                    "optimal" if report.placed_chips >= report.bound_chips else f"{100 * report.gap:.2f} %",
                )
                for report in found.classes
            ],
        ),
    ]
    name = f"fleet/{snapshot.cluster}"
    capacity_views.page(
        "CapacityPlan", document, sections, name=name, fmt=fmt, observed_at=snapshot.observed_at
    )


def _placed(found: capacity.Plan, labels: Mapping[str, str]) -> Iterator[tuple[object, ...]]:
    for grant in found.grants:
        remarks = (
            f"in place of {grant.wish.shapes[0]}" if grant.is_fallback else "",
            "before its turn, nobody starts later for it" if grant.passes else "",
        )
        remark = "; ".join(text for text in remarks if text)
        block = labels.get(grant.block, grant.block)
        yield grant.slice_name, grant.topology, grant.topology.chips, block, remark


def _left(found: capacity.Plan) -> Iterator[tuple[str, str]]:
    promise = found.promise
    for left in found.left:
        why = left.why
        if promise is not None and promise.unit == left.unit:
            ends = layout.few(promise.shadow.ends, 3)
            why = f"{why}; it will at {output.to_the_second(promise.shadow.at)}, when {ends} will have ended"
        yield ", ".join(name for name, _ in left.unit.members), why


def _promise_plain(promise: capacity.Promise | None) -> dict[str, Any] | None:
    if promise is None:
        return None
    return {
        "slices": [name for name, _ in promise.unit.members],
        "at": promise.shadow.at,
        "afterTheEndOf": list(promise.shadow.ends),
    }


def show_defrag(
    snapshot: fleet.Fleet,
    shape: topology.Topology,
    found: capacity.DefragPlan | capacity.Placement | capacity.Hopeless,
    fmt: output.Format | None,
) -> None:
    """The moves, what they cost and what they bring."""
    moves = found.moves if isinstance(found, capacity.DefragPlan) else ()
    labels = snapshot.block_labels
    document: dict[str, Any] = {
        "topology": str(shape),
        "fitsNow": isinstance(found, capacity.Placement),
        "possible": not isinstance(found, capacity.Hopeless),
        "moves": [
            {
                "slice": move.slice_name,
                "topology": str(move.topology),
                "fromBlock": move.from_block,
                "fromBlockName": labels.get(move.from_block),
                "toBlock": move.to_block,
                "toBlockName": labels.get(move.to_block),
                "oldPartitionIds": list(move.old_partitions),
                "newPartitionIds": list(move.new_partitions),
            }
            for move in moves
        ],
        "placement": None if isinstance(found, capacity.Hopeless) else _place_of(found),
    }
    if isinstance(found, capacity.DefragPlan):
        document |= {
            "costChipHours": round(found.cost_chip_h, 3),
            "gainChipHours": round(found.gain_chip_h, 3),
            "waitHours": round(found.wait_h, 3),
            "waitIsKnown": found.wait_is_known,
            "pays": found.pays,
        }
    sections = [
        Section("", None, [(_verdict(shape, found),)]),
        Section(
            "Moves",
            ("SLICE", "TOPOLOGY", "CHIPS", "FROM BLOCK", "TO BLOCK"),
            [
                (
                    move.slice_name,
                    move.topology,
                    move.topology.chips,
                    labels.get(move.from_block, move.from_block),
                    labels.get(move.to_block, move.to_block),
                )
                for move in moves
            ],
        ),
        Section("Commands", None, [(line,) for line in _commands(snapshot, moves)], whole=True),
    ]
    name = f"topology/{shape}"
    capacity_views.page(
        "DefragPlan", document, sections, name=name, fmt=fmt, observed_at=snapshot.observed_at
    )


def _place_of(found: capacity.DefragPlan | capacity.Placement) -> dict[str, Any]:
    return capacity_views.placement(found if isinstance(found, capacity.Placement) else found.placement)


def _verdict(
    shape: topology.Topology, found: capacity.DefragPlan | capacity.Placement | capacity.Hopeless
) -> str:
    if isinstance(found, capacity.Placement):
        return f"{shape} fits now; nothing needs to move"
    if isinstance(found, capacity.Hopeless):
        return f"no moves make room for {shape}; see: tpuctl capacity why-not --topology {shape}"
    known = "" if found.wait_is_known else " (assumed)"
    wait = durations.short(found.wait_h * 3600)
    weighed = (
        f"gain {found.gain_chip_h:,.0f} chip-hours (it would wait {wait}{known}), "
        f"cost {found.cost_chip_h:,.0f} chip-hours"
    )
    return f"moving pays: {weighed}" if found.pays else f"refused, moving does not pay: {weighed}"


def _commands(snapshot: fleet.Fleet, moves: Sequence[Any]) -> Iterator[str]:
    for move in moves:
        yield from remaking.commands(snapshot.slices_by_name[move.slice_name], move.new_partitions)


def show_outcome(snapshot: fleet.Fleet, found: capacity.Outcome, fmt: output.Format | None) -> None:
    """Before and after."""
    document = {
        "before": capacity_views.overview(found.before),
        "after": capacity_views.overview(found.after),
        "hits": [
            {"slice": hit.slice_name, "cubes": list(hit.cubes), "replacements": list(hit.replacements)}
            for hit in found.hits
        ],
    }
    before = {block.block.id: block for block in found.before.blocks}
    blocks = []
    for after in found.after.blocks:
        was = before.get(after.block.id)
        blocks.append(
            (
                after.block.label,
                None if was is None else was.free,
                after.free,
                None if was is None else was.largest,
                after.largest,
            )
        )
    shapes = [
        (now.shape, was.slices, now.slices, f"{now.slices - was.slices:+d}" if now != was else "")
        for was, now in zip(found.before.shapes, found.after.shapes, strict=True)
    ]
    hits = [
        (
            hit.slice_name,
            len(hit.cubes),
            "can be swapped" if hit.replacements else "no replacement: it ends, or waits for the repair",
        )
        for hit in found.hits
    ]
    sections = [
        Section("Blocks", ("BLOCK", "FREE BEFORE", "AFTER", "LARGEST BEFORE", "AFTER"), blocks),
        Section("Slices of one shape that fit", ("TOPOLOGY", "BEFORE", "AFTER", "CHANGE"), shapes),
        Section("Slices hit", ("SLICE", "CUBES LOST", "THEN"), hits),
    ]
    name = f"fleet/{snapshot.cluster}"
    capacity_views.page(
        "CapacityChange", document, sections, name=name, fmt=fmt, observed_at=snapshot.observed_at
    )


def show_spares(
    snapshot: fleet.Fleet,
    found: Sequence[capacity.BlockSpares],
    fmt: output.Format | None,
    *,
    no_headers: bool,
) -> None:
    """One line a block."""
    labels = snapshot.block_labels
    column = output.Column
    output.render_list(
        "BlockSpares",
        found,
        columns=[
            column("BLOCK", lambda line: labels.get(line.block, line.block)),
            column("CUBES-IN-SLICES", lambda line: line.in_slices),
            column("LARGEST-SLICE", lambda line: line.largest),
            column("NEEDED", lambda line: line.needed),
            column("FREE", lambda line: line.free),
            column("MISSING", lambda line: line.missing, style=lambda line: "red" if line.missing else None),
            column("PAYS-BELOW", lambda line: f"{line.pays_below:.1f}"),
        ],
        to_plain=lambda line: {
            "block": line.block,
            "cubesInSlices": line.in_slices,
            "largestSliceCubes": line.largest,
            "neededSpares": line.needed,
            "freeCubes": line.free,
            "missingSpares": line.missing,
            "paysBelow": round(line.pays_below, 3),
        },
        name_of=lambda line: f"block/{line.block}",
        fmt=fmt,
        no_headers=no_headers,
        observed_at=snapshot.observed_at,
    )


def show_figure(found: simulating.Figure, fmt: output.Format | None) -> None:
    """Published values beside ours."""
    document = {
        "name": found.name,
        "title": found.title,
        "unit": found.unit,
        "source": found.source,
        "tolerance": found.tolerance,
        "worstDifference": found.worst,
        "agrees": found.agrees,
        "notes": list(found.notes),
        "points": [
            {
                "label": point.label,
                "published": point.published,
                "ours": point.ours,
                "difference": point.difference,
            }
            for point in found.points
        ],
    }
    titles = tuple(title.upper() for title in found.columns)
    sections = [
        Section(f"{found.title} ({found.unit})", titles, found.rows),
        Section("", None, [(f"published: {found.source}",), *((note,) for note in found.notes)]),
    ]
    capacity_views.page("Figure", document, sections, name=f"figure/{found.name}", fmt=fmt, observed_at=None)


def show_run(found: simulating.Comparison, fmt: output.Format | None) -> None:
    """Dynamic slicing and what it replaced, the waits by size, and where the chip-hours went."""
    document = {
        "runs": [
            {
                "method": str(outcome.settings.method),
                "order": str(outcome.settings.order),
                "utilisation": round(outcome.utilisation, 6),
                "goodput": round(outcome.goodput, 6),
                "jobs": {
                    "arrived": outcome.arrived,
                    "finished": outcome.finished,
                    "refused": outcome.refused,
                },
                "hostFailures": outcome.failures,
                "swaps": outcome.swaps,
                "requeues": outcome.requeues,
                "blastMeanHosts": round(outcome.blast_mean_hosts, 3),
                "waits": [waits._asdict() for waits in outcome.waits],
                "ledgerChipSeconds": dict(outcome.balance.chip_s),
            }
            for outcome in found.outcomes
        ]
    }
    first = found.outcomes[0]
    titles = tuple(title.upper() for title in found.columns)
    sections = [
        Section("Methods, on the same jobs and failures", titles, found.rows),
        Section(
            f"Waits by size: {first.settings.method}",
            tuple(title.upper() for title in first.wait_columns),
            first.wait_rows,
        ),
        Section(
            f"Where the chip-hours went: {first.settings.method}",
            tuple(title.upper() for title in first.ledger_columns),
            first.ledger_rows,
        ),
    ]
    capacity_views.page("Simulation", document, sections, name="simulation/block", fmt=fmt, observed_at=None)
