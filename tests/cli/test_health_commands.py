"""`tpuctl health` as users run it, on a simulated fleet of this process."""

from __future__ import annotations

import json
import re
import threading

import pytest
import yaml

from tests import builders
from tests.ops import test_swapping as swaps
from tests.ops.conftest import whole
from tpuctl.cli import completion, health_watch, rehearsal, session, terminal
from tpuctl.cloud import watching
from tpuctl.model import codec, fleet, health
from tpuctl.ops import health_checks, health_watching
from tpuctl.sim import api_faults, simulator


@pytest.fixture
def scene():
    """Four cubes ready for use, slice `train` on two of them."""
    settings = simulator.Settings(cubes=5, ready_cubes=4, slice_controller=True)
    with rehearsal.rehearse(settings) as made:
        yield made


@pytest.fixture
def train(tpuctl, scene):
    """A slice of two cubes; the scene's names for what matters."""
    assert tpuctl("slice", "form", "train", "--topology", "4x4x8").status == 0
    found = scene.ports.fleet.observe((fleet.SourceName.NODES, fleet.SourceName.SLICES))
    cube = next(cube for cube in found.cubes if found.holders.get(cube.id))
    scene.simulator.advance(200)
    return cube


def document(result, status=0):
    assert result.status == status, result.err
    return json.loads(result.out)


def items(result, status=0):
    return {f"{item['subject']}/{item['id']}": item for item in document(result, status)["items"]}


def test_all_is_well(tpuctl, scene, train):
    result = tpuctl("health", "check")
    assert (result.status, result.out) == (0, "")
    assert "nothing is wrong" in result.err
    assert "4 of 4 cubes healthy; 1 of 1 slice healthy" in result.err
    assert "not checked, for want of a node pool: 1 sub-block" in result.err
    named = tpuctl("health", "check", train.id, "--no-headers")
    assert named.status == 0
    assert named.out.split()[:2] == ["cube", train.id]
    assert "healthy" in named.out
    assert {item["verdict"] for item in items(tpuctl("health", "check", "-o", "json")).values()} == {
        "healthy"
    }


@pytest.mark.parametrize("fault", ["host-crash", "host-down"])
def test_a_host_that_dies_names_cube_host_and_vm(tpuctl, scene, train, fault):
    host = train.hosts[3].name
    scene.simulator.inject(fault, host)
    scene.simulator.advance(60)
    result = tpuctl("health", "check", "-o", "wide")
    assert result.status == 11
    line = next(line for line in result.out.splitlines() if line.startswith("cube"))
    assert train.id in line
    assert "unhealthy" in line
    assert re.search(r"\sVM\s", line)
    assert f"host {host}: " in line
    assert "15/16" in line
    found = items(tpuctl("health", "check", "-o", "json"), 11)
    assert found[f"cube/{train.id}"]["where"] == ["VM"]
    assert found["slice/train"]["verdict"] == "unhealthy"
    assert any(
        reason["subject"] == f"cube {train.id}, host {host}" for reason in found["slice/train"]["reasons"]
    )
    names = tpuctl("health", "check", "-o", "name").out.splitlines()
    assert names == [f"cube/{train.id}", "slice/train"]
    assert tpuctl("health", "check", *names, "-o", "name").out.splitlines() == names
    assert tpuctl("health", "show", names[0]).out.startswith(f"Cube:      {train.id}")


def test_a_broken_link_is_fabric_and_its_hosts_stay_usable(tpuctl, scene, train):
    scene.simulator.inject("cube-degraded", train.id)
    scene.simulator.advance(60)
    found = items(tpuctl("health", "check", "-o", "json"), 11)
    cube = found[f"cube/{train.id}"]
    assert (cube["verdict"], cube["where"], cube["usableHosts"]) == ("degraded", ["fabric"], 16)
    assert (found["slice/train"]["verdict"], found["slice/train"]["where"]) == ("degraded", ["fabric"])
    assert tpuctl("health", "check", "--fail-on", "unhealthy").status == 0
    assert tpuctl("health", "check", "--fail-on", "degraded").status == 11
    small = tpuctl("slice", "form", "small", "--topology", "2x2x1", "--cubes", train.id, "--dry-run")
    assert small.status in (6, 8)  # the cube is in use; the link is not what stands in the way
    assert "degraded" not in small.err


def test_a_node_that_is_gone_makes_its_slice_incomplete(tpuctl, scene, train):
    """jobset#574: seen in the same look."""
    scene.simulator.inject("host-gone", train.hosts[0].name)
    scene.simulator.advance(1)
    found = items(tpuctl("health", "check", "train", "-o", "json"), 11)
    assert found["slice/train"]["hosts"] == 31
    says = [reason["says"] for reason in found["slice/train"]["reasons"]]
    assert "31 of 32 hosts have a node" in says


def test_sources_that_disagree_are_named(tpuctl, scene, train):
    """Labels follow after ten seconds; the reservation knows at once."""
    scene.simulator.inject("host-down", train.hosts[0].name)
    scene.simulator.advance(1)
    cube = items(tpuctl("health", "check", train.id, "-o", "json"), 11)[f"cube/{train.id}"]
    (vms,) = cube["disagreements"]
    assert vms["about"] == "VM"
    claims = {claim["source"]: claim["verdict"] for claim in vms["claims"]}
    assert claims["reservation health"] == "unhealthy"
    assert claims["partition label"] == claims["node"] == "healthy"
    shown = tpuctl("health", "show", train.id).out
    assert "Disagree:  VMs: unhealthy by reservation health" in shown


def test_all_evidence_with_source_and_age(tpuctl, scene, train):
    scene.simulator.inject("host-crash", train.hosts[3].name)
    scene.simulator.advance(100)
    shown = tpuctl("health", "show", train.id)
    assert shown.status == 0
    assert "Health:    unhealthy, in the VM" in shown.out
    assert re.search(r"unknown +VM +1m +node +host \S+: Ready is unknown", shown.out)
    assert re.search(r"healthy +- +- +node pool +node pool \S+: RUNNING", shown.out)
    found = document(tpuctl("health", "show", train.id, "-o", "json"))
    sources = {item["source"] for item in found["evidence"]}
    assert sources >= {
        "node",
        "node chips",
        "node condition",
        "node taint",
        "partition label",
        "sub-partition labels",
        "node pool",
        "reservation health",
        "reservation topologies",
        "slice",
    }
    silent = next(item for item in found["evidence"] if item["says"].startswith("Ready is unknown"))
    assert (silent["pointsTo"], silent["where"], silent["ageSeconds"]) == ("unknown", "VM", 60.0)
    assert yaml.safe_load(tpuctl("health", "show", train.id, "-o", "yaml").out) == json.loads(
        json.dumps(found)
    )
    assert tpuctl("health", "show", "train").out.startswith("Slice:     train")


def test_names_that_fit_nothing_or_too_much(tpuctl, scene, train):
    assert tpuctl("health", "check", "ghost").status == 5
    assert tpuctl("health", "show", "ghost").status == 5
    block = document(tpuctl("cube", "list", "-o", "json"))["items"][0]["block"]["name"]
    refused = tpuctl("health", "show", block)
    assert refused.status == 64
    assert f"tpuctl health check {block}" in refused.err
    assert tpuctl("health", "check", block).status == 0
    assert tpuctl("health", "check", "--fail-on", "nothing").status == 64


@pytest.mark.parametrize(
    ("effect", "api", "status"),
    [
        (api_faults.Error(503), "compute", 1),
        (api_faults.Error(503), "kubernetes", 1),
        (api_faults.Error(403), "kubernetes", 4),
        (api_faults.Error(401), "container", 4),
        (api_faults.ErrorUnder200(), "compute", 1),
        (api_faults.Truncated(how="json"), "kubernetes", 1),
    ],
    ids=repr,
)
def test_what_cannot_be_checked_is_not_called_ill_or_well(tpuctl, scene, effect, api, status):
    """NVSentinel#919: a failed lookup must not be read as an answer."""
    with api_faults.injected(scene.simulator, effect, api=api):
        result = tpuctl("health", "check")
    assert (result.status, result.out) == (status, "")
    assert "error: " in result.err


def test_a_fleet_without_cubes_is_no_healthy_fleet(tpuctl):
    with rehearsal.rehearse(simulator.Settings(cubes=1, slice_controller=True)):
        result = tpuctl("health", "check")
    assert result.status == 1
    assert "there is nothing to check" in result.err


def test_offline_from_a_dump(tpuctl, scene, train):
    scene.simulator.inject("host-crash", train.hosts[3].name)
    scene.simulator.inject("maintenance", train.id, after_s=864_000)
    scene.simulator.advance(60)
    path = tpuctl.cwd / "fleet.json"
    assert tpuctl("fleet", "dump", "-f", str(path)).status == 0
    for command in (["check"], ["show", train.id], ["maintenance"]):
        live = json.loads(tpuctl("health", *command, "-o", "json").out)
        dumped = json.loads(tpuctl("health", *command, "--fleet", str(path), "-o", "json").out)
        assert dumped == live


def test_cube_list_and_map_show_the_same_verdicts(tpuctl, scene, train):
    scene.simulator.inject("host-crash", train.hosts[3].name)
    scene.simulator.advance(60)
    listed = document(tpuctl("cube", "list", "-o", "json"))["items"]
    checked = items(tpuctl("health", "check", "-o", "json"), 11)
    for cube in listed:
        if cube["hosts"]:
            assert cube["verdict"] == checked[f"cube/{cube['id']}"]["verdict"]
    ill = next(cube for cube in listed if cube["id"] == train.id)
    assert (ill["where"], ill["usableHosts"]) == (["VM"], 15)
    assert "State:       unhealthy, in the VM" in tpuctl("cube", "show", train.id).out


# -- maintenance -----------------------------------------------------------------------------------------


def test_maintenance_by_block_and_cube(tpuctl, scene, train):
    assert tpuctl("health", "maintenance").err == "No maintenance is planned.\n"
    scene.simulator.inject("maintenance", train.id, after_s=30 * 86_400.0, for_s=3600.0)
    scene.simulator.advance(30)
    found = document(tpuctl("health", "maintenance", "-o", "json"))
    assert found["kind"] == "MaintenanceWindowList"
    cube = next(item for item in found["items"] if item["scope"] == "cube")
    assert (cube["cube"], cube["hosts"], cube["status"]) == (train.id, 16, "planned")
    assert cube["slices"] == ["train"]
    assert cube["toldBy"] == ["reservation", "node labels"]
    assert [item["scope"] for item in found["items"]].count("block") == 1
    table = tpuctl("health", "maintenance", "--no-headers")
    assert re.search(rf"{train.id} +16 +planned +\S+ +29d", table.out)
    assert tpuctl("health", "check").status == 0
    block = found["items"][0]["block"]
    assert tpuctl("health", "maintenance", "--block", block, "-o", "name").out.splitlines() == [
        f"block/{block}",
        f"cube/{train.id}",
    ]
    assert tpuctl("health", "maintenance", "--block", "ghost").status == 5


def test_maintenance_that_is_near_or_goes_on(tpuctl, scene, train):
    scene.simulator.inject("maintenance", train.id, after_s=3600.0, for_s=7200.0)
    scene.simulator.advance(30)
    near = items(tpuctl("health", "check", train.id, "-o", "json"), 11)[f"cube/{train.id}"]
    assert (near["verdict"], near["usableHosts"]) == ("degraded", 16)
    scene.simulator.advance(3700)
    ongoing = items(tpuctl("health", "check", train.id, "-o", "json"), 11)[f"cube/{train.id}"]
    assert ongoing["verdict"] == "unhealthy"
    first = document(tpuctl("health", "maintenance", "-o", "json"))["items"]
    assert {item["status"] for item in first} == {"ongoing"}


# -- reports ---------------------------------------------------------------------------------------------


def report(tpuctl, host, *options, **more):
    words = ("--behavior", "CHIP_ERROR", "--reason", "self-test fails")
    return tpuctl("health", "report-faulty", host, *words, *options, **more)


def test_a_report_shows_what_it_hits_and_says_what_follows(tpuctl, scene, train):
    """report-host-as-faulty limits: repair is in place and takes days."""
    done = report(tpuctl, train.hosts[3].name, "--yes")
    assert done.status == 0
    assert re.fullmatch(rf"host/{train.hosts[3].name} reporting  operation operation-\S+\n", done.out)
    assert "1 slice, 0 running pods, 32 hosts, 128 chips" in done.err
    assert "repaired in place, which takes 3 to 14 days" in done.err
    assert "do not delete the VM or its node pool" in done.err
    again = report(tpuctl, train.hosts[3].name, "--yes")
    assert again.status == 6
    assert "is reported already" in again.err


def test_a_report_needs_a_yes(tpuctl, scene, train):
    host = train.hosts[3].name
    assert report(tpuctl, host).status == 3
    for answer in ("", "y\n", "yes\n"):
        assert report(tpuctl, host, stdin=answer, terminal=True).status == 3
    assert "is reported already" not in report(tpuctl, host).err
    assert report(tpuctl, host, stdin=f"{host}\n", terminal=True).status == 0


def test_a_free_host_needs_only_a_y(tpuctl, scene):
    host = scene.ports.fleet.observe((fleet.SourceName.NODES,)).cubes[0].hosts[0].name
    assert report(tpuctl, host, stdin="n\n", terminal=True).status == 3
    done = report(tpuctl, host, "--wait", "-o", "json", stdin="y\n", terminal=True)
    found = json.loads(done.out)
    assert (done.status, found["kind"], found["status"]) == (0, "FaultReport", "done")
    assert 600 <= found["waitedSeconds"] <= 720


def test_a_stopped_vm_cannot_be_reported(tpuctl, scene, train):
    scene.simulator.inject("host-down", train.hosts[3].name)
    refused = report(tpuctl, train.hosts[3].name, "--yes", "-o", "json")
    assert (refused.status, json.loads(refused.out)["code"]) == (6, "Conflict")
    assert "only a running VM can be reported" in refused.err


def test_words_that_are_not_for_tpus(tpuctl, scene, train):
    host = train.hosts[0].name
    for words in (
        ["--behavior", "UNRECOVERABLE_GPU_ERROR", "--reason", "x"],
        ["--behavior", "CHIP_ERROR"],
        ["--behavior", "CHIP_ERROR", "--reason", " "],
        ["--behavior", "CHIP_ERROR", "--reason", "x", "--disruption", "NOW"],
    ):
        assert tpuctl("health", "report-faulty", host, *words, "--yes").status == 64
    assert report(tpuctl, "ghost", "--yes").status == 5


# -- watch -----------------------------------------------------------------------------------------------


@pytest.fixture
def _quick(monkeypatch):
    monkeypatch.setattr(watching, "_LISTEN_S", 0.01)


def objects(result, status=0):
    assert result.status == status, result.err
    return [json.loads(line) for line in result.out.splitlines()]


@pytest.mark.usefixtures("_quick")
def test_watch_tells_a_line_for_every_change(tpuctl, scene, train):
    scene.simulator.inject("host-crash", train.hosts[3].name, after_s=60.0)
    found = objects(tpuctl("health", "watch", "--timeout", "6m"))
    assert {item["kind"] for item in found} == {"HealthChange"}
    assert [item["before"] for item in found[:5]] == [None] * 5
    cube = [item for item in found if item["id"] == train.id]
    assert (cube[0]["verdict"], cube[-1]["verdict"], cube[-1]["where"]) == ("healthy", "unhealthy", ["VM"])
    assert [item["verdict"] for item in found if item["id"] == "train"][-1] == "unhealthy"
    assert [item["observedAt"] for item in found] == sorted(item["observedAt"] for item in found)


@pytest.mark.usefixtures("_quick")
@pytest.mark.parametrize(
    ("effect", "options"),
    [
        (api_faults.Expired(form="event"), ()),
        (api_faults.Expired(form="response"), ()),
        (api_faults.SilentWatch(), ("--silence", "1s")),
    ],
    ids=repr,
)
def test_watch_survives_expiry_and_silence(tpuctl, scene, train, effect, options):
    """python#2223, kopf#1276."""
    scene.simulator.inject("host-crash", train.hosts[3].name, after_s=60.0)
    with api_faults.injected(
        scene.simulator, effect, api="kubernetes", verb="watch", resource="nodes", times=1
    ) as fault:
        found = objects(tpuctl("health", "watch", "--timeout", "10m", *options))
        assert fault.hits == 1
    assert [item["verdict"] for item in found if item["id"] == train.id][-1] == "unhealthy"
    assert not [item for item in found if item["kind"] == "HealthTrouble"]


@pytest.mark.usefixtures("_quick")
def test_watch_shows_a_slice_that_a_swap_left_half_done(tpuctl, scene, train, monkeypatch):
    assert swaps.killed_at(scene, monkeypatch, 2) is not None
    scene.simulator.advance(120)
    assert "train" not in whole(scene).slices_by_name
    [found] = [
        item for item in objects(tpuctl("health", "watch", "--timeout", "30s")) if item["id"] == "train"
    ]
    assert (found["verdict"], found["gone"]) == ("unhealthy", False)
    assert "tpuctl operation resume swap-train" in found["reasons"][0]["says"]


@pytest.mark.usefixtures("_quick")
def test_watch_says_that_its_view_is_old(tpuctl, scene, train):
    with api_faults.injected(
        scene.simulator, api_faults.Reset(when="before"), api="kubernetes", verb="watch", times=1
    ):
        found = objects(tpuctl("health", "watch", "--timeout", "6m"))
    troubles = [item["message"] for item in found if item["kind"] == "HealthTrouble"]
    assert troubles[0].startswith("cannot watch")
    assert troubles[-1] == ""


@pytest.mark.usefixtures("_quick")
def test_watch_that_sees_nothing_could_not_check(tpuctl, scene):
    with api_faults.injected(scene.simulator, api_faults.Error(503), api="kubernetes"):
        result = tpuctl("health", "watch", "--timeout", "90s")
    assert result.status == 1
    assert "health could not be seen" in result.err
    with api_faults.injected(scene.simulator, api_faults.Error(403), api="kubernetes"):
        assert tpuctl("health", "watch", "--timeout", "90s").status == 4


@pytest.mark.usefixtures("_quick")
def test_watch_draws_a_table_on_a_terminal(tpuctl, scene, train):
    scene.simulator.inject("host-crash", train.hosts[3].name)
    scene.simulator.advance(60)
    result = tpuctl("health", "watch", "--timeout", "60s", terminal=True)
    assert result.status == 0
    assert "HealthChange" not in result.out
    assert f"cube/{train.id}" in result.out
    assert "3 healthy" in result.out
    assert threading.active_count() < 50


def screen_of(width_env):
    streams = terminal.Streams(None, None, None)
    return terminal.Terminal(streams, width_env)


def turn_of(*cubes, trouble=""):
    snapshot = builders.fleet_of(*cubes)
    result = health_checks.check(snapshot, health.DEFAULT_POLICY)
    return health_watching.Turn(
        snapshot=snapshot, items=result.items, changes=(), trouble=trouble, observed_at=builders.NOW
    )


def test_the_picture_fits_the_screen_and_says_when_it_is_old():
    ill = [builders.changed(builders.cube(f"c{n:02}"), 0, chips=0) for n in range(30)]
    lines = health_watch.picture(turn_of(*ill, trouble="no answer"), screen_of({}), height=20)
    assert lines[0] == "2026-01-05T08:00:00Z  30 cubes: 30 unhealthy"
    assert len(lines) == 15
    assert lines[-2] == "and 18 more; see: tpuctl health check"
    assert lines[-1] == "the view may be old or not whole: no answer"


def test_the_picture_before_anything_is_known():
    nothing = health_watching.Turn(snapshot=None, items=(), changes=(), trouble="no answer", observed_at=None)
    assert health_watch.picture(nothing, screen_of({}), height=20) == [
        "waiting for the first lists",
        "the view may be old or not whole: no answer",
    ]


# -- dumps, help, Tab ------------------------------------------------------------------------------------


def test_a_dump_carries_everything_that_health_is_judged_by():
    cube = builders.changed(
        builders.cube("c"),
        3,
        chips=2,
        maintenance_ongoing=True,
        conditions=(fleet.NodeCondition("KernelDeadlock", "True", "R", "m", builders.LONG_AGO),),
    )
    plan = fleet.Maintenance(builders.NOW, None, "PENDING", "SCHEDULED", can_reschedule=True)
    told = fleet.SubBlock(
        "s", "id", "HEALTHY", 16, 0, 16, 16, healthy_infra=1, degraded_infra=0, maintenance=plan
    )._replace(topologies=(fleet.TopologyCount("4x4x4", "RUNNING", 1),), status="READY")
    whole = builders.fleet_of(fleet.Cube(id=cube.id, block=cube.block, hosts=cube.hosts, sub_block=told))
    again = codec.load(json.loads(json.dumps(codec.dump(whole))))
    assert again == whole
    assert health_checks.check(again, health.DEFAULT_POLICY) == health_checks.check(
        whole, health.DEFAULT_POLICY
    )


def test_help_leads_with_examples(tpuctl):
    for command in ("check", "show", "watch", "maintenance", "report-faulty"):
        page = tpuctl("health", command, "--help")
        assert page.status == 0
        assert page.out.index("Examples:") < page.out.index("Options:")


def test_tab_offers_what_has_a_health(prod):
    streams = terminal.Streams(None, None, None)
    current = session.Session(arguments=(), program="tpuctl", env=prod.env, cwd=prod.cwd, streams=streams)
    with session.active(current):
        completion.remember("prod", {"slices": ["s1"], "cubes": ["c1"], "blocks": ["b1"], "nodes": ["n1"]})

    def tab(line):
        return prod(env={"_TPUCTL_COMPLETE": "complete_bash", "_TYPER_COMPLETE_ARGS": line}).out.split()

    assert tab("tpuctl health ") == ["check", "show", "watch", "maintenance", "report-faulty"]
    assert tab("tpuctl health check ") == ["s1", "b1", "c1"]
    assert tab("tpuctl health check s1 c") == ["c1"]
    assert tab("tpuctl health report-faulty ") == ["n1"]
    assert tab("tpuctl health report-faulty n1 --behavior PE") == ["PERFORMANCE"]
    assert tab("tpuctl health check --fail-on ") == ["degraded", "unhealthy"]
