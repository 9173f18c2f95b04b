"""A Slice that is refused leaves no operation open; one that was left open is finished only as asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.ops.conftest import Recorder, scene_of, whole
from tests.ops.test_second_failures import dying, locks_expire
from tests.ops.test_swapping import nothing_left
from tpuctl.cloud import records, slices
from tpuctl.model import errors, operations, states, topology
from tpuctl.ops import forming, gangs, journal, waiting
from tpuctl.sim import api_faults
from tpuctl.sim.controllers import webhook

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.cli.rehearsal import Rehearsal

PAIR = topology.parse("4x4x8")
ALL = topology.parse("4x8x12")
CREATE = {"api": "kubernetes", "verb": "create", "resource": "slices"}


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Call it to have GKE's webhook refuse slices of these names."""

    def refuse(*names: str) -> None:
        def problem(_self: object, new: dict) -> str | None:
            return "not all nodes of the cube are ready" if new["metadata"]["name"] in names else None

        monkeypatch.setattr(webhook.SliceWebhook, "problem", problem)

    return refuse


def test_a_form_that_a_webhook_refuses_gives_its_cubes_back(
    scene: Rehearsal, reporter: Recorder, refusing: Callable[..., None]
) -> None:
    refusing("train")
    with pytest.raises(errors.UsageError, match="not all nodes of the cube are ready"):
        forming.form(scene.ports, reporter, "train", forming.request(PAIR))
    nothing_left(scene)
    assert forming.form(scene.ports, reporter, "all", forming.request(ALL)).verb == "formed"


@pytest.mark.parametrize(("code", "kind"), [(403, errors.NotPermitted), (409, errors.Conflict)])
def test_any_other_refusal_does_too(
    scene: Rehearsal, reporter: Recorder, code: int, kind: type[errors.TpuctlError]
) -> None:
    with api_faults.injected(scene.simulator, api_faults.Error(code), **CREATE), pytest.raises(kind):
        forming.form(scene.ports, reporter, "train", forming.request(PAIR))
    nothing_left(scene)


def test_what_the_server_may_have_done_stays_open(scene: Rehearsal, reporter: Recorder) -> None:
    with (
        api_faults.injected(scene.simulator, api_faults.Error(503), **CREATE),
        pytest.raises(errors.Unavailable),
    ):
        forming.form(scene.ports, reporter, "train", forming.request(PAIR))
    assert [entry.operation.id for entry in journal.list_open(scene.ports)] == ["form-train"]
    assert forming.form(scene.ports, reporter, "train", forming.request(PAIR)).verb == "formed"
    nothing_left(scene)


def test_a_refusal_is_told_even_if_the_record_cannot_be_closed(
    scene: Rehearsal, reporter: Recorder, refusing: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbid(*_: object) -> None:
        raise errors.NotPermitted("cannot delete record op-train")

    refusing("train")
    with monkeypatch.context() as patched:
        patched.setattr(records.KubeRecords, "delete", forbid)
        with pytest.raises(errors.UsageError, match="not all nodes"):
            forming.form(scene.ports, reporter, "train", forming.request(PAIR))
    assert reporter.warnings == ["operation form-train is still open: cannot delete record op-train"]
    assert journal.of_slice(scene.ports, "train") is not None


def test_of_a_gang_nothing_is_left_if_one_is_refused(
    scene: Rehearsal, reporter: Recorder, refusing: Callable[..., None]
) -> None:
    refusing("train-1")
    with pytest.raises(errors.UsageError, match="create slice train-1"):
        gangs.form(scene.ports, reporter, gangs.members("train", 3), forming.request(PAIR))
    assert any("taking 1 slices back" in step for step in reporter.steps)
    assert whole(scene).slices == ()
    nothing_left(scene)


def test_a_second_attempt_that_is_refused_leaves_nothing_either(
    scene: Rehearsal, reporter: Recorder, refusing: Callable[..., None]
) -> None:
    """SliceCreationFailed is tried again on the same cubes; by then a node may be gone."""

    class Refusing(Recorder):
        def warn(self, text: str) -> None:
            super().warn(text)
            if "the same again" in text:
                refusing("next")

    first = forming.form(scene.ports, reporter, "train", forming.request(PAIR))
    scene.ports.slices.delete("train", uid=first.slice.uid)
    waiting.until_gone(scene.ports, reporter, "train", uid=first.slice.uid)
    telling = Refusing()
    wish = forming.request(PAIR, cubes=first.slice.partition_ids)
    with pytest.raises(errors.UsageError, match="not all nodes"):
        forming.form(scene.ports, telling, "next", wish)
    assert any("the same again" in text for text in telling.warnings)
    assert whole(scene).slices == ()
    nothing_left(scene)


# -- what an earlier run left --------------------------------------------------------------------------------


@pytest.fixture
def begun(scene: Rehearsal, monkeypatch: pytest.MonkeyPatch) -> operations.Operation:
    """A run that died before its Slice was created."""
    with dying(monkeypatch, slices.KubeSlices, "create"):
        forming.form(scene.ports, Recorder(), "train", forming.request(PAIR, allow_degraded=True))
    locks_expire(scene)
    left = journal.of_slice(scene.ports, "train")
    assert left is not None
    return left.operation


def refused(scene: Rehearsal, wish: forming.Request) -> errors.Conflict:
    with pytest.raises(errors.Conflict) as found:
        forming.form(scene.ports, Recorder(), "train", wish)
    assert whole(scene).slices == ()
    return found.value


def test_a_rerun_with_other_cubes_is_told_what_is_open(scene: Rehearsal, begun: operations.Operation) -> None:
    """It used to end 'formed' on the cubes of the first run."""
    others = sorted({cube.id for cube in whole(scene).cubes} - {*begun.partitions})[:2]
    told = refused(scene, forming.request(PAIR, cubes=others, allow_degraded=True))
    assert told.message == f"operation form-train of {begun.actor} is open on slice train"
    assert told.details == (f"it uses other cubes: {', '.join(sorted(begun.partitions))}",)
    assert told.hint == (
        "finish it: tpuctl operation resume form-train, or go back: tpuctl operation abort form-train"
    )


def test_a_rerun_in_other_words_for_the_same_is_gone_on_with(
    scene: Rehearsal, reporter: Recorder, begun: operations.Operation
) -> None:
    cubes = whole(scene).cubes_by_id
    pools = [cubes[part].pool for part in reversed(begun.partitions)]
    names = [pool.name for pool in pools if pool is not None]
    [block] = whole(scene).blocks
    wish = forming.request(PAIR, cubes=names, block=block.name, allow_degraded=True)
    outcome = forming.form(scene.ports, reporter, "train", wish)
    assert (outcome.verb, outcome.slice.partition_ids) == ("formed", begun.partitions)
    assert journal.list_open(scene.ports) == []


@pytest.mark.parametrize(
    ("wish", "difference"),
    [
        (forming.request(topology.CUBE), "it forms 4x4x8, not 4x4x4"),
        (forming.request(PAIR, priority=3), "its priority is 0, not 3"),
        (forming.request(PAIR), "it was begun with leave to use degraded cubes"),
    ],
)
def test_a_rerun_that_asks_for_something_else(
    scene: Rehearsal, begun: operations.Operation, wish: forming.Request, difference: str
) -> None:
    assert refused(scene, wish).details == (difference,)


def test_more_leave_than_was_needed_is_no_difference(
    scene: Rehearsal, reporter: Recorder, monkeypatch
) -> None:
    with dying(monkeypatch, slices.KubeSlices, "create"):
        forming.form(scene.ports, Recorder(), "train", forming.request(PAIR))
    locks_expire(scene)
    wish = forming.request(PAIR, allow_degraded=True)
    assert forming.form(scene.ports, reporter, "train", wish).verb == "formed"


def test_another_block_is_another_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    with scene_of(blocks=2, cubes=2, ready_cubes=4, slice_controller=True) as scene:
        with dying(monkeypatch, slices.KubeSlices, "create"):
            forming.form(scene.ports, Recorder(), "train", forming.request(PAIR))
        locks_expire(scene)
        left = journal.of_slice(scene.ports, "train")
        assert left is not None
        block_of = {cube.id: cube.block for cube in whole(scene).cubes}
        used = block_of[left.operation.partitions[0]]
        [other] = {*block_of.values()} - {used}
        told = refused(scene, forming.request(PAIR, block=other))
        assert told.details == (f"it uses block {used}, not {other}",)


def test_a_sub_slice_may_be_anywhere_in_the_cubes_that_are_named(
    scene: Rehearsal, reporter: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    shape = topology.parse("2x2x4")
    home, elsewhere = (cube.id for cube in whole(scene).cubes[:2])
    with dying(monkeypatch, slices.KubeSlices, "create"):
        forming.form(scene.ports, Recorder(), "train", forming.request(shape, cubes=(home,)))
    locks_expire(scene)
    told = refused(scene, forming.request(shape, cubes=(elsewhere,)))
    assert told.details == (f"it uses other cubes: {home}",)
    outcome = forming.form(scene.ports, reporter, "train", forming.request(shape, cubes=(home, elsewhere)))
    assert outcome.slice.state is states.SliceState.ACTIVE
    assert journal.list_open(scene.ports) == []
