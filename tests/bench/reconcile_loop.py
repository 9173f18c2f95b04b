"""The reconcile loop, as it is: one cycle after the other on the simulator, in virtual time.

Between failures and repairs a cycle changes nothing (a test of its own says so), so that time is skipped:
cycles come at their interval after every event and as long as they do something, and now and then besides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.bench.reconcile_maximizer import Counted, Quiet
from tpuctl.ops.reconciling import loop, outcomes
from tpuctl.ops.reconciling import settings as settings_module

if TYPE_CHECKING:
    from tests.bench.reconcile_stage import Stage

INTERVAL_S = settings_module.INTERVAL_S
PAUSES_S = ((5, INTERVAL_S), (12, 300.0))
"""After so many cycles in a row that did nothing the pause grows: hosts boot, labels follow, graces pass."""
LONG_S, LONG_WHOLE_S = 3600.0, 6 * 3600.0
"""Then: while something is missing that only a repair can bring, and while all is as it should be."""
_POOL_OPERATIONS = ("CREATE_NODE_POOL", "DELETE_NODE_POOL")


class Loop:
    """The loop for one run."""

    def __init__(self, stage: Stage, *, tell: bool = False) -> None:
        self._stage = stage
        self._tell = tell
        self._settings = settings_module.Settings(spec=stage.spec, spec_digest="bench")
        self._outcome: outcomes.Outcome | None = None
        self.cycles = 0

    def play(self) -> None:
        """Cycle after cycle until the end."""
        calm, horizon_s = 0, self._stage.run.horizon_s
        while self._stage.now_s < horizon_s:
            event_s = self._stage.next_event_s()
            calm = 0 if self._cycle() else calm + 1
            self._stage.users()
            if event_s <= self._stage.now_s:
                calm = 0
            next_s = self._stage.now_s + self._pause_s(calm)
            if next_s > event_s > self._stage.now_s:
                # The first cycle after the event comes somewhere within its interval: half of it on average.
                next_s, calm = event_s + INTERVAL_S / 2, 0
            self._stage.wait_until(min(next_s, horizon_s))

    def _pause_s(self, calm: int) -> float:
        meter = self._stage.meter
        if meter.whole_s() is None:
            return INTERVAL_S
        long_s = LONG_WHOLE_S if meter.is_converged else LONG_S
        return next((pause_s for cycles, pause_s in PAUSES_S if calm <= cycles), long_s)

    def _cycle(self) -> bool:
        """One cycle, as from cron; true if it did anything."""
        self.cycles += 1
        loop.run(
            self._stage.scene.ports, Quiet(), self._settings, once=True, on_cycle=self._keep, watch=False
        )
        outcome = self._outcome
        assert outcome is not None
        if self._tell:
            why = [f"{result.action.id}: {result.why}" for result in outcome.results if result.why]
            print(f"{self._stage.now_s:10.0f} {outcome.sentence}", *why, sep="\n           ")
        return bool(outcome.results) or outcome.failure is not None

    def _keep(self, outcome: outcomes.Outcome) -> None:
        self._outcome = outcome


def play(stage: Stage, *, tell: bool = False) -> Counted:
    """Run it to the horizon."""
    played = Loop(stage, tell=tell)
    played.play()
    world = stage.scene.simulator.world
    pools = stage.scene.simulator.call(
        lambda: [
            one.started_s - stage.meter.start_s
            for one in world.gke.operations
            if one.kind in _POOL_OPERATIONS
        ]
    )
    return Counted(sorted(pools), stage.meter.slice_operations_s, played.cycles)
