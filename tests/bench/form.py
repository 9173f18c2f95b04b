"""What `tpuctl slice form` itself takes for 2,048 chips: everything but waiting for the fabric.

The real program in a process of its own against a detached simulator of one block. Prints one JSON line; the
ratio compares with `python -c "import kubernetes"` of the same run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time

SPEED = 600
ROUNDS = 3


def main() -> None:
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "HOME": home}
        for name in ("CONFIG", "STATE", "CACHE"):
            env[f"XDG_{name}_HOME"] = f"{home}/{name.lower()}"
        start = ("sim", "start", "--detach", "--ready-cubes", "144", "--speed", str(SPEED))
        run(env, *start)
        try:
            own_s = min(form(env, turn) for turn in range(ROUNDS))
        finally:
            run(env, "sim", "stop")
    baseline_s = min(bare() for _ in range(ROUNDS))
    print(
        json.dumps(
            {
                "chips": 2048,
                "own_s": round(own_s, 3),
                "import_kubernetes_s": round(baseline_s, 3),
                "ratio": round(own_s / baseline_s, 2),
            }
        )
    )


def run(env: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "tpuctl", *arguments]
    return subprocess.run(command, env=env, check=True, capture_output=True, text=True).stdout


def form(env: dict[str, str], turn: int) -> float:
    """Wall time of the whole process, less the time in which the fabric formed."""
    started_s = time.perf_counter()
    found = json.loads(run(env, "slice", "form", f"s{turn}", "--topology", "8x16x16", "-o", "json"))
    wall_s = time.perf_counter() - started_s
    return wall_s - found["waitedSeconds"] / SPEED


def bare() -> float:
    started_s = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import kubernetes"], check=True)
    return time.perf_counter() - started_s


if __name__ == "__main__":
    main()
