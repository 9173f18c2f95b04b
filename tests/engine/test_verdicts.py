"""Remembered verdicts with slices as witnesses; without them: `reconciling/test_memory.py`."""

from __future__ import annotations

import datetime

from tests import builders
from tpuctl.engine.health import judging, verdicts
from tpuctl.model import health, states

NOW = datetime.datetime(2026, 1, 5, 12, tzinfo=datetime.UTC)
POLICY = health.DEFAULT_POLICY


def test_with_and_without_witnesses_in_turn():
    cube = builders.cube("c1")
    active = builders.slice_of("train", "4x4x4", "c1")
    worn = active._replace(state=states.SliceState.ACTIVE_DEGRADED, reason="ACTIVE_DEGRADED")
    for minutes, slices in enumerate(((), (active,), (worn,), (), (worn,), (active, worn), (active,))):
        now = NOW + datetime.timedelta(minutes=minutes)
        expected = judging.judge(cube, POLICY, now, slices=slices)
        assert verdicts.of(cube, POLICY, now, slices) == expected
    assert judging.judge(cube, POLICY, NOW, slices=(worn,)).verdict is states.Verdict.DEGRADED


def test_the_same_witnesses_are_not_heard_again(monkeypatch):
    cube = builders.cube("c1")
    active = builders.slice_of("train", "4x4x4", "c1")
    first = verdicts.of(cube, POLICY, NOW, (active,))
    plain = verdicts.of(cube, POLICY, NOW)
    monkeypatch.setattr(verdicts.judging, "judge", None)
    again = active._replace(revision=active.revision)
    assert verdicts.of(cube, POLICY, NOW + datetime.timedelta(hours=5), (again,)) is first
    assert verdicts.passing(cube, POLICY, NOW) is plain


def test_in_passing_nothing_is_kept(monkeypatch):
    cube = builders.cube("c1")
    asked = []
    judge = judging.judge

    def counted(*arguments):
        asked.append(arguments)
        return judge(*arguments)

    monkeypatch.setattr(verdicts.judging, "judge", counted)
    assert verdicts.passing(cube, POLICY, NOW) == verdicts.passing(cube, POLICY, NOW)
    assert len(asked) == 2
