"""Numbers for Prometheus about the loop and its fleet.

Gauges are counted from the objects of the last full cycle whenever somebody asks, never kept in step with
them by hand. Only the loop that leads has them: a standby exports no fleet, so sums over replicas are right.
"""

from __future__ import annotations

import dataclasses
import threading
from typing import TYPE_CHECKING, Any

import prometheus_client
from prometheus_client import core, exposition

from tpuctl.ops import gauges

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from tpuctl.model import declared, fleet, health, reconciling

CYCLE_BUCKETS_S = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 1800, 3600)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cycle:
    """A full cycle, as far as numbers are made of it."""

    at: datetime.datetime
    """When its view was read, by the servers' clocks."""
    seen_s: float
    """The same moment on the monotonic clock."""
    duration_s: float
    spec: declared.FleetSpec
    """What was declared then: a running loop may be told another state."""
    snapshot: fleet.Fleet
    decision: reconciling.Decision
    results: Sequence[tuple[reconciling.ActionKind, str]]
    """Kind and result of each action: `done`, `going on`, `failed`, `stopped`."""
    repairs: Mapping[str, int]
    """Open repairs by state."""


class Metrics:
    """Everything that is exported. `note` is called by the loop, the rest by the server's threads."""

    def __init__(self, policy: health.HealthPolicy, monotonic_s: Callable[[], float]) -> None:
        self._policy = policy
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._cycle: Cycle | None = None
        self._counted: tuple[Cycle, gauges.Gauges] | None = None
        # When a counter began is of no use here, and doubles the number of series.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = prometheus_client.CollectorRegistry()
        self._durations = prometheus_client.Histogram(
            "tpuctl_cycle_duration_seconds",
            "How long full cycles took, actions included.",
            buckets=CYCLE_BUCKETS_S,
            registry=self.registry,
        )
        self._actions = prometheus_client.Counter(
            "tpuctl_actions",
            "Actions by kind and result: done, going on, failed, stopped.",
            ["kind", "result"],
            registry=self.registry,
        )
        self._failed_cycles = prometheus_client.Counter(
            "tpuctl_failed_cycles",
            "Cycles that could not see everything, or not end; nothing was decided on a part.",
            registry=self.registry,
        )
        self.registry.register(_Collector(self))

    def note(self, cycle: Cycle) -> None:
        """Take in a full cycle."""
        with self._lock:
            self._cycle = cycle
        self._durations.observe(cycle.duration_s)
        for kind, result in cycle.results:
            self._actions.labels(str(kind), result).inc()

    def note_failure(self) -> None:
        """A cycle ended without a whole view."""
        self._failed_cycles.inc()

    def exposition(self, accept: str) -> tuple[bytes, str]:
        """All of it and its content type, in the form that a client accepts."""
        encode, content_type = exposition.choose_encoder(accept)
        return encode(self.registry), content_type

    def stand_by(self) -> None:
        """Another loop leads: what we saw last is no longer ours to export."""
        with self._lock:
            self._cycle = None

    def families(self) -> Iterator[core.Metric]:
        """Gauges of the last full cycle, counted now; only whether we lead if there is none."""
        with self._lock:
            cycle = self._cycle
        leads = core.GaugeMetricFamily("tpuctl_leads", "1 if this loop leads and has finished a full cycle.")
        leads.add_metric([], float(cycle is not None))
        yield leads
        if cycle is not None:
            yield from self._of_fleet(self._counts(cycle))
            yield from self._of_loop(cycle)

    def _counts(self, cycle: Cycle) -> gauges.Gauges:
        """Counting a large fleet takes a second: once for each view is enough."""
        with self._lock:
            if self._counted is None or self._counted[0] is not cycle:
                found = gauges.count(cycle.snapshot, self._policy, cycle.spec.blocks)
                self._counted = (cycle, found)
            return self._counted[1]

    def _of_fleet(self, found: gauges.Gauges) -> Iterator[core.Metric]:
        yield _labelled("tpuctl_cubes", "Cubes by verdict.", "verdict", found.cubes)
        yield _labelled("tpuctl_slices", "Slices by state.", "state", found.slices)
        yield _labelled("tpuctl_chips", "Chips by class; the classes add up.", "class", found.chips)

    def _of_loop(self, cycle: Cycle) -> Iterator[core.Metric]:
        memory = cycle.decision.memory
        yield _plain(
            "tpuctl_view_age_seconds",
            "Age of what the last full cycle saw.",
            max(self._monotonic_s() - cycle.seen_s, 0.0),
        )
        yield _plain(
            "tpuctl_last_full_cycle_timestamp_seconds",
            "When the last full cycle read its view, by the server's clock.",
            cycle.at.timestamp(),
        )
        yield _labelled("tpuctl_repairs", "Open repairs by state.", "state", cycle.repairs)
        yield _plain(
            "tpuctl_budget_left_chips",
            "Chips of running slices that the loop may still interrupt within the hour.",
            gauges.budget_left(cycle.spec.budgets, memory, cycle.at),
        )
        yield _plain(
            "tpuctl_breaker_tripped",
            "1 if the breaker has tripped and nobody has reset it.",
            float(memory.tripped is not None),
        )
        yield _plain(
            "tpuctl_wanted_slices_waiting", "Wanted slices that do not fit.", len(cycle.decision.waiting)
        )


def _plain(name: str, text: str, value: float) -> core.Metric:
    return core.GaugeMetricFamily(name, text, value=value)


def _labelled(name: str, text: str, label: str, values: Mapping[Any, int]) -> core.Metric:
    family = core.GaugeMetricFamily(name, text, labels=[label])
    for key, value in values.items():
        family.add_metric([str(key)], float(value))
    return family


class _Collector:
    """What prometheus-client asks at each scrape."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterable[core.Metric]:
        return self._metrics.families()

    def describe(self) -> Iterable[core.Metric]:
        """Nothing: the names are ours alone, and collecting to learn them would need a view."""
        return ()
