"""Columns of nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.sim.kube import ages
from tpuctl.sim.kube.columns import column

if TYPE_CHECKING:
    import datetime


def _status(obj: column.Object, _now: datetime.datetime) -> str:
    ready = column.conditions(obj).get("Ready")
    words = ["Unknown"] if ready is None else ["Ready" if ready["status"] == "True" else "NotReady"]
    if obj.get("spec", {}).get("unschedulable"):
        words.append("SchedulingDisabled")
    return ",".join(words)


def _roles(obj: column.Object, _now: datetime.datetime) -> str:
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(prefix) for key in labels if key.startswith(prefix) and key != prefix}
    if role := labels.get("kubernetes.io/role"):
        roles.add(role)
    return ",".join(sorted(roles)) or column.NONE


def _info(field: str, missing: str) -> column.Cell:
    def cell(obj: column.Object, _now: datetime.datetime) -> str:
        return str(obj.get("status", {}).get("nodeInfo", {}).get(field) or missing)

    return cell


def _address(kind: str) -> column.Cell:
    def cell(obj: column.Object, _now: datetime.datetime) -> str:
        addresses = obj.get("status", {}).get("addresses") or ()
        return next((str(entry["address"]) for entry in addresses if entry["type"] == kind), column.NONE)

    return cell


COLUMNS = (
    column.NAME,
    column.Column("Status", _status, "Whether the node is ready, and whether it takes new pods."),
    column.Column("Roles", _roles, "Roles named by the node's labels."),
    column.AGE,
    column.Column("Version", _info("kubeletVersion", ""), "Version of the kubelet."),
    column.Column("Internal-IP", _address("InternalIP"), "Address inside the network.", priority=1),
    column.Column("External-IP", _address("ExternalIP"), "Address reachable from outside.", priority=1),
    column.Column("OS-Image", _info("osImage", ages.UNKNOWN), "Operating system.", priority=1),
    column.Column("Kernel-Version", _info("kernelVersion", ages.UNKNOWN), "Kernel.", priority=1),
    column.Column(
        "Container-Runtime",
        _info("containerRuntimeVersion", ages.UNKNOWN),
        "Container runtime and its version.",
        priority=1,
    ),
)
