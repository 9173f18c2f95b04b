"""`tpuctl reconcile run` and what surrounds it: signals, pauses, status, hooks, metrics, logs."""

from __future__ import annotations

import dataclasses
import datetime
import json
import os
import signal
import socket
import sys

import pytest
import yaml

from tests.cli.conftest import Stream
from tests.cli.reconcile_scene import TRAIN, document, stage_of
from tests.ops import test_swapping as swaps
from tpuctl.cli import main, moments, stopping, terminal, wiring
from tpuctl.model import errors
from tpuctl.ops.reconciling import leadership
from tpuctl.sim import api_faults


@pytest.fixture
def stage(tpuctl):
    with stage_of(tpuctl) as made:
        yield made


def cycles(result):
    return [json.loads(line) for line in result.out.splitlines()]


# -- cycles and modes ------------------------------------------------------------------------------------


def test_the_first_cycle_only_looks_and_the_next_may_act(stage):
    [first] = cycles(stage.act())
    assert (first["kind"], first["full"], first["results"]) == ("ReconcileCycle", True, [])
    assert [entry["id"] for entry in first["notDone"]] == ["form/train", "form/debug"]
    assert all(entry["stoppedBy"].startswith("first run: ") for entry in first["notDone"])
    assert stage.slices() == {}
    [second] = cycles(stage.act())
    assert [(item["id"], item["result"]) for item in second["results"]] == [
        ("form/train", "done"),
        ("form/debug", "done"),
    ]
    assert stage.slices() == {"train": "ACTIVE", "debug": "ACTIVE"}
    [third] = cycles(stage.act())
    assert third["sentence"] == "5 cubes healthy of 5; 2 slices ACTIVE of 2; nothing to do."
    assert (third["results"], third["notDone"], third["plan"]) == ([], [], None)


def test_a_loop_that_acts_on_a_protected_context_must_be_told_its_name(stage):
    protected = dataclasses.replace(stage.scene.context, protected=True)
    with wiring.using(stage.scene.ports, protected):
        refused = stage("run", "--mode", "act", "--once")
        assert refused.status == 9
        assert "context demo is protected: a loop that acts needs it spelled out" in refused.err
        assert "hint: add --context demo" in refused.err
        assert stage("run", "--once").status == 0
        assert stage("run", "--mode", "act", "--once", "--context", "demo").status == 0


def test_every_format_is_what_it_says(stage):
    looked = stage("run", "--once", "--mode", "act", "-o", "name")
    assert (looked.status, looked.out) == (0, "")
    named = stage("run", "--once", "--mode", "act", "-o", "name")
    assert named.out.split() == ["form/train", "form/debug"]
    quiet = [stage("run", "--once", "--mode", "act", "-o", "yaml").out for _ in range(2)]
    found = [*yaml.safe_load_all("".join(quiet))]
    assert [entry["kind"] for entry in found] == ["ReconcileCycle"] * 2


def test_the_form_of_a_cycle_is_a_contract(stage):
    [found] = cycles(stage.act())
    assert list(found) == [
        "apiVersion",
        "kind",
        "cycle",
        "plan",
        "observedAt",
        "durationSeconds",
        "mode",
        "full",
        "failure",
        "sentence",
        "results",
        "notDone",
        "waiting",
        "repairs",
        "repairsToApprove",
        "repairsWaiting",
        "breakerTripped",
    ]
    assert (found["mode"], found["failure"], found["breakerTripped"]) == ("act", None, False)


def test_nobody_who_does_not_say_act_gets_a_slice(stage):
    for arguments in ([], ["--mode", "recommend"], ["--mode", "observe"]):
        for _ in range(2):
            done = stage("run", "--once", *arguments)
            assert done.status == 0, done.err
    assert stage.slices() == {}
    assert cycles(stage("run", "--once"))[0]["mode"] == "recommend"


def test_at_a_terminal_a_cycle_is_a_sentence(stage):
    stage.converged()
    shown = stage("run", "--once", "--mode", "act", terminal=True)
    assert (shown.status, shown.out) == (0, "")
    assert "5 cubes healthy of 5; 2 slices ACTIVE of 2; nothing to do.\n" in shown.err
    objects = stage("run", "--once", "--mode", "act", "-o", "json", terminal=True)
    assert cycles(objects)[0]["sentence"] in shown.err
    piped = stage("run", "--once", "--mode", "act", "-o", "table")
    assert (piped.out, piped.err) == ("", "5 cubes healthy of 5; 2 slices ACTIVE of 2; nothing to do.\n")


def test_it_goes_on_until_its_deadline(stage):
    began = stage.scene.ports.clock.now()
    done = stage("run", "--mode", "act", "--interval", "30s", "--deadline", "5m")
    assert done.status == 0
    assert 5 <= len(cycles(done)) <= 14
    assert all(cycle["full"] for cycle in cycles(done))
    assert cycles(done)[-1]["sentence"].endswith("2 slices ACTIVE of 2; nothing to do.")
    assert datetime.timedelta(minutes=5) <= stage.scene.ports.clock.now() - began
    text = stage("run", "--mode", "act", "--deadline", "70s", "-o", "table")
    stamped = [line for line in text.err.splitlines() if "nothing to do" in line]
    assert len(stamped) >= 2
    assert all(line.startswith("2026-01-05T") for line in stamped)


def test_another_loop_at_work_means_try_again_later(stage):
    ports = stage.scene.ports
    ports.leases.create(leadership.NAME, "loop@elsewhere:1", 60.0)
    busy = stage("run", "--once", "--mode", "act")
    assert busy.status == 75
    assert "loop@elsewhere:1 leads: one loop acts at a time" in busy.err
    assert busy.out == ""
    assert stage("apply", "-f", str(stage.file), "--yes").status == 75
    stage.scene.simulator.advance(61)
    assert stage("run", "--once", "--mode", "act").status == 0


def test_what_cannot_be_seen_is_no_smaller_fleet(stage):
    stage.converged()
    with api_faults.injected(stage.scene.simulator, api_faults.Error(401), api="container"):
        blind = stage("run", "--once", "--mode", "act")
    assert blind.status == 4
    [cycle] = cycles(blind)
    assert (cycle["full"], cycle["observedAt"], cycle["failure"]["code"]) == (False, None, "NotPermitted")
    assert cycle["sentence"].startswith("nothing was done: ")
    assert blind.err.count("error: ") == 1
    assert stage.slices() == {"train": "ACTIVE", "debug": "ACTIVE"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--metrics-addr", "9464"], "no address to listen on"),
        (["--interval", "0.5s"], "--interval must be at least 1s"),
        (["--mode", "fast"], "'fast' is not one of"),
    ],
)
def test_options_that_make_no_sense(stage, arguments, says):
    refused = stage("run", *arguments)
    assert (refused.status, says in refused.err) == (64, True)
    assert stage.records() == set()


# -- signals ---------------------------------------------------------------------------------------------


class Signalling(Stream):
    """Sends this process a signal as soon as a cycle was written that formed something."""

    def __init__(self, number):
        super().__init__()
        self._number = number

    def write(self, text):
        if '"form/train"' in text and '"done"' in text:
            os.kill(os.getpid(), self._number)
        return super().write(text)


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_the_loop_after_the_step_and_gives_the_lock_back(stage, number, status):
    before = signal.getsignal(number)
    out, err = Signalling(number), Stream()
    program = stage.tpuctl
    ended = main.main(
        ["reconcile", "run", "-f", str(stage.file), "--mode", "act"],
        env=program.env,
        cwd=program.cwd,
        stdin=Stream(),
        stdout=out,
        stderr=err,
    )
    assert ended == status
    assert (
        f"{signal.Signals(number).name}: finishing the step at hand; once more to stop at once"
        in err.getvalue()
    )
    assert stage.slices() == {"train": "ACTIVE", "debug": "ACTIVE"}
    assert stage.scene.ports.leases.get(leadership.NAME).holder == ""
    assert signal.getsignal(number) == before
    # Whoever comes next need not wait for a lock to end.
    assert stage.act().status == 0


def test_the_second_signal_does_not_wait():
    told, looks = [], []
    with stopping.on_signals(lambda: looks.append(1), told.append) as stop:
        assert (stop(), stop.status) == (False, None)
        os.kill(os.getpid(), signal.SIGTERM)
        assert (stop(), stop(), stop.status) == (True, True, 143)
        with pytest.raises(terminal.Terminated):
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert told == ["SIGTERM: finishing the step at hand; once more to stop at once"]
    assert len(looks) == 3


# -- status, pause, history ------------------------------------------------------------------------------


def test_status_tells_whether_somebody_looks_after_the_fleet(stage):
    """kopf#1276: deaf but alive."""
    never = document(stage("status", "-o", "json"), 11)
    assert (never["stale"], never["viewAgeSeconds"], never["leader"]) == (True, None, None)
    assert never["troubles"] == ["no full cycle of a reconcile loop is known"]
    stage.converged()
    well = document(stage("status", "-o", "json"))
    assert (well["fleet"], well["stale"], well["troubles"]) == ("small", False, [])
    assert list(well) == [
        "apiVersion",
        "kind",
        "fleet",
        "leader",
        "cycle",
        "lastFullCycleAt",
        "viewAgeSeconds",
        "staleAfterSeconds",
        "stale",
        "sentence",
        "queue",
        "waiting",
        "stuck",
        "toApprove",
        "recommendations",
        "pause",
        "breaker",
        "troubles",
        "observedAt",
        "partial",
    ]
    stage.scene.simulator.advance(600)
    old = stage("status")
    assert old.status == 11
    assert "Loop:             the last full cycle is 10m old, the limit is 1m30s" in old.out
    assert stage("status", "--max-age", "20m").status == 0
    stage.act()
    shown = stage("status")
    assert shown.status == 0
    assert shown.out.startswith("Loop:             well\nFleet:            small\n")


def test_a_pause_holds_the_loop_until_it_ends_or_somebody_resumes(stage):
    stage.act()
    assert stage("pause").status == 64
    assert stage("pause", "--reason", " ").status == 64
    paused = stage("pause", "--reason", "benchmark, jo", "--until", "1h")
    assert (paused.status, paused.err.count("\n")) == (0, 1)
    until = paused.out.removeprefix("loop paused until ").strip()
    now = stage.scene.ports.clock.now()
    assert 3590 <= (datetime.datetime.fromisoformat(until) - now).total_seconds() <= 3600
    again = document(stage("pause", "--reason", "benchmark, jo", "--until", "1h", "-o", "json"))
    assert (again["result"], again["reason"]) == ("unchanged", "benchmark, jo")
    held = stage("run", "--once", "--mode", "act")
    assert held.status == 9
    assert [entry["id"] for entry in cycles(held)[0]["notDone"]] == ["form/train", "form/debug"]
    shown = document(stage("status", "-o", "json"))
    assert (shown["pause"]["by"], shown["pause"]["confirmed"]) == ("sim-admin", True)
    assert stage.slices() == {}
    stage.scene.simulator.advance(3601)
    stage.act()
    assert stage.slices() == {"train": "ACTIVE", "debug": "ACTIVE"}
    assert stage("resume", "--reason", "done").out == "loop unchanged: nothing held it back\n"
    stage("pause", "--reason", "network")
    resumed = document(stage("resume", "--reason", "network is back", "-o", "json"))
    assert (resumed["result"], resumed["pause"]["reason"], resumed["breaker"]) == ("resumed", "network", None)
    told = [entry["text"] for entry in document(stage("history", "-o", "json"))["items"]]
    assert f"paused until {until[:10]} {until[11:16]} UTC: benchmark, jo" in told
    assert "resumed (network is back); sim-admin had paused it: network" in told


def test_a_pause_into_the_past_is_refused(stage):
    for moment in ("2020-01-01T00:00:00Z", "0s"):
        refused = stage("pause", "--reason", "x", "--until", moment)
        assert (refused.status, "is not in the future" in refused.err) == (64, True)
    assert "'soon' is no time" in stage("pause", "--reason", "x", "--until", "soon").err
    assert stage.records() == set()


def test_the_breaker_stays_open_until_somebody_trusts_the_fleet_again(stage):
    stage.declare(TRAIN, more="breaker: {percent: 25, cubes: 16, minimumCubes: 2}")
    stage.converged()
    # Young nodes are still coming up, and count as no trouble.
    stage.scene.simulator.advance(1000)
    for cube in swaps.whole(stage.scene).cubes[:3]:
        stage.scene.simulator.inject("host-crash", cube.hosts[3].name)
    stage.scene.simulator.advance(300)
    tripped = stage("run", "--once", "--mode", "act")
    assert tripped.status == 9, tripped.err
    assert cycles(tripped)[0]["breakerTripped"] is True
    shown = stage("status")
    assert shown.status == 11
    assert "the breaker has tripped: " in shown.out
    assert "see tpuctl reconcile resume --reset-breaker" in shown.out
    stage("resume", "--reason", "no reset")
    assert document(stage("status", "-o", "json"), 11)["breaker"] is not None
    reset = stage("resume", "--reset-breaker", "--reason", "a rack was restarted")
    assert reset.out.startswith("loop breaker reset; it had tripped: ")
    assert document(stage("status", "-o", "json"))["breaker"] is None


def test_history_of_a_span(stage):
    assert stage("history").err == "The loop has done nothing yet, or nothing since then.\n"
    stage.converged()
    found = document(stage("history", "-o", "json"))["items"]
    assert [(entry["subject"], entry["result"]) for entry in found] == [("train", "done"), ("debug", "done")]
    assert list(found[0]) == ["at", "cycle", "plan", "by", "result", "subject", "text"]
    stage.scene.simulator.advance(7200)
    stage("pause", "--reason", "late")
    recent = stage("history", "--since", "1h", "--no-headers")
    assert [line.split()[1] for line in recent.out.splitlines()] == ["told"]
    assert len(stage("history", "--since", "2026-01-05T08:00:00Z").out.splitlines()) == 4


@pytest.mark.parametrize(
    ("text", "after_s", "before_s"),
    [
        ("90", 90, -90),
        ("2h", 7200, -7200),
        ("2026-01-05T09:00:00Z", 3600, 3600),
        ("2026-01-05", -28800, -28800),
    ],
)
def test_moments(text, after_s, before_s):
    now = datetime.datetime(2026, 1, 5, 8, tzinfo=datetime.UTC)
    found = moments.parse(text)
    assert (found.after(now) - now).total_seconds() == after_s
    assert (found.before(now) - now).total_seconds() == before_s
    with pytest.raises(errors.UsageError):
        moments.parse(f"{text} ago")


# -- hooks, metrics, logs --------------------------------------------------------------------------------


def test_hooks_are_told_of_slices_and_see_the_metrics(stage, tmp_path):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    script = tmp_path / "hook.py"
    script.write_text(
        "import json, os, sys, urllib.request\n"
        "opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))\n"
        "def get(path): return opener.open('http://' + sys.argv[2] + path, timeout=20).read().decode()\n"
        "found = {'env': {k: v for k, v in os.environ.items() if k.startswith('TPUCTL_')}}\n"
        "found |= {path: get(path) for path in ('/metrics', '/healthz', '/readyz')}\n"
        "open(sys.argv[1] + os.environ['TPUCTL_SLICE'], 'w').write(json.dumps(found))\n"
    )
    command = json.dumps([sys.executable, str(script), f"{tmp_path}/seen-", address])
    stage.declare(more=f"hooks:\n  slice-formed:\n    - command: {command}")
    stage.act()
    done = stage("run", "--mode", "act", "--deadline", "2m", "--metrics-addr", address)
    assert done.status == 0, done.err
    assert f"/metrics, /healthz and /readyz on {address}" in done.err
    assert "hook" not in done.err
    seen = json.loads((tmp_path / "seen-train").read_text())
    environment = seen["env"]
    assert (environment["TPUCTL_HOOK_EVENT"], environment["TPUCTL_FLEET"]) == ("slice-formed", "small")
    assert (environment["TPUCTL_SLICE"], environment["TPUCTL_TOPOLOGY"]) == ("train", "4x4x8")
    assert environment["TPUCTL_CHIPS"] == "128"
    assert environment["TPUCTL_BLOCK"] == "sim-reservation-block-0001"
    assert environment["TPUCTL_REASON"].startswith("wanted (priority 10) and not there")
    assert environment["TPUCTL_CYCLE"] in [cycle["cycle"] for cycle in cycles(done)]
    assert seen["/healthz"].startswith("ok: ")
    assert "tpuctl_leads" in seen["/metrics"]
    with pytest.raises(OSError), socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2]))):
        pass


def test_a_hook_that_fails_costs_a_warning_and_nothing_else(stage):
    stage.declare(more="hooks:\n  slice-formed:\n    - command: [/nowhere/notify]")
    stage.act()
    done = stage("run", "--mode", "act", "--once")
    assert done.status == 0
    warning = "hook slice-formed (/nowhere/notify) could not be started: No such file or directory"
    assert done.err.count(warning) == 2
    assert stage.slices() == {"train": "ACTIVE", "debug": "ACTIVE"}


def test_lines_of_the_log_say_which_cycle_and_what_they_are_about(stage):
    stage.act()
    done = stage("run", "--mode", "act", "--once", "--log-format", "json")
    [cycle] = cycles(done)
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert {"time", "level", "message"} <= set.intersection(*(set(line) for line in lines))
    formed = [line for line in lines if line.get("object") == "slice/train"]
    assert formed
    assert {line["cycle"] for line in formed} == {cycle["cycle"]}
    assert {line["plan"] for line in formed} == {cycle["plan"]}
    assert [line["message"] for line in lines][-1] == cycle["sentence"]
    quiet = stage("run", "--mode", "act", "--once", "--log-format", "json", "--quiet")
    assert quiet.err == ""
