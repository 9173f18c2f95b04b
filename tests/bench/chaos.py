"""A random soak in virtual time: commands, dying hosts, failing APIs, killed programs. Prints one JSON line.

    python tests/bench/chaos.py --ops 1000 --fault-rate 0.1 --seed 1

`violations` is how often something that must hold did not; each is told on stderr.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ops", type=int, default=1000, help="operations")
    parser.add_argument("--fault-rate", type=float, default=0.1, help="chance of a call to meet a fault")
    parser.add_argument("--seed", type=int, default=0)
    wanted = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.e2e import soak  # noqa: PLC0415 - the path to it is known from here on

    with tempfile.TemporaryDirectory() as home:
        result = soak.run(
            pathlib.Path(home), count=wanted.ops, fault_rate=wanted.fault_rate, seed=wanted.seed
        )
    for violation in result.violations:
        print(violation, file=sys.stderr)
    print(
        json.dumps(
            {
                "seed": result.seed,
                "operations": result.operations,
                "faults_injected": result.faults,
                "crashes": result.crashes,
                "hardware_faults": result.hardware,
                "exit_codes": dict(sorted(result.by_status.items())),
                "violations": len(result.violations),
                "wall_s": round(result.wall_s, 1),
            }
        )
    )
    return 1 if result.violations else 0


if __name__ == "__main__":
    sys.exit(main())
