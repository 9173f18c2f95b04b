"""How long tpuctl takes to start, as ratios to other programs measured in the same run; one line of JSON.

    python tests/bench/startup.py [--rounds N]

`version_ratio`, `help_ratio` and `tab_ratio` are times of `python -c pass`; `slice_list_ratio` is a time of
`python -c "import kubernetes"` and null if no simulator could be started. The fastest of N rounds counts:
what else the machine does only adds time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BUDGETS = {"version_ratio": 6.0, "help_ratio": 15.0, "tab_ratio": 15.0, "slice_list_ratio": 2.5}
TPUCTL = [sys.executable, "-m", "tpuctl"]


def main() -> int:
    """Measure and print; 1 if a budget is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as home:
        ratios = measure(rounds, environment(home))
    print(json.dumps(ratios))
    return int(any(ratio is not None and ratio > BUDGETS[name] for name, ratio in ratios.items()))


def environment(home: str) -> dict[str, str]:
    """A home of its own, and this tree's tpuctl."""
    root = pathlib.Path(__file__).parents[2]
    return {"PATH": os.environ["PATH"], "HOME": home, "PYTHONPATH": str(root)}


def measure(rounds: int, env: dict[str, str]) -> dict[str, float | None]:
    """The ratios by name."""
    tab = {"_TPUCTL_COMPLETE": "complete_bash", "COMP_WORDS": "tpuctl\nslice\nshow\n", "COMP_CWORD": "3"}
    found = fastest(
        rounds,
        {
            "pass": ([sys.executable, "-c", "pass"], env),
            "version_ratio": ([*TPUCTL, "--version"], env),
            "help_ratio": ([*TPUCTL, "--help"], env),
            "tab_ratio": (TPUCTL, env | tab),
        },
    )
    ratios: dict[str, float | None] = {name: round(took / found["pass"], 2) for name, took in found.items()}
    del ratios["pass"]
    ratios["slice_list_ratio"] = measure_list(rounds, env)
    return ratios


def measure_list(rounds: int, env: dict[str, str]) -> float | None:
    """`slice list` on one simulated block; None if there is no simulator."""
    with contextlib.ExitStack() as stack:
        started = subprocess.run(
            [*TPUCTL, "sim", "start", "--detach", "--ready-cubes", "144"],
            env=env,
            capture_output=True,
            check=False,
        )
        if started.returncode:
            return None
        stack.callback(subprocess.run, [*TPUCTL, "sim", "stop"], env=env, capture_output=True, check=True)
        found = fastest(
            rounds,
            {
                "import": ([sys.executable, "-c", "import kubernetes"], env),
                "list": ([*TPUCTL, "slice", "list"], env),
            },
        )
    return round(found["list"] / found["import"], 2)


def fastest(rounds: int, commands: dict[str, tuple[list[str], dict[str, str]]]) -> dict[str, float]:
    """Seconds of the fastest round of each command; they take turns, so that all see the same machine."""
    found = dict.fromkeys(commands, float("inf"))
    for _ in range(rounds):
        for name, (command, env) in commands.items():
            begin = time.perf_counter()
            subprocess.run(command, env=env, capture_output=True, check=True)
            found[name] = min(found[name], time.perf_counter() - begin)
    return found


if __name__ == "__main__":
    sys.exit(main())
