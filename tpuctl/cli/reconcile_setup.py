"""What the commands of `tpuctl reconcile` begin with: fleet file, context, and the loop's settings."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, NamedTuple

from tpuctl.cli import fleet_spec, health_policy, session, wiring
from tpuctl.model import codec, errors
from tpuctl.ops.reconciling import settings as loop_settings

if TYPE_CHECKING:
    import pathlib

    from tpuctl.model import declared, health
    from tpuctl.ops import ports as ports_module


class Given(NamedTuple):
    """A declared state with the cluster that it is about."""

    spec: declared.FleetSpec
    ports: ports_module.Ports
    settings: loop_settings.Settings


def given(file: pathlib.Path, policy: pathlib.Path | None, *, mode: declared.Mode) -> Given:
    """Read `file` and connect to its context; raises ConfigError, UsageError, NotFound."""
    found = fleet_spec.read(file)
    take_context(found.spec)
    made = settings(found.spec, found.digest, health_policy.chosen(policy), mode)
    return Given(found.spec, wiring.ports(), made)


def settings(
    spec: declared.FleetSpec, digest: str, policy: health.HealthPolicy, mode: declared.Mode
) -> loop_settings.Settings:
    """Settings for the chosen context."""
    return loop_settings.Settings(
        spec=spec,
        spec_digest=digest,
        policy=policy,
        policy_digest=policy_digest(policy),
        pool_policy=wiring.context().policy,
        mode=mode,
    )


def take_context(spec: declared.FleetSpec) -> None:
    """Work on the context that the fleet file names.

    Raises UsageError if the command line names another one: the file is about one cluster only; NotFound if
    there is no such context.
    """
    flags = session.current().flags
    if not spec.context:
        return
    if flags.context is None:
        flags.context = spec.context
        _refuse_unknown(spec)
    elif flags.context != spec.context:
        raise errors.UsageError(
            f"fleet {spec.name} is declared for context {spec.context}, not for {flags.context}",
            hint="leave --context out, or name the other context in a fleet file of its own",
        )


def _refuse_unknown(spec: declared.FleetSpec) -> None:
    try:
        session.current().settings.context(spec.context)
    except errors.NotFound as error:
        raise errors.NotFound(
            f"fleet {spec.name} is declared for context {spec.context}, and there is no such context",
            hint=error.hint,
        ) from error


def policy_digest(policy: health.HealthPolicy) -> str:
    """SHA-256 of a health policy, in hex: a plan that was judged by another one is not applied."""
    text = json.dumps(codec.encode(policy), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
