"""The file with a fleet's declared state: what it says, and its digest."""

from __future__ import annotations

import json
import re

import pytest
import yaml

from tests.fleet_files import EVERYTHING, HEAD
from tpuctl.cli import fleet_spec
from tpuctl.cli.fleet_spec import document
from tpuctl.model import codec, declared, topology


@pytest.fixture
def spec_of(tpuctl):
    def read(text: str) -> declared.FleetSpec:
        return fleet_spec.read(tpuctl.write("fleet.yaml", text)).spec

    return read


# -- what a file says ------------------------------------------------------------------------------------


def test_every_key_reaches_its_value(spec_of):
    shape = topology.parse
    own = declared.PoolSettings(
        name_prefix="tpu",
        policy="my-policy",
        auto_repair=False,
        auto_upgrade=False,
        max_surge=0,
        max_unavailable=8,
        incomplete_grace_s=172_800.0,
        error_grace_s=5400.0,
    )
    big = declared.WantedSlice(
        name="big",
        shapes=(shape("8x8x16"), shape("8x8x8"), shape("4x8x8"), shape("2x4x4")),
        count=2,
        block="b1",
        priority=7,
        team="red",
        preemptible=True,
        min_run_s=5400.0,
        allow_degraded=True,
        on_deletion=declared.OnDeletion.REFORM,
    )
    # The most cubic shape of 512 chips; a gang of its own goes by the name of its entry.
    pair = declared.WantedSlice(name="pair", shapes=(shape("8x8x8"),), count=2, gang="pair", same_block=True)
    assert spec_of(EVERYTHING) == declared.FleetSpec(
        name="all",
        context="prod",
        reservations=(
            declared.ReservationSpec(
                name="projects/owner/reservations/r1",
                blocks=(declared.BlockSpec(name="b1", cubes=100, spares=3, pools=own),),
            ),
            declared.ReservationSpec(name="r2", blocks=(declared.BlockSpec(name="b2"),)),
        ),
        slices=(
            big,
            pair,
            declared.WantedSlice(name="left", shapes=(shape("2x2x4"),), gang="both"),
            declared.WantedSlice(name="right", shapes=(shape("2x2x1"),), gang="both"),
        ),
        teams=(declared.Team(name="blue", weight=0.5), declared.Team(name="red", weight=2.0)),
        spares_below=5,
        adopt_foreign=True,
        prune=False,
        prune_grace_s=10.0,
        budgets=declared.Budgets(
            disrupted_chips_per_hour=2048, cubes_in_repair_per_block=0, pool_operations_in_flight=9
        ),
        breaker=declared.Breaker(percent=12.5, cubes=5, minimum_cubes=3),
        windows=(
            declared.Window(
                name="night",
                days=(declared.Weekday.MON, declared.Weekday.SUN),
                start_minute=23 * 60 + 30,
                length_s=14_400.0,
            ),
        ),
        remediation=declared.Remediation(
            reboot=declared.Permission.ALLOW,
            reprovision=declared.Permission.OFF,
            failover=declared.Permission.RECOMMEND,
            remove=declared.Permission.OFF,
            cooldown_s=3600.0,
            attempts=3,
            expiry_s=7200.0,
            second_approver=True,
        ),
        consolidation=declared.Consolidation(
            enabled=False, move_cost_s=600.0, horizon_s=43_200.0, settle_s=0.0
        ),
        hooks=(
            declared.Hook(event=declared.HookEvent.SLICE_FORMED, command=("/bin/notify",)),
            declared.Hook(event=declared.HookEvent.SLICE_FORMED, command=("/bin/log", "formed")),
            declared.Hook(
                event=declared.HookEvent.SWAP_DONE, command=("/bin/page", "on call"), timeout_s=120.0
            ),
        ),
    )


def test_what_is_not_said_is_as_the_model_has_it(spec_of):
    said = spec_of(
        "apiVersion: tpuctl/v1\nkind: Fleet\nname: f\nreservations: [{name: r, blocks: [{name: b}]}]\n"
        "slices: [{name: s, topology: 4x4x4}]\n"
        "windows: [{name: w, days: [sat], from: 00:00, for: 1d}]\nhooks: {slice-formed: [{command: [a]}]}\n"
    )
    assert said == declared.FleetSpec(
        name="f",
        reservations=(declared.ReservationSpec(name="r", blocks=(declared.BlockSpec(name="b"),)),),
        slices=(declared.WantedSlice(name="s", shapes=(topology.CUBE,)),),
        windows=(declared.Window(name="w", days=(declared.Weekday.SAT,), start_minute=0, length_s=86_400.0),),
        hooks=(declared.Hook(event=declared.HookEvent.SLICE_FORMED, command=("a",)),),
    )


def test_parts_may_be_empty_or_commented_out(spec_of):
    parts = "".join(
        f"{key}:\n  # all of it is a comment\n"
        for key in ("slices", "windows", "hooks", "budgets", "breaker", "remediation", "consolidation")
    )
    assert spec_of(HEAD + parts) == spec_of(HEAD)
    assert spec_of(HEAD + "slices: []\nbudgets: {}\n") == spec_of(HEAD)


def test_plain_words_mean_what_editors_take_them_for(spec_of):
    found = spec_of(
        HEAD + "remediation: {remove: off}\nwindows: [{name: yes, days: [mon], from: 12:00, for: 1h}]\n"
    )
    assert found.remediation.remove is declared.Permission.OFF
    assert (found.windows[0].name, found.windows[0].start_minute) == ("yes", 720)


def test_anchors_are_followed(spec_of):
    found = spec_of(HEAD + "slices:\n- {name: a, topology: &shape 4x4x8}\n- {name: b, topology: *shape}\n")
    assert {str(item.shapes[0]) for item in found.slices} == {"4x4x8"}


def test_everything_survives_the_codec(spec_of):
    spec = spec_of(EVERYTHING)
    assert codec.decode(json.loads(json.dumps(codec.encode(spec))), declared.FleetSpec, "spec") == spec


def test_what_priority_may_use_decides_what_fits(spec_of):
    found = spec_of(HEAD + "slices: [{name: a, topology: 16x16x16, priority: 1}]\n")
    assert found.slices[0].shapes[0].cubes == 64, "all of the block, its spares too"


def test_more_wishes_than_room_are_no_fault(spec_of):
    slices = "".join(f"- {{name: s{number}, topology: 8x8x16}}\n" for number in range(20))
    assert len(spec_of(HEAD + "slices:\n" + slices).slices) == 20


def test_a_budget_of_nothing_is_no_fault(spec_of):
    text = HEAD + "budgets: {disruptedChipsPerHour: 0}\nslices: [{name: a, chips: 64}]\n"
    assert spec_of(text).budgets.disrupted_chips_per_hour == 0


# -- digest ----------------------------------------------------------------------------------------------


def digest_of(tpuctl, text: str) -> str:
    return fleet_spec.read(tpuctl.write("fleet.yaml", text)).digest


def test_the_digest_sees_neither_comments_nor_order_nor_spelling(tpuctl):
    found = digest_of(tpuctl, EVERYTHING)
    assert re.fullmatch("[0-9a-f]{64}", found)
    reordered = yaml.safe_dump(yaml.load(EVERYTHING, document._Loader), sort_keys=True)
    assert digest_of(tpuctl, reordered) == found
    spelled = (
        EVERYTHING.replace("chips: 512", "topology: 8x8x8")
        .replace("errorGrace: 90m", "errorGrace: 5400s")
        .replace("blue: 0.5", "blue: 5.0e-1")
        .replace("days: [sun, mon]", "days: [mon, sun]")
        .replace("kind: Fleet\n", "kind: Fleet  # a remark\n\n# another\n")
    )
    assert spelled != EVERYTHING
    assert digest_of(tpuctl, spelled) == found


CHANGES = [
    ("name: all", "name: any"),
    ("context: prod", "context: test"),
    ("reservations/r1", "reservations/r3"),
    ("cubes: 100", "cubes: 101"),
    ("spares: 3", "spares: 4"),
    ("namePrefix: tpu", "namePrefix: cube"),
    ("policy: my-policy", "policy: our-policy"),
    ("autoRepair: false", "autoRepair: true"),
    ("autoRepair: false\n      autoUpgrade: false", "autoRepair: true"),
    ("maxUnavailable: 8", "maxUnavailable: 9"),
    ("incompleteGrace: 2d", "incompleteGrace: 3d"),
    ("errorGrace: 90m", "errorGrace: 91m"),
    ("name: left", "name: up"),
    ("topology: 8x8x16", "topology: 8x12x16"),
    ("fallback: [8x8x8, 4x8x8, 2x4x4]", "fallback: [8x8x8, 2x4x4]"),
    ("  count: 2\n", "  count: 1\n"),
    ("gang: true, sameBlock: true", "gang: true"),
    ("  block: b1\n", ""),
    ("priority: 7", "priority: 8"),
    ("team: red", "team: blue"),
    ("preemptible: true", "preemptible: false"),
    ("minRunTime: 1.5h", "minRunTime: 1.6h"),
    ("health: usable", "health: healthy"),
    ("onDeletion: reform", "onDeletion: recommend"),
    ("blue: 0.5", "blue: 0.6"),
    ("sparesBelow: 5", "sparesBelow: 6"),
    ("adoptForeign: true", "adoptForeign: false"),
    ("prune: false", "prune: true"),
    ("pruneGrace: 10", "pruneGrace: 11"),
    ("disruptedChipsPerHour: 2048", "disruptedChipsPerHour: 2049"),
    ("cubesInRepairPerBlock: 0", "cubesInRepairPerBlock: 1"),
    ("poolOperationsInFlight: 9", "poolOperationsInFlight: 8"),
    ("percent: 12.5", "percent: 12.6"),
    ("cubes: 5, ", "cubes: 6, "),
    ("minimumCubes: 3", "minimumCubes: 4"),
    ("name: night", "name: dusk"),
    ("[sun, mon]", "[sun, tue]"),
    ("23:30", "23:31"),
    ("for: 4h", "for: 5h"),
    ("reboot: allow", "reboot: off"),
    ("reprovision: off", "reprovision: allow"),
    ("failover: recommend", "failover: allow"),
    ("remove: off", "remove: recommend"),
    ("cooldown: 1h", "cooldown: 2h"),
    ("attempts: 3", "attempts: 4"),
    ("expiry: 2h", "expiry: 3h"),
    ("secondApprover: true", "secondApprover: false"),
    ("enabled: false", "enabled: true"),
    ("moveCost: 10m", "moveCost: 11m"),
    ("horizon: 12h", "horizon: 13h"),
    ("settle: 0s", "settle: 1s"),
    ("swap-done", "swap-started"),
    ('"on call"', '"on duty"'),
    ("timeout: 2m", "timeout: 3m"),
]


@pytest.mark.parametrize(("old", "new"), CHANGES)
def test_every_value_changes_the_digest(tpuctl, old, new):
    assert EVERYTHING.count(old) == 1, "the change is meant to hit one place"
    assert digest_of(tpuctl, EVERYTHING.replace(old, new)) != digest_of(tpuctl, EVERYTHING)


def test_importing_the_reader_costs_nothing(tpuctl):
    code = (
        "import sys; from tpuctl.cli import fleet_spec; "
        "sys.exit(str({'pydantic', 'pydantic_core', 'yaml'} & set(sys.modules)))"
    )
    assert tpuctl.child(code=code).stderr == "set()\n"
