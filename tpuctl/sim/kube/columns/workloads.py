"""Columns of deployments, cron jobs and disruption budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import ages
from tpuctl.sim.kube.columns import column

if TYPE_CHECKING:
    import datetime


def _count(field: str) -> column.Cell:
    def cell(obj: column.Object, _now: datetime.datetime) -> int:
        return int(obj.get("status", {}).get(field) or 0)

    return cell


def _ready(deployment: column.Object, _now: datetime.datetime) -> str:
    ready = deployment.get("status", {}).get("readyReplicas") or 0
    return f"{ready}/{deployment.get('spec', {}).get('replicas') or 0}"


def _spec(field: str, missing: Any) -> column.Cell:
    def cell(obj: column.Object, _now: datetime.datetime) -> str:
        value = obj.get("spec", {}).get(field)
        return str(missing if value is None else value)

    return cell


def _containers(field: str, *path: str) -> column.Cell:
    """Of the template, which is in the spec or below `path` in it."""

    def cell(obj: column.Object, _now: datetime.datetime) -> str:
        spec = obj.get("spec", {})
        for name in (*path, "template", "spec"):
            spec = spec.get(name) or {}
        return ",".join(container.get(field, "") for container in spec.get("containers") or ())

    return cell


def _selector(obj: column.Object, _now: datetime.datetime) -> str:
    return column.pairs(obj.get("spec", {}).get("selector", {}).get("matchLabels"))


def _suspend(cron_job: column.Object, _now: datetime.datetime) -> str:
    return str(bool(cron_job.get("spec", {}).get("suspend")))


def _active(cron_job: column.Object, _now: datetime.datetime) -> int:
    return len(cron_job.get("status", {}).get("active") or ())


def _last(cron_job: column.Object, now: datetime.datetime) -> str:
    last = cron_job.get("status", {}).get("lastScheduleTime")
    return ages.since(last, now) if last else column.NONE


_CONTAINERS = "Names of the containers."
_IMAGES = "Images of the containers."
DEPLOYMENTS = (
    column.NAME,
    column.Column("Ready", _ready, "Pods that are ready, of those wanted."),
    column.Column("Up-to-date", _count("updatedReplicas"), "Pods of the newest template.", type="integer"),
    column.Column("Available", _count("availableReplicas"), "Pods that are available.", type="integer"),
    column.AGE,
    column.Column("Containers", _containers("name"), _CONTAINERS, priority=1),
    column.Column("Images", _containers("image"), _IMAGES, priority=1),
    column.Column("Selector", _selector, "Labels by which it finds its pods.", priority=1),
)
CRON_JOBS = (
    column.NAME,
    column.Column("Schedule", _spec("schedule", ""), "When jobs start."),
    column.Column("Timezone", _spec("timeZone", column.NONE), "Time zone of the schedule."),
    column.Column("Suspend", _suspend, "Whether no further jobs start.", type="boolean"),
    column.Column("Active", _active, "Jobs that are running.", type="integer"),
    column.Column("Last Schedule", _last, "Time since a job was last started."),
    column.AGE,
    column.Column("Containers", _containers("name", "jobTemplate", "spec"), _CONTAINERS, priority=1),
    column.Column("Images", _containers("image", "jobTemplate", "spec"), _IMAGES, priority=1),
)
DISRUPTION_BUDGETS = (
    column.NAME,
    column.Column("Min Available", _spec("minAvailable", "N/A"), "Pods that must stay."),
    column.Column("Max Unavailable", _spec("maxUnavailable", "N/A"), "Pods that may be missing."),
    column.Column(
        "Allowed Disruptions", _count("disruptionsAllowed"), "Evictions allowed now.", type="integer"
    ),
    column.AGE,
)
