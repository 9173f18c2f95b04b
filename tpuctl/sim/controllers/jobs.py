"""The Job controller: makes pods, counts how they end, and says when a Job is done.

Follows Kubernetes 1.36 as far as TPU work needs it: Indexed and plain Jobs, tracking finalizers, back-off
after failures (for the whole Job or for each index), suspension, deadlines, time to live. As there, a pod
that somebody deletes counts as a failure: with `backoffLimit: 0` one deleted pod fails the Job. Fields that
are not simulated are refused on creation, see `review`.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.controllers import events, job_pods, job_turn, pod_status
from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import clock as clocks
    from tpuctl.sim.kube import admission

Object = dict[str, Any]

JOBS, PODS = "jobs.batch", "pods"
COMPONENT = "job-controller"
FIRST_BACKOFF_S, MAX_BACKOFF_S = 10.0, 600.0
"""Kubernetes waits 10 s after the first failure, then twice as long each time, up to 10 minutes."""
INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
NOT_SIMULATED = (
    "podFailurePolicy",
    "successPolicy",
    "managedBy",
    "manualSelector",
)


def _backoff_s(failures: int) -> float:
    return min(FIRST_BACKOFF_S * 2.0 ** min(failures - 1, 10), MAX_BACKOFF_S)


def review(request: admission.AdmissionRequest) -> None:
    """Admission hook: refuse Jobs with fields that would be stored and then ignored."""
    if request.resource.key != JOBS or request.operation == "DELETE" or request.new is None:
        return
    spec = request.new.get("spec", {})
    fields = [name for name in NOT_SIMULATED if spec.get(name) not in (None, False)]
    if spec.get("podReplacementPolicy") == "Failed":
        fields.append("podReplacementPolicy")
    if fields:
        text = "Forbidden: not simulated"
        causes = [errors.Cause("FieldValueForbidden", text, f"spec.{name}") for name in fields]
        raise errors.invalid(request.resource, request.new["metadata"].get("name", ""), causes)


@dataclasses.dataclass(eq=False)
class _Tally:
    """What the controller remembers of a Job between its turns."""

    pods: dict[str, Object] = dataclasses.field(default_factory=dict)
    """Name -> pod, for the pods that exist."""
    failures_in_a_row: int = 0
    retry_at_s: float = 0.0
    index_failures: dict[int, int] = dataclasses.field(default_factory=dict)
    index_retry_at_s: dict[int, float] = dataclasses.field(default_factory=dict)
    wake: clocks.Timer | None = None


class JobController:
    """Brings each Job's pods and status to what its spec asks for."""

    def __init__(
        self,
        store: stores.Store,
        clock: clocks.Clock,
        behaviour: behaviours.Behaviour,
        ledger: events.Ledger,
        admit_pod: Callable[[Object], Object],
    ) -> None:
        """`admit_pod` gives a pod the defaults and tolerations that the API server would give it."""
        self._store = store
        self._clock = clock
        self._behaviour = behaviour
        self._ledger = ledger
        self._admit_pod = admit_pod
        self._tallies: dict[str, _Tally] = {}
        self._dirty: dict[tuple[str, str], None] = {}
        self._next: clocks.Timer | None = None
        store.subscribe(JOBS, self._job_changed)
        store.subscribe(PODS, self._pod_changed)

    # What happened

    def _job_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        if kind == "DELETED" and old is not None:
            self._forget(old)
        elif new is not None:
            self._tallies.setdefault(new["metadata"]["uid"], _Tally())
            self._look_at(new["metadata"]["namespace"], new["metadata"]["name"])

    def _forget(self, job: Object) -> None:
        """The Job is gone: nobody counts its pods any more, so nothing may hold them."""
        tally = self._tallies.pop(job["metadata"]["uid"], None)
        if tally is None:
            return
        if tally.wake is not None:
            tally.wake.cancel()
        for pod in tally.pods.values():
            self._let_go(pod)

    def _pod_changed(self, kind: str, old: stores.Json | None, new: stores.Json | None) -> None:
        pod = new if new is not None else old
        uid = job_pods.owner_uid(pod) if pod is not None else None
        if pod is None or uid is None:
            return
        tally = self._tallies.get(uid)
        if tally is None:
            self._let_go(pod)
            return
        metadata = pod["metadata"]
        if kind == "DELETED":
            tally.pods.pop(metadata["name"], None)
        else:
            tally.pods[metadata["name"]] = pod
        owner = next(one["name"] for one in metadata["ownerReferences"] if one["uid"] == uid)
        self._look_at(metadata["namespace"], owner)

    def _look_at(self, namespace: str, name: str) -> None:
        self._dirty[namespace, name] = None
        if self._next is None:
            self._next = self._clock.call_later(self._behaviour.schedule_s, self._work)

    def _work(self) -> None:
        self._next, dirty = None, list(self._dirty)
        self._dirty.clear()
        for namespace, name in dirty:
            job = self._store.get(JOBS, namespace, name)
            if job is not None:
                self._take_turn(job)

    # One turn for one Job

    def _take_turn(self, job: Object) -> None:
        tally = self._tallies[job["metadata"]["uid"]]
        turn = job_turn.Turn(job, list(tally.pods.values()))
        if not turn.finished:
            self._count_ended(turn, tally)
            self._follow_suspension(turn)
            self._decide(turn)
        for pod in turn.ended:
            self._let_go(pod)
        self._stop(turn.surplus())
        self._make_pods(turn, tally)
        self._conclude(turn)
        self._write(turn)
        self._wake_later(turn, tally)

    def _count_ended(self, turn: job_turn.Turn, tally: _Tally) -> None:
        failed_before = turn.failed
        for pod in turn.ended:
            if job_pods.TRACKING_FINALIZER not in pod["metadata"].get("finalizers", []):
                continue
            if pod["status"].get("phase") == "Succeeded":
                turn.count_success(pod)
                tally.failures_in_a_row = 0
            elif not turn.suspended:
                turn.failed += 1
                if turn.limit_per_index is None:
                    tally.failures_in_a_row += 1
                else:
                    self._count_failed_index(turn, tally, job_pods.index_of(pod))
        if turn.failed > failed_before and turn.limit_per_index is None:
            tally.retry_at_s = self._clock.now_s + _backoff_s(tally.failures_in_a_row)

    def _count_failed_index(self, turn: job_turn.Turn, tally: _Tally, index: int | None) -> None:
        """Each index has its own back-off, so sixteen pods that end together come back together."""
        if index is None or turn.limit_per_index is None:
            return
        failures = tally.index_failures[index] = tally.index_failures.get(index, 0) + 1
        tally.index_retry_at_s[index] = self._clock.now_s + _backoff_s(failures)
        if failures > turn.limit_per_index:
            turn.failed_indexes.add(index)

    def _follow_suspension(self, turn: job_turn.Turn) -> None:
        if turn.suspended and not turn.condition("Suspended"):
            turn.set_condition("Suspended", "JobSuspended", "Job suspended", self._now())
            self._say(turn, events.NORMAL, "Suspended", "Job suspended")
        elif not turn.suspended and turn.condition("Suspended"):
            turn.set_condition("Suspended", "JobResumed", "Job resumed", self._now(), status="False")
            self._say(turn, events.NORMAL, "Resumed", "Job resumed")

    def _decide(self, turn: job_turn.Turn) -> None:
        """Add the condition that says how the Job ends, if it does."""
        if turn.decided:
            return
        deadline_s = self._deadline_s(turn)
        if turn.too_many_failures():
            text = "Job has reached the specified backoff limit"
            turn.set_condition("FailureTarget", "BackoffLimitExceeded", text, self._now())
        elif turn.too_many_failed_indexes():
            text = "Job has exceeded the specified maximal number of failed indexes"
            turn.set_condition("FailureTarget", "MaxFailedIndexesExceeded", text, self._now())
        elif turn.ends_with_failed_indexes():
            turn.set_condition("FailureTarget", "FailedIndexes", "Job has failed indexes", self._now())
        elif deadline_s is not None and self._clock.now_s >= deadline_s:
            text = "Job was active longer than specified deadline"
            turn.set_condition("FailureTarget", "DeadlineExceeded", text, self._now())
        elif turn.enough_successes():
            text = "Reached expected number of succeeded pods"
            turn.set_condition("SuccessCriteriaMet", "CompletionsReached", text, self._now())

    def _deadline_s(self, turn: job_turn.Turn) -> float | None:
        allowed_s = turn.spec.get("activeDeadlineSeconds")
        if allowed_s is None or turn.start_time is None:
            return None
        return self._seconds(turn.start_time) + float(allowed_s)

    def _stop(self, pods: Iterable[Object]) -> None:
        for pod in pods:
            namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
            now = self._store.get(PODS, namespace, name)
            if now is not None:
                self._store.delete(PODS, namespace, name, grace_s=pod_status.grace_s(now))

    def _make_pods(self, turn: job_turn.Turn, tally: _Tally) -> None:
        if self._clock.now_s < tally.retry_at_s:
            return
        for index in turn.missing():
            if index is not None and self._clock.now_s < tally.index_retry_at_s.get(index, 0.0):
                continue
            new = self._admit_pod(job_pods.build(turn.job, index, self._store.new_suffix))
            if index is not None and turn.limit_per_index is not None:
                failures = str(tally.index_failures.get(index, 0))
                new["metadata"].setdefault("annotations", {})[INDEX_FAILURES] = failures
            pod = self._store.create(PODS, new)
            tally.pods[pod["metadata"]["name"]] = pod
            turn.active.append(pod)
            self._say(turn, events.NORMAL, "SuccessfulCreate", f"Created pod: {pod['metadata']['name']}")

    def _let_go(self, pod: Object) -> None:
        """Take the tracking finalizer from a pod that has been counted, or that nobody will count."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        now = self._store.get(PODS, namespace, name)
        if now is not None and job_pods.TRACKING_FINALIZER in now["metadata"].get("finalizers", []):
            self._store.remove_finalizer(PODS, namespace, name, job_pods.TRACKING_FINALIZER)

    def _conclude(self, turn: job_turn.Turn) -> None:
        """Once all pods have ended, the target becomes the final condition."""
        if turn.finished or not turn.all_pods_ended:
            return
        failure, success = turn.condition("FailureTarget"), turn.condition("SuccessCriteriaMet")
        if failure:
            turn.set_condition("Failed", failure["reason"], failure["message"], self._now())
            self._say(turn, events.WARNING, failure["reason"], failure["message"])
        elif success:
            turn.set_condition("Complete", success["reason"], success["message"], self._now())
            self._say(turn, events.NORMAL, "Completed", "Job completed")

    def _write(self, turn: job_turn.Turn) -> None:
        metadata, status = turn.job["metadata"], turn.status(self._now())
        if status != turn.job.get("status"):
            self._store.mutate(
                JOBS, metadata["namespace"], metadata["name"], lambda job: job.update(status=status)
            )

    # Later turns

    def _wake_later(self, turn: job_turn.Turn, tally: _Tally) -> None:
        """Plan the next turn that no change of an object will cause."""
        if tally.wake is not None:
            tally.wake.cancel()
            tally.wake = None
        if turn.finished:
            self._expire_later(turn, tally)
            return
        missing = turn.missing()
        retries = [tally.index_retry_at_s.get(index, 0.0) for index in missing if index is not None]
        dues = [self._deadline_s(turn), tally.retry_at_s if missing else None, *retries]
        ahead = [due_s for due_s in dues if due_s is not None and due_s > self._clock.now_s]
        place = turn.job["metadata"]["namespace"], turn.job["metadata"]["name"]
        if ahead:
            wait_s = min(ahead) - self._clock.now_s
            tally.wake = self._clock.call_later(wait_s, lambda: self._look_at(*place))

    def _expire_later(self, turn: job_turn.Turn, tally: _Tally) -> None:
        ttl_s = turn.spec.get("ttlSecondsAfterFinished")
        final = turn.condition("Complete") or turn.condition("Failed")
        if ttl_s is None or final is None:
            return
        wait_s = self._seconds(final["lastTransitionTime"]) + float(ttl_s) - self._clock.now_s
        namespace, name = turn.job["metadata"]["namespace"], turn.job["metadata"]["name"]
        uid = turn.job["metadata"]["uid"]

        def expire() -> None:
            job = self._store.get(JOBS, namespace, name)
            if job is not None and job["metadata"]["uid"] == uid:
                self._store.delete(JOBS, namespace, name)

        tally.wake = self._clock.call_later(wait_s, expire)

    def _seconds(self, timestamp: str) -> float:
        return (dt.datetime.fromisoformat(timestamp) - self._clock.start).total_seconds()

    def _say(self, turn: job_turn.Turn, kind: str, reason: str, text: str) -> None:
        self._ledger.record(COMPONENT, turn.job, kind, reason, text)

    def _now(self) -> str:
        return stores.timestamp(self._clock.now())
