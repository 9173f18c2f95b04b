"""The health policy: read from a file, strictly, and found for the chosen context."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tpuctl.cli import config_file, durations, wiring
from tpuctl.model import errors, health, states

if TYPE_CHECKING:
    import pathlib
    from collections.abc import Mapping

API_VERSION, KIND = "tpuctl/v1", "HealthPolicy"
_IGNORED = "ignored"
_MEANINGS = (str(states.Verdict.UNHEALTHY), str(states.Verdict.DEGRADED), _IGNORED)


def _span(value: Any) -> float:
    """Seconds; raises ValueError."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        raise ValueError("expected a span of time, for example 90s, 2m or 7d")  # noqa: TRY004 - as all kinds
    try:
        return float(durations.parse(value))
    except errors.UsageError as error:
        raise ValueError("expected a span of time, for example 90s, 2m or 7d") from error


_KEYS = {
    "apiVersion": config_file.choice(API_VERSION),
    "kind": config_file.choice(KIND),
    "settleAfterBoot": _span,
    "notReadyGrace": _span,
    "degradedTolerance": _span,
    "maintenanceLead": _span,
    "latchedAfter": _span,
    "failOn": config_file.choice(*health.FailOn),
}
_FIELDS = {
    "settleAfterBoot": "settle_s",
    "notReadyGrace": "not_ready_grace_s",
    "degradedTolerance": "degraded_tolerance_s",
    "maintenanceLead": "maintenance_lead_s",
    "latchedAfter": "latched_after_s",
}


def chosen(file: pathlib.Path | None) -> health.HealthPolicy:
    """The policy in `file` (from `--policy`), else the one that the context names, else the built-in one.

    Raises ConfigError with the place of the first fault.
    """
    path = file or wiring.policy_file()
    return health.DEFAULT_POLICY if path is None else read(path)


def read(path: pathlib.Path) -> health.HealthPolicy:
    """The policy in a file; raises ConfigError with file and line for what it does not understand."""
    found = config_file.read_values(path, _KEYS, {"conditions": config_file.choice(*_MEANINGS)})
    for key in ("apiVersion", "kind"):
        if key not in found:
            raise config_file.ConfigError(
                f"{path}: this is no health policy: it has no {key}",
                hint=f"begin it with `apiVersion: {API_VERSION}` and `kind: {KIND}`",
            )
    fields: dict[str, Any] = {_FIELDS[key]: value.value for key, value in found.items() if key in _FIELDS}
    if "failOn" in found:
        fields["fail_on"] = health.FailOn(found["failOn"].value)
    return dataclasses.replace(health.DEFAULT_POLICY, conditions=_conditions(found), **fields)


def _conditions(
    found: Mapping[str, config_file.Value],
) -> tuple[tuple[str, states.Verdict], ...]:
    """The built-in ones with what the file says about them and others."""
    meanings: dict[str, str] = {name: str(verdict) for name, verdict in health.CONDITIONS}
    for key, value in found.items():
        group, _, name = key.partition(".")
        if group == "conditions":
            meanings[name] = value.value
    return tuple(
        (name, states.Verdict(meaning)) for name, meaning in sorted(meanings.items()) if meaning != _IGNORED
    )
