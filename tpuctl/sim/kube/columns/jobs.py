"""Columns of jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim.kube import ages
from tpuctl.sim.kube.columns import column

if TYPE_CHECKING:
    import datetime

_ENDS = ("Complete", "Failed")
_STATES = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _status(job: column.Object, _now: datetime.datetime) -> str:
    ended = next((word for word in _ENDS if column.holds(job, word)), None)
    if ended:
        return ended
    if "deletionTimestamp" in job["metadata"]:
        return "Terminating"
    return next((word for word in _STATES if column.holds(job, word)), "Running")


def _completions(job: column.Object, _now: datetime.datetime) -> str:
    succeeded = job.get("status", {}).get("succeeded", 0)
    spec = job.get("spec", {})
    if spec.get("completions") is not None:
        return f"{succeeded}/{spec['completions']}"
    parallelism = spec.get("parallelism") or 0
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _duration(job: column.Object, now: datetime.datetime) -> str:
    status = job.get("status", {})
    if not status.get("startTime"):
        return ""
    if status.get("completionTime"):
        return ages.between(status["startTime"], status["completionTime"])
    return ages.since(status["startTime"], now)


def _containers(field: str) -> column.Cell:
    def cell(job: column.Object, _now: datetime.datetime) -> str:
        containers = job.get("spec", {}).get("template", {}).get("spec", {}).get("containers") or ()
        return ",".join(container.get(field, "") for container in containers)

    return cell


def _selector(job: column.Object, _now: datetime.datetime) -> str:
    return column.pairs(job.get("spec", {}).get("selector", {}).get("matchLabels"))


COLUMNS = (
    column.NAME,
    column.Column("Status", _status, "What the job is doing, or how it ended."),
    column.Column("Completions", _completions, "Pods that succeeded, of those wanted."),
    column.Column("Duration", _duration, "From start to completion, or until now."),
    column.AGE,
    column.Column("Containers", _containers("name"), "Names of the containers.", priority=1),
    column.Column("Images", _containers("image"), "Images of the containers.", priority=1),
    column.Column("Selector", _selector, "Labels by which the job finds its pods.", priority=1),
)
