"""Verdicts: the worse of two sources counts, silence is unknown."""

import dataclasses

from tests import builders
from tpuctl.engine import health
from tpuctl.model import states

Verdict = states.Verdict


def test_a_sound_cube_is_healthy_without_reasons() -> None:
    assert health.judge(builders.cube("c")) == health.Judgement(Verdict.HEALTHY, ())


def test_fifteen_hosts_are_incomplete() -> None:
    found = health.judge(builders.cube("c", hosts=15))
    assert found.verdict is Verdict.INCOMPLETE
    assert found.reasons == ("15 of 16 hosts", "partition label says INCOMPLETE")


def test_the_label_may_lag_behind_the_node() -> None:
    found = health.judge(builders.changed(builders.cube("c"), 5, ready=False))
    assert (found.verdict, found.reasons) == (Verdict.UNHEALTHY, ("host node-c-05 is not ready",))


def test_a_silent_host_makes_the_cube_unknown_not_unhealthy() -> None:
    found = health.judge(builders.changed(builders.cube("c"), 5, ready=None))
    assert (found.verdict, found.reasons) == (Verdict.UNKNOWN, ("host node-c-05 does not report",))


def test_degraded_and_unset_are_different_things() -> None:
    degraded = builders.cube("c", state=states.PartitionState.DEGRADED)
    unset = builders.cube("c", state=states.PartitionState.UNSET)
    assert health.judge(degraded).verdict is Verdict.DEGRADED
    assert health.judge(unset).verdict is Verdict.UNKNOWN


def test_no_pool_and_no_nodes_are_told_apart() -> None:
    bare = dataclasses.replace(builders.cube("c"), hosts=())
    assert health.judge(bare) == health.Judgement(Verdict.INCOMPLETE, ("no node pool",))
