"""Operations that stay open: a person hears of them once."""

import dataclasses

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.engine.reconciling import finishing
from tpuctl.model import operations

TRAIN = builders.slice_of("train", "4x4x8", "b1-c00", "b1-c01")


def on(open_s, **more):
    """A slice under a swap that was begun so long ago, and is to be finished."""
    entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.CREATING, **more)
    seen = stage.view(
        builders.fleet_of(*stage.cubes(4)), stage.spec(stage.want("train", "4x4x8")), operations=(entry,)
    )
    first = dataclasses.replace(seen, memory=stage.memory(TRAIN))
    return stage.later(first, engine.decide(first), open_s - 60.0), entry


def told(decision, entry):
    return [item.text for item in decision.memory.recommendations if item.subject == f"operation/{entry.id}"]


def test_one_that_takes_minutes_is_only_gone_on_with():
    seen, entry = on(finishing.OPEN_FOR_S - 1)
    found = engine.decide(seen)
    assert stage.lines(found) == [f"finish/{entry.id}"]
    assert told(found, entry) == []


def test_one_that_does_not_end_is_told_and_still_gone_on_with():
    """slurm-operator #249, NVSentinel #1854: nobody heard that something was wedged."""
    seen, entry = on(finishing.OPEN_FOR_S)
    found = engine.decide(seen)
    assert stage.lines(found) == [f"finish/{entry.id}"]
    [text] = told(found, entry)
    assert text.startswith("it has been open since 2026-01-05 07:59:00 UTC, ")
    assert text.endswith(f"see: tpuctl operation show {entry.id}")
    again = engine.decide(stage.later(seen, found, 600.0))
    assert again.memory.recommendations == found.memory.recommendations


def test_why_it_stopped_is_better_than_that_it_is_old():
    seen, entry = on(finishing.OPEN_FOR_S, note="no other cubes are left to try")
    [text] = told(engine.decide(seen), entry)
    assert text.startswith("it stopped: no other cubes are left to try; ")
