"""A short soak in every run of the tests; the long one is tests/bench/chaos.py."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.e2e import soak
from tests.e2e.crash_stage import ROOT

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Callable


@pytest.mark.parametrize("seed", [1, 2])
def test_sixty_operations_with_faults_break_no_promise(
    tmp_path: pathlib.Path, seed: int, record_property: Callable[[str, object], None]
) -> None:
    result = soak.run(tmp_path, count=60, fault_rate=0.1, seed=seed)
    record_property("faults", result.faults)
    assert result.violations == []
    assert result.operations == 60
    assert result.faults > 10
    assert result.crashes > 0
    assert result.by_status[0] > 10


def test_the_bench_prints_one_line_of_numbers() -> None:
    done = subprocess.run(
        [sys.executable, "tests/bench/chaos.py", "--ops", "10", "--seed", "3"],
        cwd=ROOT,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["operations"], found["violations"], found["seed"]) == (10, 0, 3)
