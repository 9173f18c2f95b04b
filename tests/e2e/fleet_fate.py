"""What happens to a fleet meanwhile: failing hosts, maintenance, a stockout, the death of a leader."""

from __future__ import annotations

import contextlib
import dataclasses
import random
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.e2e import crash_stage, soak_faults
from tpuctl.cli import rehearsal, wiring
from tpuctl.cloud import kube
from tpuctl.model import topology
from tpuctl.ops.reconciling import leadership
from tpuctl.sim.gke import pools

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.e2e import fleet_days
    from tpuctl.model import fleet

DAY_S = 86_400.0
SHORTEST_REPAIR_S = 600.0
JUST_NOW_S = 60.0
"""A slice that went down no longer ago than this is being dealt with."""
FAILURES = {"host-down": 12, "host-gone": 3, "chip-error": 3, "host-crash": 2}
"""How a host fails, and how often that is relative to the others. All end with its repair; the last one ends
with a reset, too."""
ELSEWHERE = "sim-admin@elsewhere:1"


class Failure(NamedTuple):
    """A host that fails; times in seconds since the days began."""

    at_s: float
    host: int
    how: str
    for_s: float


class Elsewhere:
    """The identity of a loop on another machine, which cannot see whether a process here lives."""

    def actor(self) -> str:
        return ELSEWHERE

    def is_dead(self, holder: str) -> bool:
        return False


def failures(run: fleet_days.Run) -> list[Failure]:
    """Drawn from the seed; each host is down once at a time."""
    dice = random.Random(run.seed)
    hosts = run.cubes * topology.HOSTS_PER_CUBE
    rate = hosts * run.failures_per_host_day / DAY_S
    found: list[Failure] = []
    back_s: dict[int, float] = {}
    at_s = dice.expovariate(rate)
    while at_s < run.horizon_s:
        host, for_s = dice.randrange(hosts), max(dice.expovariate(1 / run.repair_s), SHORTEST_REPAIR_S)
        [how] = dice.choices(list(FAILURES), list(FAILURES.values()))
        if back_s.get(host, 0.0) < at_s:
            found.append(Failure(max(at_s, 1.0), host, how, for_s))
            back_s[host] = at_s + for_s
        at_s += dice.expovariate(rate)
    return found


class Fate:
    """What is settled before the first day, and the deeds of people on the way."""

    def __init__(self, days: fleet_days.Days) -> None:
        self._days = days
        self._stage = days.stage
        self._run = days.run
        self._deeds: list[tuple[float, Callable[[], bool]]] = []
        self.events_s: list[float] = []
        """When something happens, since the days began."""
        self.failures = 0
        self.stockout = ""
        """The node pool that was deleted and then could not be made."""

    def settle(self) -> None:
        """Now the days begin."""
        cubes = self._stage.simulator.call(
            lambda: [cube.name for cube in self._stage.simulator.world.hardware.subblocks()]
        )
        for failure in failures(self._run):
            cube, index = divmod(failure.host, topology.HOSTS_PER_CUBE)
            self._stage.simulator.inject(
                failure.how, f"{cubes[cube]}/{index}", after_s=failure.at_s, for_s=failure.for_s
            )
            self.events_s += [failure.at_s, failure.at_s + failure.for_s]
            self.failures += 1
        horizon_s = self._run.horizon_s
        self._deeds = [
            (0.2 * horizon_s, self._plan_maintenance),
            (0.5 * horizon_s, self._lose_a_pool),
            (0.6 * horizon_s, self._kill_the_leader),
        ]
        self.events_s += [at_s for at_s, _ in self._deeds]

    def happened(self, from_s: float, to_s: float) -> bool:
        return any(from_s < event_s <= to_s for event_s in self.events_s)

    def next_s(self, now_s: float) -> float:
        """When the next thing happens; the end of the days after the last."""
        return min((event_s for event_s in self.events_s if event_s > now_s), default=self._run.horizon_s)

    # -- deeds -------------------------------------------------------------------------------------------

    def act(self) -> bool:
        """Do what is due; what cannot be done yet stays due."""
        due = [deed for at_s, deed in self._deeds if at_s <= self._days.since_s]
        done = [deed for deed in due if deed()]
        self._deeds = [(at_s, deed) for at_s, deed in self._deeds if deed not in done]
        return bool(done)

    def _plan_maintenance(self) -> bool:
        """A window over some cubes of the largest slice, announced some days before."""
        after_s = 0.1 * self._run.horizon_s
        item = max(self._days.slices(), key=lambda item: len(item.partition_ids))
        for cube in item.partition_ids[: self._run.maintained]:
            self._stage.simulator.inject("maintenance", cube, after_s=after_s, for_s=self._run.maintenance_s)
        opens_s = self._days.since_s + after_s
        self.events_s += [opens_s, opens_s + self._run.maintenance_s]
        return True

    def _lose_a_pool(self) -> bool:
        """Somebody deletes the pool of a free cube; when it is made again, there is no capacity."""
        free = [cube for cube in self._days.free_cubes() if cube.ready_hosts == topology.HOSTS_PER_CUBE]
        if not free or free[0].pool is None:
            return False
        self.stockout = free[0].pool.name
        world = self._stage.simulator.world
        failure = pools.InjectedFailure("GCE_STOCKOUT", "The zone does not have enough resources available.")
        self._stage.simulator.call(lambda: world.gke.pools.failures.append(failure))
        self._days.record.others.add(self._stage.ports.pools.delete(self.stockout).name)
        return True

    def _kill_the_leader(self) -> bool:
        """With the next failure under a slice: right after it has deleted the slice to exchange the cube."""
        if self._days.now_s - self._days.record.lost_s > JUST_NOW_S:
            return False
        dying = wiring.connect(self._stage.context, rehearsal.DrivenClock(self._stage.simulator))
        with killed_after_deletion() as struck, contextlib.suppress(soak_faults.Killed):
            self._days.loop(dying, deadline_s=3 * JUST_NOW_S)
        if not struck:
            return False
        died_s = self._days.now_s
        lease = self._stage.ports.leases.get(leadership.NAME)
        assert lease is not None
        assert lease.is_held, "the dead leader's lock was to last on"
        elsewhere = dataclasses.replace(self._stage.ports, identity=Elsewhere())
        before = len(self._days.outcomes)

        def is_calm() -> bool:
            return len(self._days.outcomes) > before and not self._days.outcomes[-1].results

        told = self._days.loop(elsewhere, deadline_s=1800.0, stop=is_calm)
        assert any(f"lock {leadership.NAME} of" in text and "expired" in text for text in told.warnings), told
        first = self._days.outcomes[before]
        assert first.at is not None
        self._days.result.takeover_s = self._days.seconds_of(first.at) - died_s
        return True


def free_cubes(snapshot: fleet.Fleet) -> list[fleet.Cube]:
    """Cubes of which no slice holds any part."""
    held = {part for item in snapshot.slices for part in item.partition_ids}
    used = held | {snapshot.cube_of_partition.get(part, part) for part in held}
    return [cube for cube in snapshot.cubes if cube.id not in used]


@contextlib.contextmanager
def killed_after_deletion() -> Iterator[list[str]]:
    """Kill -9 for whoever deletes a Slice next: it is deleted, and nothing comes after."""
    struck: list[str] = []
    dead: set[int] = set()
    real = kube.Kube.request

    def request(self: kube.Kube, method: str, path: str, **options: object) -> kube.Answer:
        if id(self) in dead:
            raise soak_faults.Killed
        answer = real(self, method, path, **options)  # type: ignore[arg-type] # as given
        if method == "DELETE" and f"{crash_stage.SLICES}/" in path and not struck:
            dead.add(id(self))
            struck.append(path)
            raise soak_faults.Killed
        return answer

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kube.Kube, "request", request)
        yield struck
