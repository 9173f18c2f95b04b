"""Exit statuses of programs that we start: zero alone is success."""

from __future__ import annotations

import pytest

from tests.cli.test_reconcile_hooks import FORMED, run
from tpuctl.model import declared

ENDS = {
    "exit 0": None,
    "exit 1": "exit status 1",
    "exit 2": "exit status 2",
    "exit 126": "exit status 126",
    "exit 127": "exit status 127",
    "kill -9 $$": "ended by signal 9",
    "kill -15 $$": "ended by signal 15",
}
"""What a program does -> what is said about it; None is success."""


@pytest.mark.parametrize("script", ENDS)
def test_a_hook_has_succeeded_with_0_alone(script):
    """xpk's batches: a negative code, which is how Python tells of a signal, counted as success."""
    command = ("/bin/sh", "-c", f"echo to-stderr >&2; {script}")
    told = run(declared.Hook(event=FORMED, command=command, timeout_s=20.0))
    wanted = ENDS[script]
    assert ("warning:" in told) == (wanted is not None)
    if wanted is not None:
        assert f"failed: {wanted}; the loop goes on" in told
