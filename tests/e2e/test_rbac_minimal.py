"""The roles of configs/kubernetes are minimal: the program runs with exactly them, and uses all of them.

The simulator enforces the rules of the manifest. Each person runs the commands that their role is for. What
was asked for is compared with what the role allows: nothing was refused, and no right stayed unused.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests import workloads
from tests.e2e import access_rights
from tests.ops import test_swapping as swaps
from tests.ops.conftest import Recorder, whole
from tpuctl.cli import rehearsal, wiring
from tpuctl.model import fleet
from tpuctl.ops import locking
from tpuctl.ops import ports as ports_module
from tpuctl.sim import simulator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from tests.e2e.access_rights import Right
    from tpuctl.sim.kube import access

VIEWER, OPERATOR, LOOP = access_rights.VIEWER, access_rights.OPERATOR, access_rights.LOOP


FLEET = """\
apiVersion: tpuctl/v1
kind: Fleet
name: small
reservations:
  - name: sim-reservation
    blocks:
      - name: sim-reservation-block-0001
        spares: 1
slices:
  - {name: train, topology: 4x4x8, priority: 10}
"""


@pytest.fixture
def fleet_file(tmp_path: Path) -> Path:
    path = tmp_path / "fleet.yaml"
    path.write_text(FLEET)
    return path


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[access_rights.Stage]:
    """Six cubes ready for use, a busy slice `train` on two of them."""
    settings = simulator.Settings(cubes=6, ready_cubes=6, slice_controller=True)
    with rehearsal.rehearse(settings) as scene:
        made = access_rights.Stage(scene, tmp_path)
        swaps.busy_slice(scene)
        yield made


def unused(rights: Iterable[Right], asked: list[access.Attributes]) -> list[Right]:
    return sorted(right for right in rights if not any(right.covers(one) for one in asked))


def ok(stage: access_rights.Stage, *arguments: str, status: int = 0) -> str:
    done = stage.tpuctl(*arguments)
    assert done.status == status, (arguments, done.err)
    return done.out


def say_it_again() -> None:
    """Tell the same of the same slice twice, as a loop does that was started anew in between."""
    [item, *_] = wiring.ports().fleet.observe([fleet.SourceName.SLICES]).slices
    about = ports_module.About("Slice", item.name, item.uid)
    for _ in range(2):
        wiring.connect(wiring.context()).events.emit(about, "Formed", "formed again")


# Viewers


def test_a_viewer_sees_everything_with_nothing_to_spare(stage: access_rights.Stage, fleet_file: Path) -> None:
    cube = whole(stage.scene).slices_by_name["train"].partition_ids[0]
    with stage.acting_as(VIEWER):
        ok(stage, "slice", "list")
        ok(stage, "slice", "show", "train")
        ok(stage, "cube", "list")
        ok(stage, "cube", "show", cube)
        ok(stage, "health", "check")
        ok(stage, "health", "show", "train")
        ok(stage, "health", "maintenance")
        ok(stage, "health", "watch", "--timeout", "30s")
        ok(stage, "capacity", "show")
        ok(stage, "capacity", "why-not", "--topology", "4x4x8")
        ok(stage, "nodepool", "list")
        ok(stage, "operation", "list")
        ok(stage, "operation", "show", "ghost", status=5)
        ok(stage, "lock", "show")
        ok(stage, "reconcile", "status", status=11)
        ok(stage, "reconcile", "history")
        ok(stage, "reconcile", "plan", "-f", str(fleet_file))
    assert unused(access_rights.rights_of(VIEWER), stage.heard_of(VIEWER)) == []


# Outside of one's role


@pytest.mark.parametrize(
    ("person", "arguments", "refused"),
    [
        (VIEWER, ("slice", "form", "more", "--topology", "4x4x4"), ("get", "slices")),
        (VIEWER, ("slice", "deform", "train", "--yes"), ("get", "namespaces")),
        (VIEWER, ("reconcile", "pause", "--reason", "why not"), ("get", "namespaces")),
        (LOOP, ("lock", "show"), ("list", "leases")),
        (LOOP, ("slice", "show", "train"), ("list", "events")),
    ],
)
def test_a_call_outside_of_a_role_ends_with_status_4(
    stage: access_rights.Stage,
    person: access_rights.Person,
    arguments: tuple[str, ...],
    refused: tuple[str, str],
) -> None:
    with stage.acting_as(person):
        done = stage.tpuctl(*arguments)
    assert done.status == 4, done.err
    verb, resource = refused
    assert f'is forbidden: User "{person.name}" cannot {verb} resource "{resource}"' in done.err
    assert stage.refused(person) == [refused]
    assert [item.name for item in whole(stage.scene).slices] == ["train"]


# Operators


def test_an_operator_does_the_daily_work_with_nothing_to_spare(
    stage: access_rights.Stage, fleet_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage.scene
    with stage.acting_as(OPERATOR):
        ok(stage, "slice", "form", "more", "--topology", "4x4x4", "--dry-run")
        ok(stage, "slice", "form", "more", "--topology", "4x4x4")
        ok(stage, "slice", "deform", "more", "--yes")
        bad = whole(scene).slices_by_name["train"].partition_ids[0]
        swaps.break_host(scene, bad)
        ok(stage, "slice", "swap", "train", "--auto", "--yes")
        ok(stage, "cube", "hold", bad, "--reason", "burn-in")
        ok(stage, "cube", "release", bad)
    assert swaps.killed_at(scene, monkeypatch, 2) is not None
    with stage.acting_as(OPERATOR):
        [left] = json.loads(ok(stage, "operation", "list", "-o", "json"))["items"]
        ok(stage, "operation", "resume", left["id"])
        with locking.held(scene.ports, Recorder(), locking.slice_lock("train")):
            ok(stage, "lock", "break", "tpuctl-slice-train", "--reason", "left behind", "--yes")
        ok(stage, "reconcile", "pause", "--reason", "benchmark")
        ok(stage, "reconcile", "resume", "--reason", "it is over")
        for _ in range(2):
            ok(stage, "reconcile", "apply", "-f", str(fleet_file), "--yes")
        say_it_again()
    more = access_rights.rights_of(OPERATOR) - access_rights.rights_of(VIEWER)
    assert unused(more, stage.heard_of(OPERATOR)) == []


# The loop


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[access_rights.Stage]:
    """Five cubes ready for use, and a sixth without a node pool; no slice yet."""
    settings = simulator.Settings(cubes=6, ready_cubes=5, slice_controller=True)
    with rehearsal.rehearse(settings) as scene:
        yield access_rights.Stage(scene, tmp_path)


def state_of(stage: access_rights.Stage, name: str) -> str:
    found = whole(stage.scene).slices_by_name.get(name)
    return "" if found is None else str(found.state)


def cycle(stage: access_rights.Stage, fleet_file: Path) -> None:
    ok(stage, "reconcile", "run", "-f", str(fleet_file), "--mode", "act", "--once")
    stage.scene.simulator.advance(60)


def test_the_loop_keeps_a_fleet_with_nothing_to_spare(
    bare: access_rights.Stage, fleet_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = bare.scene
    with bare.acting_as(LOOP):
        for _ in range(3):
            cycle(bare, fleet_file)
        assert state_of(bare, "train") == "ACTIVE"
        scene.submit(workloads.JOBS, workloads.job("work", "train", 32, backoffLimitPerIndex=5))
        scene.simulator.advance(30)
        bad = whole(scene).slices_by_name["train"].partition_ids[0]
        swaps.break_host(scene, bad)
        for _ in range(3):
            cycle(bare, fleet_file)
        assert bad not in whole(scene).slices_by_name["train"].partition_ids
        assert state_of(bare, "train") == "ACTIVE"
        ok(bare, "reconcile", "run", "-f", str(fleet_file), "--mode", "act", "--deadline", "3m")
    assert swaps.killed_at(scene, monkeypatch, 2) is not None
    with bare.acting_as(LOOP):
        cycle(bare, fleet_file)
        fleet_file.write_text(FLEET.replace("{name: train,", "{name: other,"))
        for _ in range(12):
            cycle(bare, fleet_file)
        say_it_again()
    assert [state_of(bare, name) for name in ("train", "other")] == ["", "ACTIVE"]
    assert unused(access_rights.rights_of(LOOP), bare.heard_of(LOOP)) == []


# Repairs: the loop proposes, an operator says yes, the loop acts


def node_outside_of_slices(scene: rehearsal.Rehearsal) -> str:
    found = whole(scene)
    used = {partition for item in found.slices for partition in item.partition_ids}
    return next(cube.hosts[0].name for cube in found.cubes if cube.hosts and cube.id not in used)


def test_a_repair_goes_from_the_loop_to_a_person_and_back(
    bare: access_rights.Stage, fleet_file: Path
) -> None:
    scene = bare.scene
    with bare.acting_as(LOOP):
        for _ in range(3):
            cycle(bare, fleet_file)
        scene.simulator.inject("host-crash", node_outside_of_slices(scene))
        for _ in range(15):
            cycle(bare, fleet_file)
    with bare.acting_as(VIEWER):
        [item] = json.loads(ok(bare, "repair", "list", "-o", "json"))["items"]
        assert (item["remedy"], item["state"]) == ("reboot", "proposed")
        assert bare.tpuctl("repair", "approve", item["id"], "--yes").status == 4
        assert state_of_repair(bare, item["id"])["approvals"] == []
    with bare.acting_as(OPERATOR):
        ok(bare, "repair", "approve", item["id"], "--yes")
    with bare.acting_as(LOOP):
        for _ in range(5):
            cycle(bare, fleet_file)
    with bare.acting_as(VIEWER):
        done = state_of_repair(bare, item["id"])
    assert done["state"] in ("running", "done")
    assert done["startedAt"] is not None
    assert [given["by"].partition("@")[0] for given in done["approvals"]] == [OPERATOR.name]
    assert bare.heard_of(LOOP)
    assert bare.heard_of(OPERATOR)


def state_of_repair(stage: access_rights.Stage, repair: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ok(stage, "repair", "show", repair, "-o", "json"))
    return found


# What no role has


def test_nobody_takes_a_finalizer_off_a_slice_or_makes_a_namespace() -> None:
    for role in ("tpuctl-viewer", "tpuctl-operator", "tpuctl-loop", "tpuctl-break-glass"):
        rights = access_rights.rights_in(role)
        assert rights, role
        assert not {right.verb for right in rights if right.resource == "slices"} & {"update", "patch"}
        assert not any(right.resource == "namespaces" and right.verb != "get" for right in rights)
        assert not any("*" in (right.verb, right.group, right.resource) for right in rights)
