"""Is a request for a TPU7x node pool one that GKE would take?

Only pools for dynamic slicing exist here: `tpu7x-standard-4t`, a specific reservation's block or sub-block
and a PROVISION_ONLY workload policy. Where a rule is published without its error text, the text is ours.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from tpuctl.sim import partitions
from tpuctl.sim.googleapis import errors

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.sim import hardware
    from tpuctl.sim.gke import model

MACHINE_TYPE = "tpu7x-standard-4t"
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
NAME_MAX = 40
"""Characters in a pool's name. Published."""
PODS_PER_NODE = range(8, 257)
"""Bounds of maxPodsPerNode on a Standard cluster. Published for GKE in general."""

_PATH = re.compile(
    r"(?:projects/(?P<project>[^/]+)/reservations/)?(?P<reservation>[^/]+)"
    r"/reservationBlocks/(?P<block>[^/]+)(?:/reservationSubBlocks/(?P<subblock>[^/]+))?"
)


@dataclasses.dataclass(frozen=True)
class Target:
    """Where in the reservation the pool shall be."""

    reservation: hardware.Reservation
    block: hardware.Block
    subblock: hardware.SubBlock | None
    """None: any free cube of the block."""


def check_pool(
    pool: dict[str, Any],
    *,
    cluster: model.Cluster,
    machines: hardware.Hardware,
    find_policy: Callable[[str], dict[str, Any] | None],
) -> Target:
    """Return where the pool shall be; ApiError if the request breaks a rule."""
    _check_name(pool.get("name", ""))
    _check_machine(pool, cluster)
    _check_pods(pool)
    _check_upgrade(pool.get("upgradeSettings", {}))
    check_policy(pool.get("placementPolicy", {}), find_policy)
    target = _target(pool["config"].get("reservationAffinity", {}), cluster, machines)
    _check_zone(pool, cluster, target)
    return target


def _check_name(name: str) -> None:
    if not NAME.fullmatch(name) or len(name) > NAME_MAX:
        raise errors.invalid(
            f'Invalid value for field "node_pool.name": "{name}". It has 1 to {NAME_MAX} lower-case letters, '
            "digits and dashes, must start with a letter and not end with a dash."
        )


def _check_machine(pool: dict[str, Any], cluster: model.Cluster) -> None:
    config = pool.get("config", {})
    machine = config.get("machineType", "")
    if machine != MACHINE_TYPE:
        raise errors.invalid(f'Invalid machine type "{machine}": only {MACHINE_TYPE} is available here.')
    if config.get("imageType", "COS_CONTAINERD").upper() != "COS_CONTAINERD":
        raise errors.invalid("Dynamic slicing needs the image type COS_CONTAINERD.")
    count = pool.get("initialNodeCount", 0)
    if not 1 <= count <= partitions.CUBE_HOSTS:
        raise errors.invalid(
            f"Invalid initial_node_count {count}: a 4x4x4 pool has 1 to {partitions.CUBE_HOSTS}."
        )
    if pool.get("version", cluster.version) != cluster.version:
        raise errors.invalid(f'Node version "{pool["version"]}" is unsupported.')


def _check_pods(pool: dict[str, Any]) -> None:
    pods = int(pool.get("maxPodsConstraint", {}).get("maxPodsPerNode", 110))
    if pods not in PODS_PER_NODE:
        raise errors.invalid(f"Invalid max_pods_per_node {pods}: it must be between 8 and 256.")


def _check_upgrade(settings: dict[str, Any]) -> None:
    if settings.get("strategy") in {"BLUE_GREEN", "SHORT_LIVED"}:
        raise errors.invalid("Blue-green upgrades are not supported with compact placement.")


def check_management(pool: dict[str, Any], channel: str) -> None:
    """ApiError if the pool turns off what clusters in a release channel have on.

    Of a `management` that is there, a flag that is left out is false: the clients leave false out of JSON.
    """
    management = pool.get("management")
    if management is None:
        return
    flags = {"autoUpgrade": "auto_upgrade", "autoRepair": "auto_repair"}
    off = " and ".join(word for key, word in flags.items() if not management.get(key, False))
    if off:
        raise errors.invalid(f"{off.capitalize()} cannot be false when release_channel {channel} is set.")


def check_policy(placement: dict[str, Any], find_policy: Callable[[str], dict[str, Any] | None]) -> None:
    """ApiError unless the placement names an existing workload policy for provision-only cubes."""
    if "tpuTopology" in placement or placement.get("type") == "COMPACT":
        raise errors.invalid("placement_policy: type and tpu_topology cannot be set with a workload policy.")
    name = placement.get("policyName", "")
    policy = find_policy(name) if name else None
    if policy is None:
        raise errors.invalid(f'placement_policy: resource policy "{name}" was not found in the region.')
    wanted = {
        "type": "HIGH_THROUGHPUT",
        "acceleratorTopology": "4x4x4",
        "acceleratorTopologyMode": "PROVISION_ONLY",
    }
    given = policy.get("workloadPolicy", {})
    if any(given.get(key) != value for key, value in wanted.items()):
        raise errors.invalid(
            f'placement_policy: resource policy "{name}" is not a HIGH_THROUGHPUT workload policy with '
            "topology 4x4x4 and mode PROVISION_ONLY; other pools are not available here."
        )


def _target(affinity: dict[str, Any], cluster: model.Cluster, machines: hardware.Hardware) -> Target:
    if affinity.get("consumeReservationType") != "SPECIFIC_RESERVATION":
        raise errors.invalid("Provision-only pools need reservation_affinity SPECIFIC_RESERVATION.")
    if affinity.get("key") != RESERVATION_KEY:
        raise errors.invalid(f"reservation_affinity.key must be {RESERVATION_KEY}.")
    values = affinity.get("values", [])
    match = _PATH.fullmatch(values[0]) if len(values) == 1 else None
    if match is None:
        raise errors.invalid(
            f"reservation_affinity.values {values} must be one path of the form projects/PROJECT/"
            "reservations/RESERVATION/reservationBlocks/BLOCK[/reservationSubBlocks/SUB_BLOCK]."
        )
    return _find_target(match, cluster, machines)


def _find_target(match: re.Match[str], cluster: model.Cluster, machines: hardware.Hardware) -> Target:
    missing = errors.invalid(f'The reservation path "{match[0]}" was not found.')
    reservation = machines.reservations.get(match["reservation"])
    if reservation is None or (match["project"] or cluster.project) != reservation.project:
        raise missing
    blocks = {block.name: block for block in reservation.blocks}
    block = blocks.get(match["block"])
    if block is None:
        raise missing
    if match["subblock"] is None:
        return Target(reservation, block, None)
    cubes = {cube.name: cube for cube in block.subblocks}
    if match["subblock"] not in cubes:
        raise missing
    return Target(reservation, block, cubes[match["subblock"]])


def _check_zone(pool: dict[str, Any], cluster: model.Cluster, target: Target) -> None:
    zones = pool.get("locations", list(cluster.zones))
    if len(zones) != 1:
        raise errors.invalid(f"locations: compact placement needs exactly one zone, not {len(zones)}.")
    if zones[0] not in cluster.zones:
        raise errors.invalid(f'locations: "{zones[0]}" is not a zone of {cluster.location}.')
    if zones[0] != target.reservation.zone:
        raise errors.invalid(
            f"locations: the reservation is in {target.reservation.zone}, not in {zones[0]}."
        )
