"""Columns of pods.

The rules for a pod's status are the real server's, except that init containers are left out: the simulated
kubelet runs none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim.kube import ages
from tpuctl.sim.kube.columns import column

if TYPE_CHECKING:
    import datetime


def _containers(pod: column.Object) -> list[column.Object]:
    return pod.get("status", {}).get("containerStatuses") or []


def _is_up(container: column.Object) -> bool:
    return bool(container.get("ready")) and "running" in container.get("state", {})


def _container_reason(container: column.Object) -> str | None:
    """Why a container is not running, in the server's words; None if it runs or has nothing to say."""
    state = container.get("state", {})
    if reason := state.get("waiting", {}).get("reason"):
        return str(reason)
    terminated = state.get("terminated")
    if terminated is None:
        return None
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _status(pod: column.Object, _now: datetime.datetime) -> str:
    status = pod.get("status", {})
    phase = status.get("phase", "Pending")
    deleted = "deletionTimestamp" in pod["metadata"]
    if deleted and status.get("reason") == "NodeLost":
        return "Unknown"
    if deleted and phase not in {"Succeeded", "Failed"}:
        return "Terminating"
    word = _word(pod, str(status.get("reason") or phase))
    if word == "Completed" and any(_is_up(container) for container in _containers(pod)):
        return "Running" if column.holds(pod, "Ready") else "NotReady"
    return word


def _word(pod: column.Object, otherwise: str) -> str:
    if column.conditions(pod).get("PodScheduled", {}).get("reason") == "SchedulingGated":
        otherwise = "SchedulingGated"
    # The first container that has something to say speaks for the pod.
    return next(filter(None, map(_container_reason, _containers(pod))), otherwise)


def _ready(pod: column.Object, _now: datetime.datetime) -> str:
    up = sum(_is_up(container) for container in _containers(pod))
    return f"{up}/{len(pod.get('spec', {}).get('containers') or ())}"


def _restarts(pod: column.Object, now: datetime.datetime) -> str:
    containers = _containers(pod)
    restarts = sum(container.get("restartCount", 0) for container in containers)
    ends = [
        container.get("lastState", {}).get("terminated", {}).get("finishedAt") for container in containers
    ]
    last = max(filter(None, ends), default=None)
    return f"{restarts} ({ages.since(last, now)} ago)" if restarts and last else str(restarts)


def _ip(pod: column.Object, _now: datetime.datetime) -> str:
    return str(pod.get("status", {}).get("podIP") or column.NONE)


def _node(pod: column.Object, _now: datetime.datetime) -> str:
    return str(pod.get("spec", {}).get("nodeName") or column.NONE)


def _nominated(pod: column.Object, _now: datetime.datetime) -> str:
    return str(pod.get("status", {}).get("nominatedNodeName") or column.NONE)


def _gates(pod: column.Object, _now: datetime.datetime) -> str:
    gates = pod.get("spec", {}).get("readinessGates") or ()
    open_gates = sum(column.holds(pod, gate["conditionType"]) for gate in gates)
    return f"{open_gates}/{len(gates)}" if gates else column.NONE


COLUMNS = (
    column.NAME,
    column.Column("Ready", _ready, "Containers that are ready, of all."),
    column.Column("Status", _status, "What the pod is doing, or why it is not."),
    column.Column("Restarts", _restarts, "Restarts of all containers, and when the last one was."),
    column.AGE,
    column.Column("IP", _ip, "Address of the pod.", priority=1),
    column.Column("Node", _node, "Node the pod is bound to.", priority=1),
    column.Column("Nominated Node", _nominated, "Node that is being made free for the pod.", priority=1),
    column.Column("Readiness Gates", _gates, "Gates that are open, of all.", priority=1),
)
