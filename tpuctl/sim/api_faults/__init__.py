"""Faults of the APIs themselves: errors, silence, broken connections, lies.

`calls` says which requests a fault is meant for, `effects` what happens to them, `engine` when. One engine
serves all three APIs through their `intercept` hooks. In a test:

    with api_faults.injected(sim, api_faults.Error(503), api="kubernetes", verb="list", call=3) as fault:
        ...
    assert fault.hits == 1

    for fault in api_faults.each_call(sim, api_faults.Reset(when="after"), api="kubernetes"):
        ...  # the scenario, with the fault at its first call, its second, ...
"""

from __future__ import annotations

from tpuctl.sim.api_faults.calls import APIS, METHODS, VERBS, Selection
from tpuctl.sim.api_faults.effects import (
    EFFECTS,
    ClockSkew,
    DuplicateEvents,
    Effect,
    Error,
    ErrorUnder200,
    Expired,
    Observe,
    ReorderedEvents,
    Reset,
    SilentWatch,
    Slow,
    Timeout,
    Truncated,
)
from tpuctl.sim.api_faults.engine import ApiFaults, Injection, Trigger, each_call, injected

__all__ = [
    "APIS",
    "EFFECTS",
    "METHODS",
    "VERBS",
    "ApiFaults",
    "ClockSkew",
    "DuplicateEvents",
    "Effect",
    "Error",
    "ErrorUnder200",
    "Expired",
    "Injection",
    "Observe",
    "ReorderedEvents",
    "Reset",
    "Selection",
    "SilentWatch",
    "Slow",
    "Timeout",
    "Trigger",
    "Truncated",
    "each_call",
    "injected",
]
