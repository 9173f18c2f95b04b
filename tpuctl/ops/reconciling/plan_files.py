"""A plan as a file: what it is bound to, and reading it back."""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
import json
from typing import TYPE_CHECKING, Any

from tpuctl.model import codec, errors, reconciling

if TYPE_CHECKING:
    import pathlib

    from tpuctl.engine import reconciling as engine
    from tpuctl.ops.reconciling import outcomes
    from tpuctl.ops.reconciling import settings as settings_module

API_VERSION = "tpuctl/v1"
KIND = "ReconcilePlan"
VALID_S = 3600.0
"""A plan older than this is made anew: the world has moved on."""
REMAKE = "make a new one with: tpuctl reconcile plan -f FLEET --out PLAN"
_ID_LENGTH = 12


def make(
    planned: outcomes.Planned,
    settings: settings_module.Settings,
    *,
    version: str,
    valid_s: float = VALID_S,
) -> reconciling.PlanFile:
    """The plan with everything that it is bound to; actions that a guard stops are not part of it.

    `version` is that of this tpuctl.
    """
    view = planned.view
    plan = reconciling.PlanFile(
        id="",
        version=version,
        cluster=view.snapshot.cluster,
        fleet=settings.spec.name,
        spec_digest=settings.spec_digest,
        policy_digest=settings.policy_digest,
        pool_policy=settings.pool_policy,
        spec=settings.spec,
        observed_at=view.now,
        expires_at=view.now + datetime.timedelta(seconds=valid_s),
        actions=planned.decision.to_do,
    )
    return dataclasses.replace(plan, id=_digest(plan))


def encode(plan: reconciling.PlanFile) -> str:
    """The text of the file."""
    document = {"apiVersion": API_VERSION, "kind": KIND, "plan": codec.encode(plan)}
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


def decode(text: str, place: str) -> reconciling.PlanFile:
    """Read what `encode` wrote; raises UsageError with `place` for anything else, changed plans among it."""
    try:
        document: Any = json.loads(text)
    except ValueError as error:
        raise errors.UsageError(
            f"{place} is no plan: it is not JSON", hint="a fleet file is applied with -f"
        ) from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise errors.UsageError(
            f"{place} is no plan", hint="make one with: tpuctl reconcile plan -f FLEET --out FILE"
        )
    if document.get("apiVersion") != API_VERSION:
        raise errors.UsageError(f"{place} has version {document.get('apiVersion')}, expected {API_VERSION}")
    plan = codec.decode(document.get("plan"), reconciling.PlanFile, f"{place}: plan")
    if plan.schema != reconciling.SCHEMA or plan.id != _digest(plan):
        raise errors.UsageError(
            f"{place} is not as it was written",
            hint="plans are not edited: change the fleet file, plan again",
        )
    return plan


def write(plan: reconciling.PlanFile, path: pathlib.Path) -> None:
    """Write the file; another program sees the old content or the new. Raises UsageError."""
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(encode(plan))
        temporary.replace(path)
    except OSError as error:
        raise errors.UsageError(f"cannot write {path}: {error.strerror}") from error


def read(path: pathlib.Path) -> reconciling.PlanFile:
    """Read the file; raises NotFound, UsageError."""
    try:
        text = path.read_text()
    except FileNotFoundError as error:
        raise errors.NotFound(f"there is no file {path}") from error
    except (OSError, UnicodeDecodeError) as error:
        raise errors.UsageError(f"cannot read {path}: {error}") from error
    return decode(text, str(path))


def refuse_unfit(
    plan: reconciling.PlanFile, view: engine.View, settings: settings_module.Settings, version: str
) -> None:
    """Raise Conflict with all that is otherwise than the plan says, GuardStopped if it has expired."""
    if view.now >= plan.expires_at:
        raise errors.GuardStopped(
            f"plan {plan.id} expired at {plan.expires_at:%Y-%m-%d %H:%M:%S} UTC",
            hint=REMAKE,
        )
    found = [
        f"{what}: the plan is for {then or 'none'}, this is {now or 'none'}"
        for what, then, now in (
            ("tpuctl", plan.version, version),
            ("cluster", plan.cluster, view.snapshot.cluster),
            ("declared state", plan.spec_digest, settings.spec_digest),
            ("health policy", plan.policy_digest, settings.policy_digest),
            ("workload policy", plan.pool_policy, settings.pool_policy),
        )
        if then != now
    ]
    if found:
        raise errors.Conflict(
            f"plan {plan.id} does not fit any more; nothing was done",
            hint=REMAKE,
            details=tuple(found),
        )


def _digest(plan: reconciling.PlanFile) -> str:
    content = codec.encode(dataclasses.replace(plan, id=""))
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:_ID_LENGTH]
