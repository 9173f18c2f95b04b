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
    "kubeletConfig": {"insecureKubeletReadonlyPortEnabled": False},
    "metadata": {"disable-legacy-endpoints": "true"},
    "oauthScopes": _SCOPES,
    "serviceAccount": "default",
    "shieldedInstanceConfig": {"enableIntegrityMonitoring": True},
    "windowsNodeConfig": {},
}
_POD_RANGE_PREFIX = 14
_POD_RANGE = f"10.92.0.0/{_POD_RANGE_PREFIX}"
_SERVICE_RANGE = "34.118.224.0/20"
_CLUSTER_DEFAULTS: Json = {
    "autopilot": {},
    "clusterIpv4Cidr": _POD_RANGE,
    "databaseEncryption": {"currentState": "CURRENT_STATE_DECRYPTED", "state": "DECRYPTED"},
    "defaultMaxPodsConstraint": {"maxPodsPerNode": "110"},
    "endpoint": "127.0.0.1",
    "ipAllocationPolicy": {
        "clusterIpv4Cidr": _POD_RANGE,
        "clusterIpv4CidrBlock": _POD_RANGE,
        "servicesIpv4Cidr": _SERVICE_RANGE,
        "servicesIpv4CidrBlock": _SERVICE_RANGE,
        "stackType": "IPV4",
        "useIpAliases": True,
    },
    "legacyAbac": {},
    "loggingService": "logging.googleapis.com/kubernetes",
    "monitoringService": "monitoring.googleapis.com/kubernetes",
    "network": "default",
    "servicesIpv4Cidr": _SERVICE_RANGE,
    "shieldedNodes": {"enabled": True},
    "subnetwork": "default",
}
"""What a cluster says that nothing here changes."""


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
    config = filled["config"] = {**_CONFIG_DEFAULTS, **request["config"]}
    config["bootDisk"] = {"diskType": config["diskType"], "sizeGb": str(config["diskSizeGb"])}
    filled["upgradeSettings"] = {"strategy": "SURGE", **filled["upgradeSettings"]}
    return filled


def pool(cluster: model.Cluster, shown: model.NodePool) -> Json:
    """Return a NodePool; false and zero are left out, as the service does."""
    conditions = [condition(one) for one in shown.conditions]
    view: Json = {
        **shown.request,
        "management": {key: flag for key, flag in shown.request["management"].items() if flag},
        "etag": etag(shown.name, shown.size, shown.status, shown.conditions, shown.created_s),
        "instanceGroupUrls": [_group(cluster, shown)],
        "networkConfig": _pool_network(cluster, shown),
        "podIpv4CidrSize": _pod_prefix(shown.max_pods),
        "selfLink": f"{CONTAINER}/{cluster.pool_path(shown.name)}",
        "status": str(shown.status),
    }
    if conditions:
        view["conditions"] = conditions
        view["statusMessage"] = shown.conditions[0].message
    return view


def _group(cluster: model.Cluster, shown: model.NodePool) -> str:
    return f"{COMPUTE}/projects/{cluster.project}/zones/{shown.zone}/instanceGroupManagers/{shown.group}"


def _pool_network(cluster: model.Cluster, shown: model.NodePool) -> Json:
    tag = partitions.opaque_id("pod range", cluster.path, shown.name)[:8]
    view: Json = {
        "podIpv4CidrBlock": _POD_RANGE,
        "podRange": f"{shown.name}-pods-{tag}",
        "subnetwork": _subnetwork(cluster),
    }
    used = len(shown.joined) * 2.0 ** (_POD_RANGE_PREFIX - _pod_prefix(shown.max_pods))
    return {**view, "podIpv4RangeUtilization": round(used, 4)} if used else view


def _subnetwork(cluster: model.Cluster) -> str:
    return f"projects/{cluster.project}/regions/{cluster.location}/subnetworks/default"


def _pod_prefix(pods: int) -> int:
    """Prefix length of a node's pod range: at least twice as many addresses as pods. Published."""
    return 31 - (pods - 1).bit_length()


def condition(one: model.Condition) -> Json:
    return {"code": one.code, "message": one.message, "canonicalCode": one.canonical}


def cluster(shown: model.Cluster, clock: clocks.Clock) -> Json:
    """Return a Cluster with its node pools."""
    pools = list(shown.pools.values())
    slices = {"enabled": True} if shown.slice_controller else {}
    view: Json = {
        **_CLUSTER_DEFAULTS,
        "addonsConfig": {
            "gcePersistentDiskCsiDriverConfig": {"enabled": True},
            "kubernetesDashboard": {"disabled": True},
            "networkPolicyConfig": {"disabled": True},
            "sliceControllerConfig": slices,
        },
        "createTime": times.rfc3339(clock, shown.created_s),
        "currentMasterVersion": shown.version,
        "currentNodeVersion": shown.version,
        "etag": etag(shown.name, shown.slice_controller, shown.reconciling, len(pools)),
        "id": partitions.opaque_id(shown.path) + partitions.opaque_id("2", shown.path),
        "initialClusterVersion": shown.version,
        "labelFingerprint": etag("labels", shown.path),
        "location": shown.location,
        "locations": list(shown.zones),
        "name": shown.name,
        "networkConfig": {
            "network": f"projects/{shown.project}/global/networks/default",
            "subnetwork": _subnetwork(shown),
        },
        "releaseChannel": {"channel": shown.release_channel},
        "selfLink": f"{CONTAINER}/{shown.path}",
        "status": "RECONCILING" if shown.reconciling else "RUNNING",
        "zone": shown.location,
    }
    if shown.maintenance_policy is not None:
        view["maintenancePolicy"] = shown.maintenance_policy
    if pools:
        view["currentNodeCount"] = sum(len(one.joined) for one in pools)
        view["instanceGroupUrls"] = [_group(shown, one) for one in pools]
        view["nodePools"] = [pool(shown, one) for one in pools]
    return view


def exclusion_of_node_upgrades(clock: clocks.Clock) -> Json:
    """Return a MaintenancePolicy without node upgrades from now until the end of support."""
    options = {"scope": "NO_MINOR_OR_NODE_UPGRADES", "endTimeBehavior": "UNTIL_END_OF_SUPPORT"}
    # A Timestamp, not a text as the other times of a cluster: whole seconds have no fraction.
    start = times.rfc3339(clock, clock.now_s).replace(".000000Z", "Z")
    window = {"startTime": start, "maintenanceExclusionOptions": options}
    return {"window": {"maintenanceExclusions": {"no-node-upgrades": window}}}


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
    # Recorded operations on node pools say nothing of progress when they begin and when they are done; in
    # between, the metrics are those of the API's documentation.
    if shown.progress is not None and clock.now_s > shown.started_s:
        view["progress"] = {"metrics": list(_metrics(shown.progress()))}
    if shown.ended_s is not None:
        view["endTime"] = times.rfc3339(clock, shown.ended_s)
    if shown.failure is not None:
        view["error"] = {"code": shown.failure.code, "message": shown.failure.message}
        view["statusMessage"] = shown.failure.message
    return view


def _metrics(values: dict[str, int]) -> Iterable[Json]:
    return ({"name": name, "intValue": str(value)} for name, value in values.items())
