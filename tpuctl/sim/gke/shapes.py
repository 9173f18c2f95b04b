"""The bodies of GKE requests: which fields there are and which the simulator acts upon.

Field names are those of the published v1 API.
"""

from __future__ import annotations

from tpuctl.sim.googleapis import fields
from tpuctl.sim.googleapis.fields import Message, flag, int64_text, integer, list_of, text, text_map

RESERVATION_TYPES = {
    "UNSPECIFIED": 0,
    "NO_RESERVATION": 1,
    "ANY_RESERVATION": 2,
    "SPECIFIC_RESERVATION": 3,
    "ANY_RESERVATION_THEN_FAIL": 4,
}
STRATEGIES = {"NODE_POOL_UPDATE_STRATEGY_UNSPECIFIED": 0, "BLUE_GREEN": 2, "SURGE": 3, "SHORT_LIVED": 5}
PLACEMENTS = {"TYPE_UNSPECIFIED": 0, "COMPACT": 1}


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_RESERVATION_AFFINITY = Message(
    {"consumeReservationType": fields.word(RESERVATION_TYPES), "key": text, "values": list_of(text)}
)
_SHIELDED = Message({"enableSecureBoot": flag, "enableIntegrityMonitoring": flag})

_NODE_CONFIG = Message(
    {
        "machineType": text,
        "diskSizeGb": integer,
        "diskType": text,
        "imageType": text,
        "oauthScopes": list_of(text),
        "serviceAccount": text,
        "metadata": text_map,
        "labels": text_map,
        "resourceLabels": text_map,
        "tags": list_of(text),
        "reservationAffinity": _RESERVATION_AFFINITY,
        "gvnic": Message({"enabled": flag}),
        "shieldedInstanceConfig": _SHIELDED,
    },
    _names(
        "nodeImageConfig localSsdCount preemptible accelerators minCpuPlatform workloadMetadataConfig taints "
        "sandboxConfig nodeGroup linuxNodeConfig kubeletConfig bootDiskKmsKey gcfsConfig "
        "advancedMachineFeatures spot confidentialNodes fastSocket loggingConfig windowsNodeConfig "
        "localNvmeSsdBlockConfig ephemeralStorageLocalSsdConfig soleTenantConfig containerdConfig "
        "resourceManagerTags enableConfidentialStorage secondaryBootDisks storagePools "
        "secondaryBootDiskUpdateStrategy gpuDirectConfig maxRunDuration localSsdEncryptionMode "
        "effectiveCgroupMode flexStart bootDisk consolidationDelay taintConfig"
    ),
)

NODE_POOL = Message(
    {
        "name": text,
        "config": _NODE_CONFIG,
        "initialNodeCount": integer,
        "locations": list_of(text),
        "version": text,
        "management": Message({"autoRepair": flag, "autoUpgrade": flag}, _names("upgradeOptions")),
        "maxPodsConstraint": Message({"maxPodsPerNode": int64_text}),
        "upgradeSettings": Message(
            {"maxSurge": integer, "maxUnavailable": integer, "strategy": fields.word(STRATEGIES)},
            _names("blueGreenSettings"),
        ),
        "placementPolicy": Message(
            {"type": fields.word(PLACEMENTS), "tpuTopology": text, "policyName": text}
        ),
    },
    _names(
        "networkConfig selfLink instanceGroupUrls status statusMessage autoscaling conditions "
        "podIpv4CidrSize updateInfo etag queuedProvisioning bestEffortProvisioning nodeDrainConfig "
        "maintenancePolicy kubeletCertInfo"
    ),
)

_LEGACY = {"projectId": text, "zone": text, "clusterId": text}
"""Deprecated fields that repeat the path; clients leave them out or send them empty."""

CREATE_NODE_POOL = Message({**_LEGACY, "parent": text, "nodePool": NODE_POOL})
SET_SIZE = Message({**_LEGACY, "nodePoolId": text, "name": text, "nodeCount": integer})

_ADDONS = Message(
    {"sliceControllerConfig": Message({"enabled": flag})},
    _names(
        "httpLoadBalancing horizontalPodAutoscaling kubernetesDashboard networkPolicyConfig cloudRunConfig "
        "dnsCacheConfig configConnectorConfig gcePersistentDiskCsiDriverConfig gcpFilestoreCsiDriverConfig "
        "gkeBackupAgentConfig gcsFuseCsiDriverConfig statefulHaConfig parallelstoreCsiDriverConfig "
        "rayOperatorConfig highScaleCheckpointingConfig lustreCsiDriverConfig podSnapshotConfig "
        "slurmOperatorConfig agentSandboxConfig nodeReadinessConfig"
    ),
)

_CLUSTER_UPDATE = Message(
    {"desiredAddonsConfig": _ADDONS},
    _names(
        "desiredNodeVersion desiredMonitoringService desiredNodePoolId desiredImageType desiredImage "
        "desiredImageProject desiredDatabaseEncryption desiredWorkloadIdentityConfig desiredMeshCertificates "
        "desiredShieldedNodes desiredCostManagementConfig desiredDnsConfig desiredNodePoolAutoscaling "
        "desiredLocations desiredMasterAuthorizedNetworksConfig desiredClusterAutoscaling "
        "desiredBinaryAuthorization desiredLoggingService desiredResourceUsageExportConfig "
        "desiredVerticalPodAutoscaling desiredPrivateClusterConfig desiredIntraNodeVisibilityConfig "
        "desiredDefaultSnatStatus desiredReleaseChannel desiredL4ilbSubsettingConfig desiredDatapathProvider "
        "desiredPrivateIpv6GoogleAccess desiredNotificationConfig desiredAuthenticatorGroupsConfig "
        "desiredLoggingConfig desiredMonitoringConfig desiredIdentityServiceConfig "
        "desiredServiceExternalIpsConfig desiredEnablePrivateEndpoint desiredDefaultEnablePrivateNodes "
        "desiredControlPlaneEndpointsConfig desiredMasterVersion desiredGcfsConfig desiredStackType "
        "desiredNodePoolAutoConfigNetworkTags desiredPodAutoscaling desiredGatewayApiConfig etag "
        "desiredNodePoolLoggingConfig desiredFleet desiredSecurityPostureConfig desiredContainerdConfig "
        "desiredNetworkPerformanceConfig desiredSecretManagerConfig desiredNodeKubeletConfig "
        "desiredNodePoolAutoConfigKubeletConfig userManagedKeysConfig gkeAutoUpgradeConfig"
    ),
)

UPDATE_CLUSTER = Message({**_LEGACY, "name": text, "update": _CLUSTER_UPDATE})
