"""Clusters, node pools and operations as JSON, with the fields that the server fills in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import partitions
from tpuctl.sim.googleapis import projects, times

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim import clock as clocks
    from tpuctl.sim.gke import model, operations

Json = dict[str, Any]

COMPUTE = "https://www.googleapis.com/compute/v1"
CONTAINER = "https://container.googleapis.com/v1"
_SCOPES = [
    f"https://www.googleapis.com/auth/{scope}"
    for scope in (
        "devstorage.read_only",
        "logging.write",
        "monitoring",
        "service.management.readonly",
        "servicecontrol",
        "trace.append",
    )
]
_CONFIG_DEFAULTS: Json = {
    "diskSizeGb": 100,
    "diskType": "hyperdisk-balanced",
    "effectiveCgroupMode": "EFFECTIVE_CGROUP_MODE_V2",
    "imageType": "COS_CONTAINERD",
    "metadata": {"disable-legacy-endpoints": "true"},
    "oauthScopes": _SCOPES,
    "serviceAccount": "default",
    "shieldedInstanceConfig": {"enableIntegrityMonitoring": True},
}


def etag(*parts: object) -> str:
    """Return a short opaque value that changes whenever one of `parts` does."""
    return partitions.opaque_id(*parts)[:11] + "="


def with_defaults(request: Json, version: str) -> Json:
    """Return a checked NodePool with the values the server chooses where the client said nothing.

    A `management` without one of its flags means false, as the client's JSON leaves false out.
    """
    defaults: Json = {
        "management": {"autoRepair": True, "autoUpgrade": True},
        "maxPodsConstraint": {"maxPodsPerNode": "110"},
        "upgradeSettings": {"maxSurge": 1},
    }
    filled = {**defaults, **request, "version": version}
    filled["config"] = {**_CONFIG_DEFAULTS, **request["config"]}
    filled["upgradeSettings"] = {"strategy": "SURGE", **filled["upgradeSettings"]}
    return filled


def pool(cluster: model.Cluster, shown: model.NodePool) -> Json:
    """Return a NodePool; false and zero are left out, as the service does."""
    group = f"{COMPUTE}/projects/{cluster.project}/zones/{shown.zone}/instanceGroupManagers/{shown.group}"
    conditions = [condition(one) for one in shown.conditions]
    view: Json = {
        **shown.request,
        "management": {key: flag for key, flag in shown.request["management"].items() if flag},
        "etag": etag(shown.name, shown.size, shown.status, shown.conditions, shown.created_s),
        "instanceGroupUrls": [group],
        "networkConfig": {
            "podIpv4CidrBlock": "10.92.0.0/14",
            "podRange": f"{shown.name}-pods",
            "subnetwork": f"projects/{cluster.project}/regions/{cluster.location}/subnetworks/default",
        },
        "podIpv4CidrSize": 24,
        "selfLink": f"{CONTAINER}/{cluster.pool_path(shown.name)}",
        "status": str(shown.status),
    }
    if conditions:
        view["conditions"] = conditions
        view["statusMessage"] = shown.conditions[0].message
    return view


def condition(one: model.Condition) -> Json:
    return {"code": one.code, "message": one.message, "canonicalCode": one.canonical}


def cluster(shown: model.Cluster, clock: clocks.Clock) -> Json:
    """Return a Cluster with its node pools."""
    pools = list(shown.pools.values())
    slices = {"enabled": True} if shown.slice_controller else {}
    view: Json = {
        "addonsConfig": {
            "gcePersistentDiskCsiDriverConfig": {"enabled": True},
            "kubernetesDashboard": {"disabled": True},
            "networkPolicyConfig": {"disabled": True},
            "sliceControllerConfig": slices,
        },
        "autopilot": {},
        "createTime": times.rfc3339(clock, shown.created_s),
        "currentMasterVersion": shown.version,
        "currentNodeVersion": shown.version,
        "defaultMaxPodsConstraint": {"maxPodsPerNode": "110"},
        "endpoint": "127.0.0.1",
        "etag": etag(shown.name, shown.slice_controller, shown.reconciling, len(pools)),
        "id": partitions.opaque_id(shown.path) + partitions.opaque_id("2", shown.path),
        "initialClusterVersion": shown.version,
        "location": shown.location,
        "locations": list(shown.zones),
        "name": shown.name,
        "network": "default",
        "releaseChannel": {"channel": "RAPID"},
        "selfLink": f"{CONTAINER}/{shown.path}",
        "status": "RECONCILING" if shown.reconciling else "RUNNING",
        "subnetwork": "default",
        "zone": shown.location,
    }
    if pools:
        view["currentNodeCount"] = sum(len(one.joined) for one in pools)
        view["nodePools"] = [pool(shown, one) for one in pools]
    return view


def operation(owner: model.Cluster, shown: operations.Operation, clock: clocks.Clock) -> Json:
    """Return an Operation. The location is named by `zone`, even for a regional cluster."""
    number = projects.number(owner.project)
    place = f"projects/{number}/locations/{owner.location}"
    target = f"{place}/clusters/{owner.name}"
    if shown.pool is not None:
        target += f"/nodePools/{shown.pool}"
    view: Json = {
        "name": shown.name,
        "operationType": shown.kind,
        "selfLink": f"{CONTAINER}/{place}/operations/{shown.name}",
        "startTime": times.rfc3339(clock, shown.started_s),
        "status": "RUNNING" if shown.running else "DONE",
        "targetLink": f"{CONTAINER}/{target}",
        "zone": owner.location,
    }
    metrics = shown.progress() if shown.progress is not None else shown.final
    if metrics is not None:
        view["progress"] = {"metrics": list(_metrics(metrics))}
    if shown.ended_s is not None:
        view["endTime"] = times.rfc3339(clock, shown.ended_s)
    if shown.failure is not None:
        view["error"] = {"code": shown.failure.code, "message": shown.failure.message}
        view["statusMessage"] = shown.failure.message
    return view


def _metrics(values: dict[str, int]) -> Iterable[Json]:
    return ({"name": name, "intValue": str(value)} for name, value in values.items())
