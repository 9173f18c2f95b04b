"""The optimum, with HiGHS: integer numbers of slices of each size in each block.

The only module of the engine that uses a library; it is imported when an optimum is asked for. Grouping by
size leaves no symmetry between equal slices, so whole fleets are solved in well under a second.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.engine.packing import fast
from tpuctl.engine.packing import problem as problems

if TYPE_CHECKING:
    from collections.abc import Sequence

DEFAULT_TIME_LIMIT_S = 10.0
_ALMOST_ONE = 0.99
"""Values are whole hosts, so a gap below one host is none."""


class Turns(NamedTuple):
    """What it is worth to serve somebody when several packings are equally good."""

    groups: Sequence[Sequence[float]]
    """For each group: its first, second ... slice; never increasing."""
    bundles: Sequence[float]


def solve(
    problem: problems.Problem,
    *,
    time_limit_s: float = DEFAULT_TIME_LIMIT_S,
    turns: Turns | None = None,
) -> problems.Solution:
    """The packing that uses the most hosts; after the time limit the best one found, with its bound.

    Without `turns`, equals are decided by the method, always alike.
    """
    best = _most_hosts(problem, time_limit_s)
    if turns is not None and best.is_optimal and best.hosts < problem.demand_hosts:
        model = _Model(problem)
        model.prefer(turns, best.hosts)
        fair = model.run(time_limit_s)
        if fair is not None and fair.hosts >= best.hosts:
            return dataclasses.replace(fair, bound_hosts=best.bound_hosts)
    return best


def _most_hosts(problem: problems.Problem, time_limit_s: float) -> problems.Solution:
    quick = fast.solve(problem)
    if quick.is_optimal:
        return dataclasses.replace(quick, method="exact")
    found = _Model(problem).run(time_limit_s)
    if found is None:
        return quick
    ceiling = min(found.bound_hosts, quick.bound_hosts)
    best = found if found.hosts >= quick.hosts else quick
    return dataclasses.replace(best, bound_hosts=max(ceiling, best.hosts))


class _Model:
    """Columns and rows as they are handed over."""

    def __init__(self, problem: problems.Problem) -> None:
        self._problem = problem
        self._costs: list[float] = []
        self._upper: list[float] = []
        self._integral: list[bool] = []
        self._rows: list[tuple[float, float, dict[int, float]]] = []
        self._loose: dict[tuple[int, int], int] = {}
        self._chosen: dict[tuple[int, int], int] = {}
        self._spots: dict[tuple[int, int, int, int], int] = {}
        self._blocks = range(len(problem.healthy))
        self._strict: list[dict[int, float]] = [{} for _ in self._blocks]
        self._every: list[dict[int, float]] = [{} for _ in self._blocks]
        for number, group in enumerate(problem.groups):
            self._add_group(number, group)
        for number, bundle in enumerate(problem.bundles):
            self._add_bundle(number, bundle)
        for block in self._blocks:
            if self._strict[block]:
                self._rows.append((0.0, problem.healthy[block], self._strict[block]))
            if self._every[block]:
                room = problem.healthy[block] + problem.degraded[block]
                self._rows.append((0.0, room, self._every[block]))

    def prefer(self, turns: Turns, hosts: int) -> None:
        """Keep the number of hosts and decide between equals by turns."""
        worth = {column: cost for column, cost in enumerate(self._costs) if cost}
        self._rows.append((hosts - _ALMOST_ONE, float("inf"), worth))
        self._costs = [0.0] * len(self._costs)
        for (bundle, _), column in self._chosen.items():
            self._costs[column] = turns.bundles[bundle]
        for number, values in enumerate(turns.groups):
            row = {column: 1.0 for (group, _), column in self._loose.items() if group == number}
            if row:
                for value in values:
                    row[self._column(value, 1, integral=False)] = -1.0
                self._rows.append((0.0, 0.0, row))

    def run(self, time_limit_s: float) -> problems.Solution | None:
        """The best solution found; None if there was none in time."""
        if not self._costs:
            return self._solution((), None)  # nothing fits anywhere, and a solver makes nothing of nothing
        import highspy  # noqa: PLC0415 - 0.1 s and a large library that only an optimum needs

        # The class itself turns on callbacks when it is made, and that writes a banner to the real stdout.
        solver: Any = highspy.Highs.__mro__[1]()
        for option, value in (
            ("output_flag", False),
            ("log_to_console", False),
            ("threads", 1),
            ("random_seed", 1),
            ("time_limit", time_limit_s),
            ("mip_rel_gap", 0.0),
            ("mip_abs_gap", _ALMOST_ONE),
        ):
            solver.setOptionValue(option, value)
        solver.passModel(self._lp(highspy))
        solver.run()
        info = solver.getInfo()
        if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None
        values = [round(value) for value in solver.getSolution().col_value]
        done = solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
        return self._solution(values, None if done else info.mip_dual_bound)

    def _column(self, cost: float, upper: float, *, integral: bool = True) -> int:
        self._costs.append(cost)
        self._upper.append(upper)
        self._integral.append(integral)
        return len(self._costs) - 1

    def _add_group(self, number: int, group: problems.Group) -> None:
        row: dict[int, float] = {}
        for block in self._blocks if group.block is None else (group.block,):
            room = self._problem.healthy[block] + (self._problem.degraded[block] if group.tolerant else 0)
            most = min(group.demand, room // group.size)
            if most:
                column = self._column(group.hosts, most)
                self._loose[number, block] = column
                row[column] = 1.0
                self._use(block, column, group.size, tolerant=group.tolerant)
        if row:
            self._rows.append((0.0, group.demand, row))

    def _use(self, block: int, column: int, size: int, *, tolerant: bool) -> None:
        self._every[block][column] = size
        if not tolerant:
            self._strict[block][column] = size

    def _add_bundle(self, number: int, bundle: problems.Bundle) -> None:
        choice: dict[int, float] = {}
        for way, option in enumerate(bundle.options):
            column = self._column(option.hosts, 1)
            self._chosen[number, way] = column
            choice[column] = 1.0
            parts = {sum(option.sizes): 1} if option.same_block else _counted(option.sizes)
            for size, count in parts.items():
                row: dict[int, float] = {column: -float(count)}
                for block in self._blocks if bundle.block is None else (bundle.block,):
                    spot = self._column(0.0, count)
                    self._spots[number, way, size, block] = spot
                    row[spot] = 1.0
                    self._use(block, spot, size, tolerant=bundle.tolerant)
                self._rows.append((0.0, 0.0, row))
        self._rows.append((0.0, 1.0, choice))

    def _lp(self, highspy: Any) -> Any:
        import numpy  # noqa: PLC0415 - comes with the solver

        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self._costs), len(self._rows)
        lp.sense_ = highspy.ObjSense.kMaximize
        lp.col_cost_ = numpy.array(self._costs, dtype=float)
        lp.col_lower_ = numpy.zeros(len(self._costs))
        lp.col_upper_ = numpy.array(self._upper, dtype=float)
        lp.row_lower_ = numpy.array([low for low, _, _ in self._rows], dtype=float)
        lp.row_upper_ = numpy.array([high for _, high, _ in self._rows], dtype=float)
        starts = [0]
        index: list[int] = []
        value: list[float] = []
        for _, _, row in self._rows:
            index += row.keys()
            value += row.values()
            starts.append(len(index))
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = numpy.array(starts, dtype=numpy.int32)
        lp.a_matrix_.index_ = numpy.array(index, dtype=numpy.int32)
        lp.a_matrix_.value_ = numpy.array(value, dtype=float)
        kinds = highspy.HighsVarType
        lp.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in self._integral]
        return lp

    def _solution(self, values: Sequence[int], ceiling: float | None) -> problems.Solution:
        loose = {key: values[column] for key, column in self._loose.items() if values[column]}
        bundles = {
            number: (way, self._blocks_of(number, way, values))
            for (number, way), column in self._chosen.items()
            if values[column]
        }
        hosts = problems.value(self._problem, loose, {number: way for number, (way, _) in bundles.items()})
        bound = hosts if ceiling is None else max(hosts, int(ceiling + 1e-6))
        return problems.Solution(loose=loose, bundles=bundles, hosts=hosts, bound_hosts=bound, method="exact")

    def _blocks_of(self, number: int, way: int, values: Sequence[int]) -> tuple[int, ...]:
        option = self._problem.bundles[number].options[way]
        where: dict[int, list[int]] = {}
        for (other, other_way, size, block), column in self._spots.items():
            if (other, other_way) == (number, way):
                where.setdefault(size, []).extend([block] * values[column])
        if option.same_block:
            return (where[sum(option.sizes)][0],) * len(option.sizes)
        return tuple(where[size].pop(0) for size in option.sizes)


def _counted(sizes: Sequence[int]) -> dict[int, int]:
    return {size: sizes.count(size) for size in sizes}
