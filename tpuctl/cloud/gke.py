"""Cluster, node pools and operations: the Pools port on google-cloud-container over REST.

Field choices for node pools follow GKE's dynamic slicing guide: 16 hosts of `tpu7x-standard-4t`, a specific
reservation down to the sub-block, a workload policy, nothing about topology on the pool itself.
"""

from __future__ import annotations

import contextlib
import functools
import re
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import googleapis
from tpuctl.model import errors, fleet, states
from tpuctl.ops import ports

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator, Sequence

    from tpuctl.ops import context as context_module

MACHINE_TYPE = "tpu7x-standard-4t"
RESERVATION_KEY = "compute.googleapis.com/reservation-name"
NODE_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
"""Through the API a pool without scopes gets nodes that cannot pull images; what they may do is up to IAM."""
_CHANNEL_RULE = re.compile(r"(?i)auto_?(?:upgrade|repair)\b.{0,60}cannot be false.{0,60}release_?channel")
"""What GKE answers to pools without auto-upgrade or auto-repair in a release channel, by public reports."""
_NO_NODE_UPGRADES = frozenset({"NO_UPGRADES", "NO_MINOR_OR_NODE_UPGRADES"})
CREATE_POOL, DELETE_POOL, UPDATE_CLUSTER = "CREATE_NODE_POOL", "DELETE_NODE_POOL", "UPDATE_CLUSTER"


class Aim(NamedTuple):
    """What part of a reservation a node pool is made for; empty texts where the path ends earlier."""

    reservation: str
    """A name, or `projects/P/reservations/R` if the reservation is another project's."""
    block: str = ""
    sub_block: str = ""


class GkePools:
    """The Pools port."""

    def __init__(self, context: context_module.Context, apis: googleapis.GoogleApis) -> None:
        self._context = context
        self._apis = apis
        self._parent = f"projects/{context.project}/locations/{context.location}"
        self._cluster = f"{self._parent}/clusters/{context.cluster}"

    def cluster(self) -> ports.Cluster:
        what = f"read cluster {self._context.cluster}"
        with self._explained():
            found = self._read(what, lambda: self._call("get_cluster", {"name": self._cluster}))
        return ports.Cluster(
            name=found.name,
            version=found.current_master_version,
            status=googleapis.word(found, "status"),
            slice_controller=bool(found.addons_config.slice_controller_config.enabled),
            release_channel=googleapis.word(found.release_channel, "channel"),
            excludes_node_upgrades=any(
                _keeps_nodes(window, self._apis.observed_at)
                for window in found.maintenance_policy.window.maintenance_exclusions.values()
            ),
        )

    def enable_slice_controller(self) -> ports.Operation:
        """Start it; an update of the cluster that runs already is returned instead after an open outcome."""
        update = {"desired_addons_config": {"slice_controller_config": {"enabled": True}}}

        def look() -> ports.Operation | None:
            found = self._call("get_cluster", {"name": self._cluster})
            if not found.addons_config.slice_controller_config.enabled:
                return self._newest(UPDATE_CLUSTER, self._context.cluster, running=True)
            done = self._newest(UPDATE_CLUSTER, self._context.cluster)
            return done or ports.Operation(
                "", UPDATE_CLUSTER, self._context.cluster, ports.OperationStatus.DONE
            )

        return self._apis.write(
            lambda: _operation(self._call("update_cluster", {"name": self._cluster, "update": update})),
            look=look,
            what="turn the slice controller on",
        )

    def list(self) -> Sequence[fleet.NodePool]:
        """All node pools of the cluster, by name; those not made for a cube have an empty `reservation`."""

        def read() -> Sequence[fleet.NodePool]:
            found = self._call("list_node_pools", {"parent": self._cluster})
            return tuple(sorted((self._pool(item) for item in found.node_pools), key=lambda pool: pool.name))

        with self._explained():
            return self._apis.listing("node pools", read, what="list node pools")

    def create(self, spec: fleet.PoolSpec) -> ports.Operation:
        """Start the creation; after an open outcome the operation that makes it is looked for by its name."""
        request = {"parent": self._cluster, "node_pool": self._wanted(spec)}
        with _channel_explained():
            return self._apis.write(
                lambda: _operation(self._call("create_node_pool", request)),
                look=lambda: self._look_for_new(spec.name),
                what=f"create node pool {spec.name}",
            )

    def delete(self, name: str) -> ports.Operation:
        """Start the deletion."""
        return self._apis.write(
            lambda: _operation(self._call("delete_node_pool", {"name": self._pool_path(name)})),
            look=lambda: self._look_for_end(name),
            what=f"delete node pool {name}",
        )

    def operations(self) -> Sequence[ports.Operation]:
        """The operations on this cluster and its pools, oldest first."""
        found: Sequence[ports.Operation] = self._read("list operations", self._operations)
        return found

    def operation(self, name: str) -> ports.Operation:
        path = f"{self._parent}/operations/{name}"
        found = self._read(f"read operation {name}", lambda: self._call("get_operation", {"name": path}))
        return _operation(found)

    def _operations(self) -> Sequence[ports.Operation]:
        found = self._call("list_operations", {"parent": self._parent})
        if found.missing_zones:
            raise errors.Unavailable(
                f"cannot list operations: zones {', '.join(found.missing_zones)} gave no answer; "
                "nothing was assumed"
            )
        ours = [item for item in found.operations if _cluster_of(item.target_link) == self._context.cluster]
        return tuple(_operation(item) for item in sorted(ours, key=lambda item: (item.start_time, item.name)))

    def _newest(self, kind: str, target: str, *, running: bool = False) -> ports.Operation | None:
        found = [item for item in self._operations() if (item.kind, item.target) == (kind, target)]
        if running:
            found = [item for item in found if item.status is ports.OperationStatus.RUNNING]
        return found[-1] if found else None

    def _look_for_new(self, name: str) -> ports.Operation | None:
        if self._find(name) is None:
            return self._newest(CREATE_POOL, name, running=True)
        operation = self._newest(CREATE_POOL, name)
        if operation is None:
            raise errors.Unavailable(
                f"node pool {name} exists, but the operation that makes it is not listed"
            )
        return operation

    def _look_for_end(self, name: str) -> ports.Operation | None:
        operation = self._newest(DELETE_POOL, name)
        if self._find(name) is None:
            return operation or ports.Operation("", DELETE_POOL, name, ports.OperationStatus.DONE)
        return operation if operation and operation.status is ports.OperationStatus.RUNNING else None

    def _find(self, name: str) -> Any | None:
        try:
            return self._call("get_node_pool", {"name": self._pool_path(name)})
        except cloud_errors.Refused as refused:
            if refused.status == cloud_errors.NOT_FOUND:
                return None
            raise

    def _pool_path(self, name: str) -> str:
        return f"{self._cluster}/nodePools/{name}"

    def _wanted(self, spec: fleet.PoolSpec) -> dict[str, Any]:
        aim = Aim(spec.reservation, spec.block, spec.sub_block)
        return {
            "name": spec.name,
            "locations": [self._context.zone],
            "initial_node_count": spec.hosts,
            "config": {
                "machine_type": MACHINE_TYPE,
                "oauth_scopes": [NODE_SCOPE],
                "reservation_affinity": {
                    "consume_reservation_type": "SPECIFIC_RESERVATION",
                    "key": RESERVATION_KEY,
                    "values": [reservation_path(aim, self._context.project)],
                },
            },
            "placement_policy": {"policy_name": spec.policy},
            "upgrade_settings": {"max_surge": spec.max_surge, "max_unavailable": spec.max_unavailable},
            **_management(spec),
        }

    def _pool(self, item: Any) -> fleet.NodePool:
        affinity = item.config.reservation_affinity
        status = googleapis.word(item, "status")
        aim = parse_reservation_path(affinity.values[0] if affinity.values else "", self._context.project)
        return fleet.NodePool(
            name=item.name,
            status=states.pool_status(status),
            raw_status=status,
            sub_block=aim.sub_block,
            block=aim.block,
            reservation=aim.reservation,
            policy=item.placement_policy.policy_name.rsplit("/", 1)[-1],
            wanted_hosts=item.initial_node_count,
            conditions=tuple(_condition(condition) for condition in item.conditions),
            auto_upgrade=_upgrades_itself(item),
        )

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Reads inside can only fail to find the cluster: then a wrong location is told from a wrong name."""
        try:
            yield
        except errors.NotFound as missing:
            raise errors.NotFound(missing.message, hint=_where_to_look(self._context)) from missing

    def _read(self, what: str, attempt: Any) -> Any:
        return self._apis.read(attempt, what=what)

    def _call(self, method: str, request: dict[str, Any]) -> Any:
        """One call of the client, without its own retries."""
        return getattr(self._client, method)(request=request, retry=None, timeout=googleapis.TIMEOUT_S)

    @functools.cached_property
    def _client(self) -> Any:
        from google.cloud import container_v1  # noqa: PLC0415 - slow to import
        from google.cloud.container_v1.services.cluster_manager import transports  # noqa: PLC0415

        return self._apis.client(
            container_v1.ClusterManagerClient,
            transports.ClusterManagerRestTransport,
            self._context.endpoint_container,
        )


def reservation_path(aim: Aim, project: str) -> str:
    """`projects/P/reservations/R/reservationBlocks/B/reservationSubBlocks/S`, as far as `aim` goes."""
    path = aim.reservation if "/" in aim.reservation else f"projects/{project}/reservations/{aim.reservation}"
    if aim.block:
        path += f"/reservationBlocks/{aim.block}"
    if aim.block and aim.sub_block:
        path += f"/reservationSubBlocks/{aim.sub_block}"
    return path


def parse_reservation_path(path: str, project: str) -> Aim:
    """The parts of what `reservation_path` makes; also reads the short form that begins with the name."""
    parts = path.split("/")
    owner = project
    if parts[0] == "projects" and len(parts) > 3:  # noqa: PLR2004 - projects/P/reservations/R
        owner, parts = parts[1], parts[3:]
    rest = dict(zip(parts[1::2], parts[2::2], strict=False))
    name = parts[0] if owner == project or not parts[0] else f"projects/{owner}/reservations/{parts[0]}"
    return Aim(name, rest.get("reservationBlocks", ""), rest.get("reservationSubBlocks", ""))


def _management(spec: fleet.PoolSpec) -> dict[str, Any]:
    """The field for auto-repair and auto-upgrade; nothing if both are as GKE has them by itself.

    The API knows the two together only: a flag that is left out beside the other one means false.
    """
    if spec.auto_repair and spec.auto_upgrade is None:
        return {}
    return {"management": {"auto_repair": spec.auto_repair, "auto_upgrade": bool(spec.auto_upgrade)}}


def _upgrades_itself(pool: Any) -> bool:
    if not pool.management.auto_upgrade:
        return False
    # A pool can have an exclusion of its own, whatever the cluster has.
    return not pool.maintenance_policy.exclusion_until_end_of_support.enabled


def _keeps_nodes(window: Any, now: datetime.datetime) -> bool:
    """If true, a maintenance exclusion forbids upgrades of nodes now; without a scope it forbids all."""
    options = window.maintenance_exclusion_options
    if googleapis.word(options, "scope") not in _NO_NODE_UPGRADES:
        return False
    has_begun = window.start_time is None or window.start_time <= now
    if googleapis.word(options, "end_time_behavior") == "UNTIL_END_OF_SUPPORT":
        return has_begun
    return has_begun and window.end_time is not None and now < window.end_time


@contextlib.contextmanager
def _channel_explained() -> Iterator[None]:
    """A pool that the cluster's release channel forbids: the error says what to do instead."""
    try:
        yield
    except (errors.UsageError, errors.Conflict) as refused:
        if not _CHANNEL_RULE.search(refused.message):
            raise
        raise errors.UsageError(
            f"{refused.message.rstrip('.')}: leave autoRepair and autoUpgrade out of the fleet file, and "
            "keep node upgrades away with a maintenance exclusion of the cluster",
            hint="tpuctl nodepool list shows the command for an exclusion while there is none",
            details=refused.details,
        ) from refused


def _where_to_look(context: context_module.Context) -> str:
    """A regional cluster is not found by one of its zones, nor a zonal one by its region."""
    other = context.region if context.location == context.zone else context.zone
    kind = "regional" if context.location == context.zone else "zonal"
    return (
        f"context '{context.name}' says location {context.location}; "
        f"a {kind} cluster needs location {other}; see: gcloud container clusters list"
    )


def _operation(item: Any) -> ports.Operation:
    error = item.error.message or (f"code {item.error.code}" if item.error.code else "")
    # Only DONE is an end: a status that this version does not know is waited for.
    done = googleapis.word(item, "status") == "DONE"
    failed = ports.OperationStatus.FAILED if error else ports.OperationStatus.DONE
    return ports.Operation(
        name=item.name,
        kind=googleapis.word(item, "operation_type"),
        target=item.target_link.rsplit("/", 1)[-1],
        status=failed if done else ports.OperationStatus.RUNNING,
        error=cloud_errors.clean(error),
    )


def _cluster_of(target_link: str) -> str:
    """The cluster in `.../clusters/C[/nodePools/N]`; the project before it may be written as a number."""
    _, _, rest = target_link.partition("/clusters/")
    return rest.split("/")[0]


def _condition(item: Any) -> str:
    # `code` is the older field: new conditions have the canonical code only.
    code = googleapis.word(item, "code")
    word = googleapis.word(item, "canonical_code") if code == "UNKNOWN" else code
    return f"{word}: {cloud_errors.clean(item.message)}"
