"""Rules of the types that run pods or protect them: jobs, deployments, cron jobs, disruption budgets."""

from __future__ import annotations

import re
import zoneinfo
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import errors, pod_rules
from tpuctl.sim.kube.causes import IMMUTABLE, bad, forbidden, required, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Json = dict[str, Any]

NOT_NEGATIVE = "must be greater than or equal to 0"
COUNTS = {
    "jobs.batch": (
        "parallelism",
        "completions",
        "backoffLimit",
        "activeDeadlineSeconds",
        "ttlSecondsAfterFinished",
    ),
    "deployments.apps": (
        "replicas",
        "minReadySeconds",
        "progressDeadlineSeconds",
        "revisionHistoryLimit",
    ),
    "cronjobs.batch": ("startingDeadlineSeconds", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
}
"""Fields of specs that count something."""


def _counts(spec: Json, key: str, path: str) -> Iterator[errors.Cause]:
    for field in COUNTS[key]:
        if (spec.get(field) or 0) < 0:
            yield bad(spec[field], NOT_NEGATIVE, f"{path}.{field}")


# Jobs


def job(obj: Json) -> Iterator[errors.Cause]:
    """A Job."""
    return _job_spec(obj.get("spec") or {}, "spec")


def _job_spec(spec: Json, path: str) -> Iterator[errors.Cause]:
    yield from _counts(spec, "jobs.batch", path)
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        yield required(f"{path}.completions", "when completion mode is Indexed")
    template = (spec.get("template") or {}).get("spec") or {}
    yield from pod_rules.spec_causes(template, f"{path}.template.spec")
    if template.get("restartPolicy", "Always") == "Always":
        why = 'valid values: "OnFailure", "Never"'
        yield required(f"{path}.template.spec.restartPolicy", why)


def job_update(old: Json, new: Json) -> Iterator[errors.Cause]:
    """A change of a Job."""
    fields = ["selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"]
    if old["spec"].get("completionMode") != "Indexed":
        fields.append("completions")
    # Templates of suspended jobs may be changed before their first start, by schedulers such as Kueue.
    if not old["spec"].get("suspend") or (old.get("status") or {}).get("startTime"):
        fields.append("template")
    for field in fields:
        if old["spec"].get(field) != new["spec"].get(field):
            yield bad(field, IMMUTABLE, f"spec.{field}")


# Cron jobs


MAX_CRON_NAME = 52
"""A job's name gets eleven characters more than its cron job's."""
POLICIES = ("Allow", "Forbid", "Replace")
MACROS = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
CRON_FIELDS = 5
RANGES = (("minute", 0, 59), ("hour", 0, 23), ("day", 1, 31), ("month", 1, 12), ("weekday", 0, 6))
NAMES = {
    name: number
    for words, first in (
        ("jan feb mar apr may jun jul aug sep oct nov dec", 1),
        ("sun mon tue wed thu fri sat", 0),
    )
    for number, name in enumerate(words.split(), first)
}
PART = re.compile(r"(?P<low>\*|\?|\w+)(-(?P<high>\w+))?(/(?P<step>\d+))?")


def cron_job(obj: Json) -> Iterator[errors.Cause]:
    """A CronJob."""
    spec = obj.get("spec") or {}
    if len(obj["metadata"].get("name", "")) > MAX_CRON_NAME:
        why = f"must be no more than {MAX_CRON_NAME} characters"
        yield bad(obj["metadata"]["name"], why, "metadata.name")
    schedule = spec.get("schedule", "")
    if not schedule:
        yield required("spec.schedule")
    elif problem := schedule_problem(schedule):
        yield bad(schedule, problem, "spec.schedule")
    yield from _time_zone(spec.get("timeZone"))
    policy = spec.get("concurrencyPolicy", "Allow")
    if policy not in POLICIES:
        yield unsupported(policy, POLICIES, "spec.concurrencyPolicy")
    yield from _counts(spec, "cronjobs.batch", "spec")
    yield from _job_spec((spec.get("jobTemplate") or {}).get("spec") or {}, "spec.jobTemplate.spec")


def schedule_problem(schedule: str) -> str | None:
    """What is wrong with a cron schedule, or None."""
    if "TZ" in schedule:
        return "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
    if schedule.startswith("@"):
        known = schedule in MACROS or re.fullmatch(r"@every (\d+(\.\d+)?(h|m|s|ms))+", schedule)
        return None if known else f"unrecognized descriptor: {schedule}"
    fields = schedule.split()
    if len(fields) != CRON_FIELDS:
        return f"expected exactly 5 fields, found {len(fields)}: [{' '.join(fields)}]"
    problems = (_field_problem(field, *about) for field, about in zip(fields, RANGES, strict=True))
    return next(filter(None, problems), None)


def _field_problem(field: str, what: str, low: int, high: int) -> str | None:
    for part in field.split(","):
        match = PART.fullmatch(part)
        if match is None or match["step"] == "0":
            return f"failed to parse {what}: {part}"
        for end in filter(None, (match["low"], match["high"])):
            number = low if end in {"*", "?"} else NAMES.get(end.lower(), int(end) if end.isdecimal() else -1)
            if not low <= number <= high:
                return f"{what} must be between {low} and {high}: {part}"
    return None


def _time_zone(name: str | None) -> Iterator[errors.Cause]:
    if name is None:
        return
    try:
        zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError):
        yield bad(name, f"unknown time zone {name}", "spec.timeZone")


# Deployments


STRATEGIES = ("Recreate", "RollingUpdate")


def deployment(obj: Json) -> Iterator[errors.Cause]:
    """A Deployment."""
    spec = obj.get("spec") or {}
    yield from _counts(spec, "deployments.apps", "spec")
    yield from _selection(spec)
    strategy = spec.get("strategy") or {}
    kind = strategy.get("type", "RollingUpdate")
    if kind not in STRATEGIES:
        yield unsupported(kind, STRATEGIES, "spec.strategy.type")
    elif kind == "Recreate" and strategy.get("rollingUpdate"):
        why = "may not be specified when strategy `type` is 'Recreate'"
        yield forbidden(why, "spec.strategy.rollingUpdate")
    for field in ("maxSurge", "maxUnavailable"):
        amount = (strategy.get("rollingUpdate") or {}).get(field)
        yield from _share(amount, f"spec.strategy.rollingUpdate.{field}")
    template = (spec.get("template") or {}).get("spec") or {}
    yield from pod_rules.spec_causes(template, "spec.template.spec")
    policy = template.get("restartPolicy", "Always")
    if policy in pod_rules.RESTART_POLICIES and policy != "Always":
        yield unsupported(policy, ("Always",), "spec.template.spec.restartPolicy")


def _selection(spec: Json) -> Iterator[errors.Cause]:
    selector = spec.get("selector")
    if selector is None:
        yield required("spec.selector")
        return
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield bad("{}", "empty selector is invalid for deployment", "spec.selector")
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(name) != value for name, value in wanted.items()):
        why = "`selector` does not match template `labels`"
        yield bad(labels, why, "spec.template.metadata.labels")


def deployment_update(old: Json, new: Json) -> Iterator[errors.Cause]:
    """A change of a Deployment."""
    if old["spec"]["selector"] != new["spec"]["selector"]:
        yield bad(new["spec"]["selector"], IMMUTABLE, "spec.selector")


# Disruption budgets


EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")


def disruption_budget(obj: Json) -> Iterator[errors.Cause]:
    """A PodDisruptionBudget."""
    spec = obj.get("spec") or {}
    both = [spec.get(field) for field in ("minAvailable", "maxUnavailable")]
    if None not in both:
        yield bad(spec, "minAvailable and maxUnavailable cannot be both set", "spec")
    yield from _share(both[0], "spec.minAvailable")
    yield from _share(both[1], "spec.maxUnavailable")
    policy = spec.get("unhealthyPodEvictionPolicy", EVICTION_POLICIES[0])
    if policy not in EVICTION_POLICIES:
        yield unsupported(policy, EVICTION_POLICIES, "spec.unhealthyPodEvictionPolicy")


def _share(amount: Any, path: str) -> Iterator[errors.Cause]:
    """A count, or a percentage as text."""
    if isinstance(amount, int) and amount < 0:
        yield bad(amount, NOT_NEGATIVE, path)
    elif isinstance(amount, str):
        if not re.fullmatch(r"[0-9]+%", amount):
            why = "a valid percent string must be a numeric string followed by an ending '%'"
            yield bad(amount, f"{why} (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')", path)
        elif int(amount[:-1]) > 100:  # noqa: PLR2004 - per cent
            yield bad(amount, "must not be greater than 100%", path)


RULES: dict[str, Callable[[Json], Iterator[errors.Cause]]] = {
    "cronjobs.batch": cron_job,
    "deployments.apps": deployment,
    "jobs.batch": job,
    "poddisruptionbudgets.policy": disruption_budget,
}
UPDATE_RULES: dict[str, Callable[[Json, Json], Iterator[errors.Cause]]] = {
    "deployments.apps": deployment_update,
    "jobs.batch": job_update,
}
