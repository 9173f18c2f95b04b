"""Forming: it works, it repeats, and a lost race leaves nothing behind."""

import threading

import pytest

from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, scene_of, whole
from tpuctl.cli.rehearsal import Rehearsal
from tpuctl.model import errors, states, topology
from tpuctl.ops import deforming, forming, holding, journal, locking, naming, ports, waiting

PAIR = topology.parse("4x4x8")


def form(scene: Rehearsal, reporter: Recorder, name: str, shape: str, **wish: object) -> forming.Outcome:
    return forming.form(scene.ports, reporter, name, forming.request(topology.parse(shape), **wish))


def test_a_slice_forms_on_cubes_of_one_block_and_its_hosts_are_labelled(
    scene: Rehearsal, reporter: Recorder
) -> None:
    outcome = form(scene, reporter, "train", "4x8x8")
    assert (outcome.verb, outcome.slice.state) == ("formed", states.SliceState.ACTIVE)
    assert 20 <= outcome.waited_s <= 60
    snapshot = whole(scene)
    hosts = snapshot.hosts_of(snapshot.slices_by_name["train"])
    assert len(hosts) == 64
    assert {host.slice_name for host in hosts} == {"train"}
    assert reporter.steps[0] == "slice train created with 4 partitions"
    assert reporter.remote == ""


def test_2048_chips_take_the_published_41_seconds(reporter: Recorder) -> None:
    with scene_of(cubes=32, ready_cubes=32, slice_controller=True) as scene:
        outcome = form(scene, reporter, "large", "8x16x16")
        assert len(outcome.slice.partition_ids) == 32
        assert 40 <= outcome.waited_s <= 50


def test_forming_again_is_unchanged_and_writes_nothing(scene: Rehearsal, reporter: Recorder) -> None:
    first = form(scene, reporter, "train", "4x4x8")
    revision = scene.simulator.call(lambda: scene.simulator.world.store.revision)
    again = form(scene, reporter, "train", "4x4x8", cubes=tuple(reversed(first.slice.partition_ids)))
    assert (again.verb, again.slice.uid) == ("unchanged", first.slice.uid)
    assert scene.simulator.call(lambda: scene.simulator.world.store.revision) == revision


def test_a_run_that_was_killed_after_the_write_is_finished_by_the_next(
    scene: Rehearsal, reporter: Recorder
) -> None:
    prepared = forming.prepare(scene.ports, "train", forming.request(PAIR))
    started = forming.start(scene.ports, reporter, prepared)
    assert started is not None
    finished = form(scene, reporter, "train", "4x4x8")
    assert (finished.verb, finished.slice.uid) == ("formed", started.created.uid)
    assert journal.list_open(scene.ports) == []
    assert len(whole(scene).slices) == 1


def test_a_name_with_another_spec_is_a_conflict(scene: Rehearsal, reporter: Recorder) -> None:
    form(scene, reporter, "train", "4x4x8")
    with pytest.raises(errors.Conflict, match="it is 4x4x8, not 4x4x4"):
        form(scene, reporter, "train", "4x4x4")


def test_no_room_says_needed_usable_and_why(scene: Rehearsal, reporter: Recorder) -> None:
    form(scene, reporter, "train", "4x8x8")
    with pytest.raises(errors.DoesNotFit) as refused:
        form(scene, reporter, "more", "4x4x12")
    assert (
        "does not fit now: 3 cubes of one block needed, the best block has 2 usable" in refused.value.message
    )
    assert refused.value.details[0].endswith("2 of 6 cubes usable; rest: 4 in use (slices: train 4)")
    assert refused.value.hint == "1 more cube must become free or healthy in one block"
    with pytest.raises(errors.DoesNotFit, match="never fits") as never:
        form(scene, reporter, "huge", "8x8x8")
    assert never.value.hint is None


def test_a_refusal_names_a_way_out_that_works(scene: Rehearsal, reporter: Recorder) -> None:
    cubes = [cube.id for cube in whole(scene).cubes]
    holding.hold(scene.ports, cubes[0], reason="burn-in")
    with pytest.raises(errors.DoesNotFit) as refused:
        form(scene, reporter, "all", "4x8x12")
    assert refused.value.hint == (
        f"this would make it fit: tpuctl cube release {cubes[0]}\n"
        "(other ways: tpuctl capacity why-not --topology 4x8x12)"
    )
    holding.release(scene.ports, cubes[0])
    assert form(scene, reporter, "all", "4x8x12").verb == "formed"


def test_the_question_for_other_ways_asks_for_the_same(scene: Rehearsal, reporter: Recorder) -> None:
    snapshot = scene.ports.fleet.observe((*holding.SOURCES,))
    [block] = snapshot.blocks
    holding.hold(scene.ports, snapshot.cubes[0].id, reason="burn-in")
    wish = forming.request(topology.parse("4x8x12"), block=block.id, priority=7, allow_degraded=True)
    with pytest.raises(errors.DoesNotFit) as refused:
        forming.form(scene.ports, reporter, "all", wish)
    assert (refused.value.hint or "").endswith(
        f"tpuctl capacity why-not --topology 4x8x12 --block {block.id} --priority 7 --allow-degraded)"
    )


def test_leave_to_use_degraded_cubes_is_suggested_only_if_that_suffices(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """What was told by counting degraded cubes alone was wrong when they were in use or too few."""
    worn, held = (cube.id for cube in whole(scene).cubes[:2])
    hardware = scene.simulator.world.hardware
    scene.simulator.call(lambda: hardware.cube_degraded(hardware.find_subblock(worn)))
    scene.simulator.advance(60)
    with pytest.raises(errors.DoesNotFit) as refused:
        form(scene, reporter, "all", "4x8x12")
    assert (refused.value.hint or "").startswith("--allow-degraded would make it fit")
    holding.hold(scene.ports, held, reason="burn-in")
    with pytest.raises(errors.DoesNotFit) as refused:
        form(scene, reporter, "all", "4x8x12")
    assert "--allow-degraded" not in (refused.value.hint or "")


def test_a_slice_carries_its_priority(scene: Rehearsal, reporter: Recorder) -> None:
    assert form(scene, reporter, "urgent", "4x4x4", priority=7).slice.priority == 7
    assert form(scene, reporter, "plain", "4x4x4").slice.priority == 0
    assert whole(scene).slices_by_name["urgent"].priority == 7
    assert form(scene, reporter, "urgent", "4x4x4").verb == "unchanged"
    assert form(scene, reporter, "urgent", "4x4x4", priority=7).verb == "unchanged"
    with pytest.raises(errors.Conflict, match="its priority is 7, not 8"):
        form(scene, reporter, "urgent", "4x4x4", priority=8)


def test_a_run_that_died_is_not_finished_with_another_priority(scene: Rehearsal, reporter: Recorder) -> None:
    prepared = forming.prepare(scene.ports, "train", forming.request(PAIR, priority=3))
    assert forming.start(scene.ports, reporter, prepared) is not None
    with pytest.raises(errors.Conflict):
        form(scene, reporter, "train", "4x4x8", priority=4)
    assert form(scene, reporter, "train", "4x4x8").slice.priority == 3


def test_a_degraded_cube_needs_leave_and_makes_the_slice_degraded(
    scene: Rehearsal, reporter: Recorder
) -> None:
    cube = whole(scene).cubes[0]
    hardware = scene.simulator.world.hardware
    scene.simulator.call(lambda: hardware.cube_degraded(hardware.find_subblock(cube.id)))
    scene.simulator.advance(60)
    with pytest.raises(errors.DoesNotFit) as refused:
        form(scene, reporter, "train", "4x4x4", cubes=(cube.id,))
    assert "--allow-degraded" in (refused.value.hint or "")
    outcome = form(scene, reporter, "train", "4x4x4", cubes=(cube.id,), allow_degraded=True)
    assert outcome.slice.state is states.SliceState.ACTIVE_DEGRADED


def test_somebody_who_takes_a_cube_between_plan_and_create_wins(scene: Rehearsal, reporter: Recorder) -> None:
    prepared = forming.prepare(scene.ports, "late", forming.request(PAIR))
    scene.ports.slices.create(ports.SliceSpec("early", topology.CUBE, prepared.partition_ids[:1]))
    started = forming.start(scene.ports, reporter, prepared)
    with pytest.raises(errors.Conflict, match="slice early took some of its partitions first"):
        forming.finish(scene.ports, reporter, prepared, started)
    assert [item.name for item in whole(scene).slices] == ["early"]
    assert journal.list_open(scene.ports) == []


def test_two_at_once_on_the_same_cubes_one_succeeds_and_the_other_names_it(scene: Rehearsal) -> None:
    cubes = tuple(cube.id for cube in whole(scene).cubes[:2])
    found: dict[str, object] = {}

    def run(name: str) -> None:
        try:
            found[name] = form(scene, Recorder(), name, "4x4x8", cubes=cubes)
        except errors.TpuctlError as error:
            found[name] = error

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    won = [name for name, result in found.items() if isinstance(result, forming.Outcome)]
    lost = [result for result in found.values() if isinstance(result, errors.Conflict)]
    assert (len(won), len(lost)) == (1, 1), found
    # Who waits moves the common time on: the lock of the other may outlast the patience.
    assert won[0] in lost[0].message or locking.PLACEMENT in lost[0].message
    late = ({"one", "two"} - {*won}).pop()
    with pytest.raises(errors.Conflict, match=rf"\b{won[0]}\b"):
        form(scene, Recorder(), late, "4x4x8", cubes=cubes)
    assert [item.name for item in whole(scene).slices] == won
    assert journal.list_open(scene.ports) == []


def test_partitions_just_let_go_are_taken_after_they_settle(scene: Rehearsal, reporter: Recorder) -> None:
    first = form(scene, reporter, "train", "4x4x8")
    prepared = deforming.prepare(scene.ports, "train", force_foreign=False)
    assert prepared is not None
    deforming.deform(scene.ports, reporter, prepared)
    again = form(scene, reporter, "next", "4x4x8", cubes=first.slice.partition_ids)
    assert again.slice.state is states.SliceState.ACTIVE
    assert reporter.warnings == []


def test_partitions_that_somebody_else_has_just_let_go_are_tried_again(
    scene: Rehearsal, reporter: Recorder
) -> None:
    first = form(scene, reporter, "train", "4x4x8")
    scene.ports.slices.delete("train", uid=first.slice.uid)
    waiting.until_gone(scene.ports, reporter, "train", uid=first.slice.uid)
    again = form(scene, reporter, "next", "4x4x8", cubes=first.slice.partition_ids)
    assert again.slice.state is states.SliceState.ACTIVE
    assert any("the same again" in text for text in reporter.warnings)


def test_cubes_on_which_pods_of_a_former_slice_still_run_are_left_alone(
    scene: Rehearsal, reporter: Recorder
) -> None:
    """OME's rule: chips that another workload holds are not free."""
    swaps.busy_slice(scene)
    old = whole(scene).slices_by_name["train"].partition_ids
    prepared = deforming.prepare(scene.ports, "train", force_foreign=False)
    assert prepared is not None
    deforming.deform(scene.ports, reporter, prepared)
    outcome = form(scene, reporter, "next", "4x8x8")
    assert not set(outcome.slice.partition_ids) & set(old)
    with pytest.raises(errors.Conflict, match="16 pods of default/Job/work still run"):
        form(scene, reporter, "more", "4x4x8", cubes=old)


def test_a_slice_deleted_while_it_forms_is_a_conflict(scene: Rehearsal, reporter: Recorder) -> None:
    outcome = forming.form(scene.ports, reporter, "train", forming.request(PAIR), wait=False)
    assert outcome.verb == "forming"
    scene.ports.slices.delete("train", uid=outcome.slice.uid)
    with pytest.raises(errors.Conflict, match="deleted by somebody else"):
        waiting.until_ready(scene.ports, reporter, "train", uid=outcome.slice.uid, shape=PAIR)


def test_waiting_ends_and_says_what_goes_on(scene: Rehearsal, reporter: Recorder) -> None:
    with pytest.raises(errors.TimedOut) as ended:
        forming.form(scene.ports, reporter, "train", forming.request(PAIR), timeout_s=5)
    assert ended.value.hint == "slice train goes on forming; follow it with: tpuctl slice wait train"
    assert forming.wait(scene.ports, reporter, "train", timeout_s=120).state is states.SliceState.ACTIVE


def test_ready_means_labelled(scene: Rehearsal, reporter: Recorder) -> None:
    form(scene, reporter, "train", "4x4x8")
    assert scene.ports.slices.labelled_hosts("train") == 32


def test_the_servers_own_check_runs_in_a_dry_run_and_stores_nothing(scene: Rehearsal) -> None:
    prepared = forming.prepare(scene.ports, "train", forming.request(PAIR))
    forming.validate(scene.ports, prepared)
    assert whole(scene).slices == ()


@pytest.mark.parametrize(
    ("cubes", "error", "text"),
    [
        (("nowhere", "nothing"), errors.NotFound, "there is no cube 'nowhere'"),
        ((0, 0), errors.UsageError, "names a cube twice"),
        ((0,), errors.UsageError, "needs exactly 2 cubes, --cubes names 1"),
    ],
)
def test_lists_of_cubes_are_checked_before_anything_is_done(
    scene: Rehearsal, cubes: tuple, error: type[errors.TpuctlError], text: str
) -> None:
    known = whole(scene).cubes
    named = tuple(known[item].id if isinstance(item, int) else item for item in cubes)
    with pytest.raises(error, match=text):
        forming.prepare(scene.ports, "train", forming.request(PAIR, cubes=named))
    assert whole(scene).slices == ()


def test_cubes_of_two_blocks_are_refused_and_blocks_are_found_by_name_and_id() -> None:
    with scene_of(blocks=2, cubes=2, ready_cubes=4, slice_controller=True) as scene:
        snapshot = whole(scene)
        first, second = snapshot.blocks
        mixed = (first.cubes[0].id, second.cubes[0].id)
        with pytest.raises(errors.UsageError, match="cubes of 2 blocks"):
            forming.prepare(scene.ports, "s", forming.request(PAIR, cubes=mixed))
        by_id = forming.prepare(scene.ports, "s", forming.request(PAIR, block=second.id))
        assert by_id.block == second.id
        with pytest.raises(errors.NotFound, match="there is no block 'b9'"):
            forming.prepare(scene.ports, "s", forming.request(PAIR, block="b9"))


def test_a_cube_can_be_named_by_partition_pool_or_sub_block(scene: Rehearsal) -> None:
    snapshot = whole(scene)
    cube = snapshot.cubes[0]
    assert cube.pool is not None
    assert cube.sub_block is not None
    for name in (cube.id, cube.pool.name, cube.sub_block.name):
        assert naming.find_cube(snapshot, name) is cube


def test_sub_slices_share_a_cube_and_keep_off_each_other(scene: Rehearsal, reporter: Recorder) -> None:
    for name, shape in (("a", "2x2x4"), ("b", "2x2x2"), ("c", "2x2x2")):
        assert form(scene, reporter, name, shape).slice.state is states.SliceState.ACTIVE
    snapshot = whole(scene)
    used = {cube.id for item in snapshot.slices for cube in snapshot.cubes_of(item)}
    assert len(used) == 1
    assert sum(len(snapshot.hosts_of(item)) for item in snapshot.slices) == 8


def test_waiting_for_a_slice_that_is_not_there(scene: Rehearsal, reporter: Recorder) -> None:
    with pytest.raises(errors.NotFound, match="there is no slice ghost"):
        forming.wait(scene.ports, reporter, "ghost", timeout_s=5)


def test_without_the_slice_controller_the_way_out_is_named() -> None:
    with scene_of(cubes=1) as scene, pytest.raises(errors.NotFound) as refused:
        forming.prepare(scene.ports, "s", forming.request(topology.CUBE))
    assert "gcloud container clusters update sim" in (refused.value.hint or "")
    assert "--enable-slice-controller" in (refused.value.hint or "")
