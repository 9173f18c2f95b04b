"""What a plan relies on, and what has become of it."""

import dataclasses
import datetime

from tests import builders
from tests.engine.reconciling import stage
from tpuctl.engine import reconciling as engine
from tpuctl.model import fleet, operations, reconciling, states

CUBES = stage.cubes(6)
TRAIN = builders.slice_of("train", "4x8x8", *(cube.id for cube in CUBES[:4]))
DOWN = stage.failed(TRAIN)
SPEC = stage.spec(stage.want("train", "4x8x8"), stage.want("new", "4x4x4"))


def seen(*changed, slices=(DOWN,), **more):
    snapshot = stage.with_cubes(builders.fleet_of(*CUBES, slices=slices), stage.sick(CUBES[0]), *changed)
    return stage.view(snapshot, SPEC, **more)


PLAN = engine.decide(seen()).actions


def test_the_plan_is_as_expected():
    assert [action.id for action in PLAN] == ["swap/train", "form/new"]


def test_nothing_moved():
    """kueue #6570: heartbeats taken for changes."""
    beats = seen()
    hosts = tuple(host._replace(uid=f"{host.uid}-x") for host in CUBES[5].hosts)
    later = beats.now + datetime.timedelta(minutes=3)
    quiet = stage.with_cubes(beats.snapshot, dataclasses.replace(CUBES[5], hosts=hosts))
    other = stage.failed(TRAIN, 5000.0, revision="99", message="retried")
    quiet = stage.with_slices(dataclasses.replace(quiet, observed_at=later), other)
    assert engine.drift(dataclasses.replace(beats, snapshot=quiet), PLAN) == ()


def test_a_replacement_that_somebody_took():
    taken = seen(slices=(stage.failed(TRAIN), builders.slice_of("other", "4x4x4", "b1-c04")))
    assert engine.drift(taken, PLAN[:1]) == (
        "cube b1-c04: healthy held by nobody then, healthy held by other now",
    )


def test_a_replacement_that_failed_or_was_put_on_hold():
    [worse] = engine.drift(seen(stage.sick(CUBES[4])), PLAN[:1])
    assert worse == "cube b1-c04: healthy held by nobody then, unhealthy held by nobody now"
    held = seen()
    claims = (operations.Claim("b1-c04", "hold by jo: burn-in"),)
    held = dataclasses.replace(held, snapshot=dataclasses.replace(held.snapshot, claims=claims))
    [kept] = engine.drift(held, PLAN[:1])
    assert kept.endswith("healthy held by nobody, claimed: hold by jo: burn-in now")


def test_the_fault_is_gone():
    """draino #50, #17, #116: the condition cleared while the act was waiting."""
    well = stage.view(builders.fleet_of(*CUBES, slices=(stage.failed(TRAIN),)), SPEC)
    [cleared] = engine.drift(well, PLAN[:1])
    assert cleared == "cube b1-c00: unhealthy held by train then, healthy held by train now"


def test_the_slice_was_made_anew_or_is_up_again_or_gone():
    anew = engine.drift(seen(slices=(stage.failed(TRAIN)._replace(uid="other"),)), PLAN[:1])
    assert anew[0].startswith("slice train: uid-train down on 4 partitions #")
    assert len(engine.drift(seen(slices=(TRAIN,)), PLAN[:1])) == 1
    gone = engine.drift(seen(slices=()), PLAN[:1])
    assert any(line.endswith("not there now") for line in gone)


def test_a_slice_that_somebody_else_formed_under_the_name():
    by_jo = builders.slice_of("new", "4x4x4", "b1-c05")
    name, cube = engine.drift(seen(slices=(stage.failed(TRAIN), by_jo)), PLAN[1:])
    assert name.startswith("slice new: not there then, uid-new up on 1 partitions #")
    assert cube.endswith("healthy held by new now")


def test_another_declared_state():
    """xpk #1109: an act on a decision that was withdrawn."""
    assert engine.drift(seen(spec_digest="e"), PLAN[1:]) == ("spec f: d then, e now",)


def test_sub_slices_of_one_cube_do_not_disturb_each_other():
    wanted = stage.spec(stage.want("s", "2x2x4", count=2))
    before = stage.view(builders.fleet_of(CUBES[0]), wanted)
    first, second = engine.decide(before).actions
    made = builders.slice_of("s-0", "2x2x4", *first.forming[0].partition_ids)
    after = stage.view(builders.fleet_of(CUBES[0], slices=(made,)), wanted)
    assert engine.drift(after, [second]) == ()
    thief = builders.slice_of("x", "2x2x1", "b1-c00.221.4")
    taken = stage.view(builders.fleet_of(CUBES[0], slices=(made, thief)), wanted)
    [moved] = engine.drift(taken, [second])
    assert moved.endswith("healthy held by x now")


def test_a_node_pool_that_came_or_changed():
    cube = stage.with_pool(0, hosts=0, status="ERROR")
    wanted = stage.spec(blocks=(stage.declared.BlockSpec(name="b1"),))
    before = stage.view(stage.hardware(cube, stage.with_pool(1)), wanted, blocks=stage.reserved(cube))
    _, found = stage.second_look(before, 3600.0)
    now = stage.with_pool(0, hosts=16)
    after = stage.view(stage.hardware(now, stage.with_pool(1)), wanted, blocks=stage.reserved(now))
    lines = engine.drift(after, found.actions)
    assert lines[0] == "pool cube-sb00: ERROR for sb00, 0 nodes then, RUNNING for sb00, 16 nodes now"


def test_an_operation_that_somebody_went_on_with():
    entry = stage.operation(TRAIN, operations.Kind.SWAP, operations.Intent.DELETING)
    before = seen(slices=(), operations=(entry,))
    plan = engine.decide(before).actions
    further = dataclasses.replace(entry, intent=operations.Intent.CREATING)
    assert engine.drift(before, plan) == ()
    [moved] = engine.drift(dataclasses.replace(before, operations=(further,)), plan[:1])
    assert moved.startswith(f"operation {entry.id}: deleting ")
    assert engine.drift(dataclasses.replace(before, operations=()), plan[:1])[0].endswith("not there now")


def test_facts_are_those_of_the_action():
    before = seen()
    for action in PLAN:
        assert engine.facts_of(before, action) == action.facts


def test_the_digest_of_a_plan_changes_with_what_it_does_and_relies_on():
    assert engine.digest(PLAN) == engine.digest(tuple(PLAN))
    assert engine.digest(PLAN) != engine.digest(PLAN[:1])
    other = dataclasses.replace(PLAN[0], facts=(reconciling.Fact("spec", "f", "e"),))
    assert engine.digest((other,)) != engine.digest(PLAN[:1])


def test_words_of_a_slice_that_comes_and_goes():
    """ACTIVE and ACTIVE_DEGRADED are one thing for a plan; being taken apart is another."""
    wanted = stage.spec(stage.want("train", "8x8x8"))
    [old] = [builders.slice_of("train", "4x4x4", "b1-c00")]
    cubes = stage.cubes(9)
    plan = engine.decide(stage.view(builders.fleet_of(*cubes, slices=(old,)), wanted)).actions
    worn = old._replace(state=states.SliceState.ACTIVE_DEGRADED)
    assert engine.drift(stage.view(builders.fleet_of(*cubes, slices=(worn,)), wanted), plan) == ()
    going = old._replace(deleting=True)
    assert len(engine.drift(stage.view(builders.fleet_of(*cubes, slices=(going,)), wanted), plan)) == 1
    owned = old._replace(owner=fleet.Owner("kueue", "Workload", "default", "w"))
    assert len(engine.drift(stage.view(builders.fleet_of(*cubes, slices=(owned,)), wanted), plan)) == 1
