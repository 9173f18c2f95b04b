"""The status of pods: conditions and containers, as a kubelet reports them."""

from __future__ import annotations

import hashlib
from typing import Any

Object = dict[str, Any]

ENDED = frozenset({"Succeeded", "Failed"})
_READY_CONDITIONS = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")


def set_condition(pod: Object, kind: str, status: str, now: str, **rest: str) -> None:
    """Set a pod's condition in place; its time moves only if its status does."""
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    old = next((one for one in conditions if one["type"] == kind), None)
    time = old["lastTransitionTime"] if old is not None and old["status"] == status else now
    new = {"type": kind, "status": status, "lastProbeTime": None, "lastTransitionTime": time, **rest}
    if old is None:
        conditions.append(new)
    else:
        conditions[conditions.index(old)] = new


def has_ended(pod: Object) -> bool:
    return pod.get("status", {}).get("phase") in ENDED


def grace_s(pod: Object) -> int:
    """Seconds that an ordinary deletion leaves a pod; one that no kubelet has, or that ended, goes at
    once."""
    if not pod["spec"].get("nodeName") or has_ended(pod):
        return 0
    return int(pod["spec"].get("terminationGracePeriodSeconds", 30))


def run(pod: Object, now: str, *, host_ip: str, pod_ip: str) -> None:
    """Turn a bound pod, in place, into a running one; a container that ran before counts as restarted."""
    status = pod["status"]
    for kind in _READY_CONDITIONS:
        set_condition(pod, kind, "True", now)
    addresses = {"hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "podIP": pod_ip, "podIPs": [{"ip": pod_ip}]}
    status.update({"phase": "Running", "startTime": status.get("startTime", now), **addresses})
    before = {one["name"]: one for one in status.get("containerStatuses", [])}
    status["containerStatuses"] = [
        _running(pod, container, before.get(container["name"]), now)
        for container in pod["spec"]["containers"]
    ]


def end(pod: Object, now: str, *, exit_code: int, reason: str, message: str = "") -> None:
    """End a pod, in place: Succeeded for exit code 0, Failed for any other."""
    succeeded = exit_code == 0
    for kind in ("Ready", "ContainersReady"):
        why = "PodCompleted" if succeeded else "PodFailed"
        set_condition(pod, kind, "False", now, reason=why)
    pod["status"]["phase"] = "Succeeded" if succeeded else "Failed"
    stopped = {"exitCode": exit_code, "reason": reason, "finishedAt": now}
    if message:
        stopped["message"] = message
    pod["status"]["containerStatuses"] = [
        _terminated(one, stopped) for one in pod["status"].get("containerStatuses", [])
    ]


def _running(pod: Object, container: Object, before: Object | None, now: str) -> Object:
    restarts = 0 if before is None else before["restartCount"] + 1
    text = f"{pod['metadata']['uid']}/{container['name']}/{restarts}"
    identity = f"containerd://{hashlib.sha256(text.encode()).hexdigest()}"
    last = (
        {} if before is None else _terminated(before, {"exitCode": 137, "reason": "Error", "finishedAt": now})
    )
    return {
        "name": container["name"],
        "image": container["image"],
        "imageID": f"sim@sha256:{hashlib.sha256(container['image'].encode()).hexdigest()}",
        "containerID": identity,
        "ready": True,
        "started": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": now}},
        "lastState": last.get("state", {}),
    }


def _terminated(status: Object, stopped: Object) -> Object:
    if "running" not in status["state"]:
        return status
    times = {"startedAt": status["state"]["running"]["startedAt"], "containerID": status["containerID"]}
    return {**status, "ready": False, "started": False, "state": {"terminated": {**times, **stopped}}}
