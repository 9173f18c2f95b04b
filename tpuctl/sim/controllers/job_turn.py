"""One look at a Job and its pods: what is missing, what is too much, what its status should say.

Pure: reads the objects it is given, remembers what it is told, and writes nothing.
"""

from __future__ import annotations

from typing import Any

from tpuctl.sim.controllers import job_pods

Object = dict[str, Any]

FINISHED_PHASES = frozenset({"Succeeded", "Failed"})
DEFAULT_BACKOFF_LIMIT = 6
NO_LIMIT = 2**31 - 1


class Turn:
    """A Job, its pods, and the counters as they will be after this turn."""

    def __init__(self, job: Object, pods: list[Object]) -> None:
        self.job = job
        self.spec: Object = job["spec"]
        self._status: Object = job.get("status") or {}
        self._conditions: list[Object] = list(self._status.get("conditions", []))
        self._completed = job_pods.parse_ranges(self._status.get("completedIndexes", ""))
        self.failed_indexes = job_pods.parse_ranges(self._status.get("failedIndexes", ""))
        self.succeeded: int = self._status.get("succeeded", 0)
        self.failed: int = self._status.get("failed", 0)
        self._pods = pods
        self.active = [pod for pod in pods if not has_ended(pod)]
        self.ended = [pod for pod in pods if has_ended(pod)]

    @property
    def start_time(self) -> str | None:
        started: str | None = self._status.get("startTime")
        return started

    @property
    def finished(self) -> bool:
        return bool(self.condition("Complete") or self.condition("Failed"))

    @property
    def decided(self) -> bool:
        """Whether it is clear how the Job ends, even if pods still run."""
        return bool(self.condition("FailureTarget") or self.condition("SuccessCriteriaMet"))

    @property
    def suspended(self) -> bool:
        return bool(self.spec.get("suspend"))

    @property
    def all_pods_ended(self) -> bool:
        return all(pod["status"].get("phase") in FINISHED_PHASES for pod in self._pods)

    def condition(self, kind: str) -> Object | None:
        """The condition of that type if it is True."""
        return next(
            (one for one in self._conditions if one["type"] == kind and one["status"] == "True"), None
        )

    def set_condition(self, kind: str, reason: str, message: str, now: str, *, status: str = "True") -> None:
        rest = [one for one in self._conditions if one["type"] != kind]
        times = {"lastProbeTime": now, "lastTransitionTime": now}
        new = {"type": kind, "status": status, **times, "reason": reason, "message": message}
        self._conditions = [*rest, new]

    def count_success(self, pod: Object) -> None:
        index = job_pods.index_of(pod) if job_pods.is_indexed(self.job) else None
        if index is None:
            self.succeeded += 1
        else:
            self._completed.add(index)
            self.succeeded = len(self._completed)

    @property
    def limit_per_index(self) -> int | None:
        """Failures that one index may have; None if failures are counted for the whole Job."""
        limit = self.spec.get("backoffLimitPerIndex")
        return None if limit is None else int(limit)

    def too_many_failures(self) -> bool:
        # With a limit per index, the one for the whole Job has no default that matters.
        default = DEFAULT_BACKOFF_LIMIT if self.limit_per_index is None else NO_LIMIT
        return self.failed > int(self.spec.get("backoffLimit", default))

    def too_many_failed_indexes(self) -> bool:
        allowed = self.spec.get("maxFailedIndexes")
        return allowed is not None and len(self.failed_indexes) > int(allowed)

    def ends_with_failed_indexes(self) -> bool:
        """Every index has ended, and not all of them well."""
        ended = self._completed | self.failed_indexes
        return bool(self.failed_indexes) and len(ended) >= int(self.spec.get("completions", 0))

    def enough_successes(self) -> bool:
        completions = self.spec.get("completions")
        if completions is None:
            return self.succeeded > 0 and not self.active
        return self.succeeded >= int(completions)

    def surplus(self) -> list[Object]:
        """Active pods that should not be."""
        if self.decided or self.suspended or self.finished:
            return self.active
        return self.active[int(self.spec.get("parallelism", 1)) :]

    def missing(self) -> list[int | None]:
        """A completion index (or None, for a Job without indexes) for each pod to make."""
        if self.decided or self.suspended or self.finished or "deletionTimestamp" in self.job["metadata"]:
            return []
        room = int(self.spec.get("parallelism", 1)) - len(self.active)
        if job_pods.is_indexed(self.job):
            active = {job_pods.index_of(pod) for pod in self.active}
            taken = self._completed | self.failed_indexes | active
            open_indexes = [index for index in range(int(self.spec["completions"])) if index not in taken]
            return list(open_indexes[: max(room, 0)])
        completions = self.spec.get("completions")
        if completions is not None:
            room = min(room, int(completions) - self.succeeded - len(self.active))
        elif self.succeeded:
            room = 0
        return [None] * max(room, 0)

    def status(self, now: str) -> Object:
        """The status to store; counters that are zero are left out where Kubernetes does so."""
        counters = {"active": len(self.active), "succeeded": self.succeeded, "failed": self.failed}
        status: Object = {name: count for name, count in counters.items() if count}
        status["ready"] = sum(_is_ready(pod) for pod in self.active)
        status["terminating"] = sum(
            pod["status"].get("phase") not in FINISHED_PHASES and "deletionTimestamp" in pod["metadata"]
            for pod in self._pods
        )
        status["uncountedTerminatedPods"] = {}
        if not self.suspended:
            status["startTime"] = self.start_time or now
        if self._completed:
            status["completedIndexes"] = job_pods.ranges(self._completed)
        if self.limit_per_index is not None:
            status["failedIndexes"] = job_pods.ranges(self.failed_indexes)
        if self._conditions:
            status["conditions"] = self._conditions
        complete = self.condition("Complete")
        if complete:
            status["completionTime"] = complete["lastTransitionTime"]
        return status


def has_ended(pod: Object) -> bool:
    """Whether a Job counts a pod no longer as active: it finished, or somebody deleted it."""
    return pod["status"].get("phase") in FINISHED_PHASES or "deletionTimestamp" in pod["metadata"]


def _is_ready(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
