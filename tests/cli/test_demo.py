"""The demo: the main job, the same for everybody, and honest about its times."""

from __future__ import annotations

import json
import pathlib

import yaml

from tpuctl.cli import demo

ROOT = pathlib.Path(__file__).parents[2]


def test_the_job_of_the_demo_is_the_file_it_names() -> None:
    written = yaml.safe_load((ROOT / demo._MANIFEST).read_text())
    assert written == demo._job("train-a")


def test_the_steps_and_their_simulated_times(tpuctl):
    done = tpuctl("demo", "-o", "json")
    assert done.status == 0, done.err
    steps = json.loads(done.out)["steps"]
    assert [set(step) for step in steps] == [{"command", "simulatedSeconds", "wallSeconds", "result"}] * 7
    by_command = {step["command"]: step for step in steps}
    setup = by_command["tpuctl nodepool setup"]
    assert setup["result"].startswith("144 cubes set up: 143 full, 1 partial, 0 failed")
    formed = by_command["tpuctl slice form train-a --topology 8x16x16"]
    assert 40 <= formed["simulatedSeconds"] <= 55
    assert "32 cubes of block sim-reservation-block-0001  ACTIVE" in formed["result"]
    assert by_command[f"kubectl apply -f {demo._MANIFEST}"]["result"].startswith("job/train 512 of 512 pods")
    assert sum(step["wallSeconds"] for step in steps) < sum(step["simulatedSeconds"] for step in steps)


def test_no_configuration_of_the_user_matters(tpuctl):
    tpuctl.write("tpuctl.yaml", "this: is\n  not: [valid")
    tpuctl.write("~/.config/tpuctl/config.yaml", "neither: is this")
    done = tpuctl("demo", "-o", "json", env={"TPUCTL_CONTEXT": "nowhere", "TPUCTL_OUTPUT": "name"})
    assert done.status == 0, done.err
    assert not (tpuctl.home / ".cache").exists()
