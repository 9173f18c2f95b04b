"""The reconcile loop beside the maximizer: the same fleet, the same failures, one after the other.

Both are the real thing on a simulator each, in virtual time, where computing costs none: the loop of
`tpuctl reconcile run --once` cycle by cycle, and the maximizer's policy (`tpuctl/engine/maximizer`) carried
out with node-pool operations that take what the published case study says. See `reconcile_loop.py` and
`reconcile_maximizer.py` for what each run leaves out, `reconcile_stage.py` for fleet, failures and measures.

Prints one JSON line, or with --table the Markdown table of the README. Chip-hours lost are chips of wanted
slices that were not ready, times hours; a slice that is ready in a smaller size loses the difference.
"""

from __future__ import annotations

import argparse
import json
import math
import pathlib
import sys
import time
from typing import TYPE_CHECKING, Any

ROOT = pathlib.Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from tests.bench import reconcile_loop, reconcile_maximizer, reconcile_stage  # noqa: E402 - the path is known

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

POLICIES: dict[str, Callable[[reconcile_stage.Stage], reconcile_maximizer.Counted]] = {
    "tpuctl": reconcile_loop.play,
    "maximizer": reconcile_maximizer.play,
}


def main() -> None:
    plain = reconcile_stage.Run()
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cubes", type=int, default=plain.cubes)
    parser.add_argument("--days", type=float, default=plain.days)
    parser.add_argument("--seed", type=int, default=plain.seed)
    parser.add_argument("--repair-hours", type=float, default=plain.repair_s / 3600)
    parser.add_argument("--table", action="store_true", help="print Markdown instead of JSON")
    given = parser.parse_args()
    run = reconcile_stage.Run(
        cubes=given.cubes, days=given.days, seed=given.seed, repair_s=given.repair_hours * 3600
    )
    found = compare(run)
    print(table(found) if given.table else json.dumps(found))


def compare(run: reconcile_stage.Run) -> dict[str, Any]:
    """Both policies on the same run."""
    spec, faults = reconcile_stage.fleet_spec(run.cubes), reconcile_stage.schedule(run)
    return {
        "cubes": run.cubes,
        "days": run.days,
        "seed": run.seed,
        "failures": len(faults),
        "repair_h": run.repair_s / 3600,
        "wanted_chips": sum(entry.shapes[0].chips * entry.count for entry in spec.slices),
        "wanted_slices": sum(entry.count for entry in spec.slices),
        "pool_operation_s": run.times.pool_s,
        "maximizer_round_s": run.times.loop_s,
        **{name: measured(run, play) for name, play in POLICIES.items()},
    }


def measured(
    run: reconcile_stage.Run, play: Callable[[reconcile_stage.Stage], reconcile_maximizer.Counted]
) -> dict[str, Any]:
    """One policy's numbers."""
    started_s = time.perf_counter()
    with reconcile_stage.set_up(run) as stage:
        counted = play(stage)
    meter, end_s = stage.meter, run.horizon_s
    whole_s = meter.whole_s()
    from_s = end_s if whole_s is None else whole_s
    recoveries = [
        found_s
        for fault in stage.faults
        if fault.at_s > from_s and (found_s := meter.recovery_s(fault.at_s, end_s)) is not None
    ]
    lost_chip_h = meter.lost_chip_h(from_s, end_s)
    wanted_chip_h = sum(meter.wanted.values()) * (end_s - from_s) / 3600
    return {
        "converge_s": None if whole_s is None else round(whole_s),
        "hits": len(recoveries),
        "recovery_p50_s": _percentile(recoveries, 0.50),
        "recovery_p99_s": _percentile(recoveries, 0.99),
        "lost_chip_h": round(lost_chip_h, 1),
        "ready_percent": round(100 * (1 - lost_chip_h / wanted_chip_h), 2) if wanted_chip_h else None,
        "pool_operations_to_converge": _count(counted.pool_operations_s, 0, from_s),
        "pool_operations": _count(counted.pool_operations_s, from_s, end_s),
        "slice_operations_to_converge": _count(counted.slice_operations_s, 0, from_s),
        "slice_operations": _count(counted.slice_operations_s, from_s, end_s),
        "pods_restarted": meter.pods_restarted,
        "cycles": counted.cycles,
        "wall_s": round(time.perf_counter() - started_s, 1),
    }


def _percentile(values: Sequence[float], share: float) -> float | None:
    """The smallest value that so large a share of them does not exceed."""
    return round(sorted(values)[math.ceil(share * len(values)) - 1]) if values else None


def _count(times_s: Sequence[float], from_s: float, to_s: float) -> int:
    return sum(from_s <= at_s < to_s for at_s in times_s)


def table(found: dict[str, Any]) -> str:
    """As the README shows it."""
    ours, theirs = found["tpuctl"], found["maximizer"]
    about = (
        f"{found['cubes']} cubes, {found['wanted_slices']} slices of {found['wanted_chips']:,} chips, "
        f"{found['days']:g} simulated days, {found['failures']} host failures with a mean repair of "
        f"{found['repair_h']:g} h, seed {found['seed']}; a node-pool operation takes "
        f"{found['pool_operation_s'] // 60} min, a round of the maximizer comes every "
        f"{found['maximizer_round_s'] // 60} min."
    )
    lines = [
        "| | `tpuctl reconcile` | maximizer |",
        "|---|---|---|",
        *(f"| {what} | {show(ours)} | {show(theirs)} |" for what, show in _ROWS),
        "",
        about,
    ]
    return "\n".join(lines)


def _minutes(key: str) -> Callable[[dict[str, Any]], str]:
    return lambda row: "-" if row[key] is None else f"{row[key] / 60:,.1f} min"


_ROWS: tuple[tuple[str, Callable[[dict[str, Any]], str]], ...] = (
    ("from an empty cluster to all slices ready", _minutes("converge_s")),
    ("host failures that hit a slice", lambda row: f"{row['hits']}"),
    ("until all is ready again, median", _minutes("recovery_p50_s")),
    ("until all is ready again, p99", _minutes("recovery_p99_s")),
    ("chip-hours lost after the start", lambda row: f"{row['lost_chip_h']:,.0f}"),
    ("chips of wanted slices ready", lambda row: f"{row['ready_percent']:.2f} %"),
    (
        "node-pool operations (start, later)",
        lambda row: f"{row['pool_operations_to_converge']}, {row['pool_operations']}",
    ),
    (
        "slice operations (start, later)",
        lambda row: f"{row['slice_operations_to_converge']}, {row['slice_operations']}",
    ),
    ("pods restarted", lambda row: f"{row['pods_restarted']:,}"),
)


if __name__ == "__main__":
    main()
