"""GKE v1 over REST, for one cluster."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from tpuctl.sim.gke import model, operations, pools, requests, shapes, views
from tpuctl.sim.googleapis import endpoint, errors, projects

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette import routing

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import hardware

_ZONE = re.compile(r".*-[a-z]")
_LOCATION = "/v1/projects/{project}/locations/{location}"
_CLUSTER = f"{_LOCATION}/clusters/{{cluster}}"
_POOL = f"{_CLUSTER}/nodePools/{{pool}}"
_OPERATION = f"{_LOCATION}/operations/{{operation}}"


class GkeApi:
    """The API and the cluster behind it. Call it from the server's thread only."""

    def __init__(
        self,
        *,
        machines: hardware.Hardware,
        behaviour: behaviours.Behaviour,
        project: str,
        location: str,
        zone: str,
        cluster: str,
        authenticate: endpoint.Authenticate,
        find_policy: Callable[[str], dict[str, Any] | None],
        on_join: Callable[[model.NodePool, hardware.Host], None],
        on_leave: Callable[[model.NodePool, hardware.Host], None],
        slices_using: Callable[[str | None], list[str]],
        on_slice_controller: Callable[[bool], None],
        slice_controller: bool = False,
    ) -> None:
        """Make a cluster without pools.

        `find_policy` gives a resource policy (as in the Compute API) of the region by name. `slices_using`
        gives the names of the Slices on a pool, or of all Slices for None. `on_slice_controller` is called
        when the switch has been turned, not when the request comes; `slice_controller` is its first position.
        """
        self._clock = machines.clock
        self._behaviour = behaviour
        self._machines = machines
        self._find_policy = find_policy
        self._slices_using = slices_using
        self._on_slice_controller = on_slice_controller
        zones = tuple(sorted({zone, *(f"{location}-{letter}" for letter in "abc")}))
        self.cluster = model.Cluster(
            cluster, project, location, zones, behaviour.gke_version, self._clock.now_s, slice_controller
        )
        if behaviour.node_upgrades_excluded:
            self.cluster.maintenance_policy = views.exclusion_of_node_upgrades(self._clock)
        self.operations = operations.Operations(self._clock, behaviour, seed=machines.seed)
        self.pools = pools.Pools(
            self.cluster, machines, self.operations, behaviour, on_join=on_join, on_leave=on_leave
        )
        self._endpoint = endpoint.Endpoint("/v1", authenticate=authenticate, canonical=True)
        self.intercept = self._endpoint.intercept
        self._add_methods()

    def routes(self) -> list[routing.Route]:
        """Return what serves everything below /v1."""
        return self._endpoint.routes()

    def _add_methods(self) -> None:
        add = self._endpoint.add
        parent = ("parent", "projectId", "zone")
        add("GET", f"{_LOCATION}/clusters", self._list_clusters, query=parent)
        add("GET", _CLUSTER, self._get_cluster, query=("name",))
        add("PUT", _CLUSTER, self._update_cluster, body=shapes.UPDATE_CLUSTER)
        add("GET", f"{_CLUSTER}/nodePools", self._list_pools, query=parent)
        add("POST", f"{_CLUSTER}/nodePools", self._create_pool, body=shapes.CREATE_NODE_POOL)
        add("GET", _POOL, self._get_pool, query=("name",))
        add("DELETE", _POOL, self._delete_pool, query=("name",))
        add("POST", f"{_POOL}:setSize", self._resize_pool, body=shapes.SET_SIZE)
        add("GET", f"{_LOCATION}/operations", self._list_operations, query=parent)
        add("GET", _OPERATION, self._get_operation, query=("name",))

    # Clusters

    def _list_clusters(self, call: endpoint.Call) -> views.Json:
        self._check_project(call)
        if call.path["location"] not in {"-", self.cluster.location}:
            return {}
        return {"clusters": [views.cluster(self.cluster, self._clock)]}

    def _get_cluster(self, call: endpoint.Call) -> views.Json:
        self._check_cluster(call)
        return views.cluster(self.cluster, self._clock)

    def _update_cluster(self, call: endpoint.Call) -> views.Json:
        self._check_cluster(call)
        addons = call.body.get("update", {}).get("desiredAddonsConfig", {})
        if "sliceControllerConfig" not in addons:
            raise errors.invalid("Must specify a field to update.")
        # The clients leave false out of JSON: a config without `enabled` switches off.
        enabled = addons["sliceControllerConfig"].get("enabled", False)
        self.operations.check_cluster_free()
        if not enabled:
            self._check_no_slices()
        operation = self.operations.start("UPDATE_CLUSTER")
        self.cluster.reconciling = True
        self._clock.call_later(self._behaviour.cluster_update_s, lambda: self._updated(operation, enabled))
        return self._view(operation)

    def _check_no_slices(self) -> None:
        left = self._slices_using(None) if self._behaviour.controller_off_blocked_by_slices else []
        if left:
            raise errors.precondition(
                f"The slice controller cannot be disabled while Slices exist: {', '.join(sorted(left))}."
            )

    def _updated(self, operation: operations.Operation, enabled: bool) -> None:
        changed = self.cluster.slice_controller is not enabled
        self.cluster.slice_controller, self.cluster.reconciling = enabled, False
        self.operations.finish(operation)
        if changed:
            self._on_slice_controller(enabled)

    # Node pools

    def _list_pools(self, call: endpoint.Call) -> views.Json:
        self._check_cluster(call)
        pools_shown = [views.pool(self.cluster, pool) for pool in self.cluster.pools.values()]
        return {"nodePools": pools_shown} if pools_shown else {}

    def _get_pool(self, call: endpoint.Call) -> views.Json:
        return views.pool(self.cluster, self._pool(call))

    def _create_pool(self, call: endpoint.Call) -> views.Json:
        self._check_cluster(call)
        wanted = call.body.get("nodePool", {})
        target = requests.check_pool(
            wanted, cluster=self.cluster, machines=self._machines, find_policy=self._find_policy
        )
        if self._behaviour.channel_demands_management:
            requests.check_management(wanted, self.cluster.release_channel)
        name = wanted["name"]
        if name in self.cluster.pools:
            raise errors.ApiError(409, f"Already exists: {self.cluster.pool_path(name)}.")
        self.operations.check_pool_free(name)
        filled = views.with_defaults(wanted, self.cluster.version)
        return self._view(self.pools.create(filled, target))

    def _delete_pool(self, call: endpoint.Call) -> views.Json:
        pool = self._pool(call)
        self.operations.check_pool_free(pool.name)
        self._check_unused(pool)
        return self._view(self.pools.delete(pool))

    def _resize_pool(self, call: endpoint.Call) -> views.Json:
        pool = self._pool(call)
        size = call.body.get("nodeCount", 0)
        if pool.subblock is None:
            raise errors.precondition(f"Node pool {pool.name} has no nodes: it was refused by a stockout.")
        limit = len(pool.subblock.hosts)
        if not 0 <= size <= limit:
            raise errors.invalid(f"Invalid node_count {size}: this pool can have 0 to {limit} nodes.")
        self.operations.check_pool_free(pool.name)
        if size < pool.size:
            self._check_unused(pool)
        return self._view(self.pools.resize(pool, size))

    def _check_unused(self, pool: model.NodePool) -> None:
        using = self._slices_using(pool.name) if self._behaviour.pool_delete_blocked_by_slices else []
        if using:
            raise errors.precondition(
                f"Node pool {pool.name} is used by Slices: {', '.join(sorted(using))}. Delete them first."
            )

    # Operations

    def _list_operations(self, call: endpoint.Call) -> views.Json:
        self._check_project(call)
        if call.path["location"] not in {"-", self.cluster.location}:
            return {}
        shown = [self._view(operation) for operation in self.operations]
        return {"operations": shown} if shown else {}

    def _get_operation(self, call: endpoint.Call) -> views.Json:
        self._check_project(call)
        name = call.path["operation"]
        operation = self.operations.get(name)
        if operation is None or call.path["location"] != self.cluster.location:
            place = f"projects/{call.path['project']}/locations/{call.path['location']}"
            raise errors.ApiError(404, f"Not found: {place}/operations/{name}.")
        return self._view(operation)

    # What the paths name

    def _view(self, operation: operations.Operation) -> views.Json:
        return views.operation(self.cluster, operation, self._clock)

    def _check_project(self, call: endpoint.Call) -> None:
        project = call.path["project"]
        if project not in {self.cluster.project, projects.number(self.cluster.project)}:
            raise errors.ApiError(
                403, f'Permission denied on resource "projects/{project}" (or it may not exist).'
            )

    def _check_cluster(self, call: endpoint.Call) -> None:
        self._check_project(call)
        location, cluster = call.path["location"], call.path["cluster"]
        if (location, cluster) == (self.cluster.location, self.cluster.name):
            return
        # The service says "zones" of a location that is a zone, whatever the request said.
        kind = "zones" if _ZONE.fullmatch(location) else "locations"
        path = f"projects/{call.path['project']}/{kind}/{location}/clusters/{cluster}"
        raise errors.ApiError(404, f"Not found: {path}.")

    def _pool(self, call: endpoint.Call) -> model.NodePool:
        self._check_cluster(call)
        pool = self.cluster.pools.get(call.path["pool"])
        if pool is None:
            path = self.cluster.pool_path(call.path["pool"])
            raise errors.ApiError(404, f'nodePool "{path}" not found')
        return pool
