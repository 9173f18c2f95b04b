"""From a dead host to an ACTIVE slice of 2,048 chips: a swap, forming from scratch, and the published before.

The real program against a detached simulator. Simulated times depend on the simulator's assumed durations;
what is measured of tpuctl is its own share: wall time less what it waited for. Prints one JSON line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

SPEED = 600
BEFORE = "hours (the whole pool torn down and made again)"
PUBLISHED = "2-5 min"
"""Both from the published case study of dynamic slicing."""


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home}
        for name in ("CONFIG", "STATE", "CACHE"):
            env[f"XDG_{name}_HOME"] = f"{home}/{name.lower()}"
        call(env, "sim", "start", "--detach", "--cubes", "72", "--ready-cubes", "72", "--speed", str(SPEED))
        try:
            formed = call(env, "slice", "form", "a", "--topology", "8x16x16")
            cube = json.loads(call(env, "slice", "list")["out"])["items"][0]["partitionIds"][0]
            started_s = time.perf_counter()
            swapped = call(env, "slice", "swap", "a", "--cube", cube, "--yes")
            wall_s = time.perf_counter() - started_s
            fresh = call(env, "slice", "form", "b", "--topology", "8x16x16")
        finally:
            call(env, "sim", "stop", plain=True)
    # What the simulator needs for it: taking apart, settling, forming; the rest of the wall time is ours.
    fabric_s = json.loads(formed["out"])["waitedSeconds"] + 20 + 15
    print(
        json.dumps(
            {
                "chips": 2048,
                "swap_simulated_s": round(fabric_s, 1),
                "form_from_scratch_simulated_s": json.loads(fresh["out"])["waitedSeconds"],
                "case_study_before": BEFORE,
                "case_study_with_dynamic_slicing": PUBLISHED,
                "swap_own_s": round(wall_s - fabric_s / SPEED, 3),
                "exchanged": len(json.loads(swapped["out"])["exchanges"]),
            }
        )
    )


def call(env: dict[str, str], *arguments: str, plain: bool = False) -> dict[str, str]:
    command = [sys.executable, "-m", "tpuctl", *arguments, *(() if plain else ("-o", "json"))]
    done = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
    return {"out": done.stdout}


if __name__ == "__main__":
    main()
