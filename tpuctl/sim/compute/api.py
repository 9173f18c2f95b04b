"""Compute Engine v1 over REST, as far as TPU fleets need it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim.compute import groups, instances, listing, operations, policies, reservations
from tpuctl.sim.googleapis import endpoint, errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from starlette import routing

    from tpuctl.sim import behaviour as behaviours
    from tpuctl.sim import hardware
    from tpuctl.sim.gke import model

Json = dict[str, Any]

_ZONE = "/compute/v1/projects/{project}/zones/{zone}"
_REGION = "/compute/v1/projects/{project}/regions/{region}"
_RESERVATION = f"{_ZONE}/reservations/{{reservation}}"
_BLOCK = f"{_RESERVATION}/reservationBlocks/{{block}}"
_SUBBLOCK = f"{_BLOCK}/reservationSubBlocks/{{subblock}}"
_POLICY = f"{_REGION}/resourcePolicies/{{policy}}"
_INSTANCE = f"{_ZONE}/instances/{{instance}}"
_GROUP = f"{_ZONE}/instanceGroupManagers/{{group}}"

_BLOCK_VIEWS = ("BASIC", "BLOCK_VIEW_UNSPECIFIED", "FULL")
_SUBBLOCK_VIEWS = ("SUB_BLOCK_VIEW_BASIC", "SUB_BLOCK_VIEW_FULL", "SUB_BLOCK_VIEW_UNSPECIFIED")


class ComputeApi:
    """The API over the hardware. Call it from the server's thread only."""

    def __init__(
        self,
        *,
        machines: hardware.Hardware,
        behaviour: behaviours.Behaviour,
        project: str,
        region: str,
        authenticate: endpoint.Authenticate,
        pools: Callable[[], Iterable[model.NodePool]],
        topologies: Callable[[str], list[Json]] = lambda _pool: [],
    ) -> None:
        """`pools` gives the node pools of the project's cluster.

        `topologies` gives the slices formed on one of them, by name of the pool, as entries of
        `appliedAcceleratorTopologies`.
        """
        self._machines = machines
        self._clock = machines.clock
        self._behaviour = behaviour
        self._project = project
        self._region = operations.Place(project, "region", region)
        self._pools = pools
        self.policies = policies.Policies(self._clock, self._region, seed=machines.seed)
        self.operations = operations.Operations(self._clock, seed=machines.seed)
        self.instances = instances.Instances(machines, behaviour, project)
        self.groups = groups.Groups(self._clock, behaviour, project, topologies)
        self._endpoint = endpoint.Endpoint("/compute/v1", authenticate=authenticate, canonical=False)
        self.intercept = self._endpoint.intercept
        self._add_reservations()
        self._add_policies()
        self._add_instances()
        self._add_operations()

    def routes(self) -> list[routing.Route]:
        """Return what serves everything below /compute/v1."""
        return self._endpoint.routes()

    # Places

    def _zone(self, call: endpoint.Call) -> operations.Place:
        project, zone = call.path["project"], call.path["zone"]
        homes = self._machines.reservations.values()
        self._check_project(project, {home.project for home in homes})
        known = {f"{self._region.name}-{letter}" for letter in "abc"} | {home.zone for home in homes}
        if zone not in known:
            raise policies.bad_value("zone", zone, "Unknown zone.")
        return operations.Place(project, "zone", zone)

    def _check_region(self, call: endpoint.Call) -> operations.Place:
        self._check_project(call.path["project"], set())
        if call.path["region"] != self._region.name:
            raise policies.bad_value("region", call.path["region"], "Unknown region.")
        return self._region

    def _check_project(self, project: str, others: set[str]) -> None:
        if project not in {self._project, *others}:
            raise errors.ApiError(404, f"The resource 'projects/{project}' was not found")

    # Reservations

    def _add_reservations(self) -> None:
        add, pages = self._endpoint.add, listing.QUERY
        add("GET", f"{_ZONE}/reservations", self._list_reservations, query=pages)
        add("GET", _RESERVATION, self._get_reservation)
        add("GET", f"{_RESERVATION}/reservationBlocks", self._list_blocks, query=pages)
        add("GET", _BLOCK, self._get_block, query=("view",))
        add("GET", f"{_BLOCK}/reservationSubBlocks", self._list_subblocks, query=pages)
        add("GET", _SUBBLOCK, self._get_subblock, query=("view",))

    def _list_reservations(self, call: endpoint.Call) -> Json:
        zone = self._zone(call)
        homes = (home for home in self._machines.reservations.values() if reservations.place(home) == zone)
        items = (reservations.reservation(home, self._clock) for home in homes)
        return listing.listing("compute#reservationList", f"{zone.link}/reservations", items, call.query)

    def _get_reservation(self, call: endpoint.Call) -> Json:
        return reservations.reservation(self._reservation(call), self._clock)

    def _list_blocks(self, call: endpoint.Call) -> Json:
        home = self._reservation(call)
        items = (reservations.block(block, self._clock) for block in home.blocks)
        link = f"{reservations.link(home)}/reservationBlocks"
        return listing.listing("compute#reservationBlock", link, items, call.query)

    def _get_block(self, call: endpoint.Call) -> Json:
        full = _view(call, _BLOCK_VIEWS) == "FULL"
        return {"resource": reservations.block(self._block(call), self._clock, full=full)}

    def _list_subblocks(self, call: endpoint.Call) -> Json:
        block = self._block(call)
        items = (reservations.subblock(cube, self._clock) for cube in block.subblocks)
        link = f"{reservations.block_link(block)}/reservationSubBlocks"
        return listing.listing("compute#reservationSubBlock", link, items, call.query)

    def _get_subblock(self, call: endpoint.Call) -> Json:
        _view(call, _SUBBLOCK_VIEWS)
        block, name = self._block(call), call.path["subblock"]
        for cube in block.subblocks:
            if name in reservations.names(reservations.subblock_link(cube)):
                return {"resource": reservations.subblock(cube, self._clock)}
        parent = reservations.block_link(block).removeprefix(f"{operations.COMPUTE}/")
        raise errors.ApiError(404, f"The resource '{parent}/reservationSubBlocks/{name}' was not found")

    def _reservation(self, call: endpoint.Call) -> hardware.Reservation:
        zone, name = self._zone(call), call.path["reservation"]
        for home in self._machines.reservations.values():
            if reservations.place(home) == zone and name in reservations.names(reservations.link(home)):
                return home
        raise errors.ApiError(404, f"The resource '{zone.path}/reservations/{name}' was not found")

    def _block(self, call: endpoint.Call) -> hardware.Block:
        home, name = self._reservation(call), call.path["block"]
        for block in home.blocks:
            if name in reservations.names(reservations.block_link(block)):
                return block
        parent = reservations.link(home).removeprefix(f"{operations.COMPUTE}/")
        raise errors.ApiError(404, f"The resource '{parent}/reservationBlocks/{name}' was not found")

    # Resource policies

    def _add_policies(self) -> None:
        add = self._endpoint.add
        add("GET", f"{_REGION}/resourcePolicies", self._list_policies, query=listing.QUERY)
        add(
            "POST",
            f"{_REGION}/resourcePolicies",
            self._insert_policy,
            query=("requestId",),
            body=policies.SHAPE,
        )
        add("GET", _POLICY, self._get_policy)
        add("DELETE", _POLICY, self._delete_policy, query=("requestId",))

    def _list_policies(self, call: endpoint.Call) -> Json:
        region = self._check_region(call)
        items = (self.policies.view(policy) for policy in self.policies)
        link = f"{region.link}/resourcePolicies"
        return listing.listing("compute#resourcePolicyList", link, items, call.query)

    def _get_policy(self, call: endpoint.Call) -> Json:
        self._check_region(call)
        return self.policies.view(self.policies.get(call.path["policy"]))

    def _insert_policy(self, call: endpoint.Call) -> Json:
        region = self._check_region(call)
        again = self._again(region, call)
        if again is not None:
            return again
        policy = self.policies.insert(call.body)

        def finish() -> None:
            self.policies.ready(policy)

        target = f"resourcePolicies/{policy.name}"
        duration_s = self._behaviour.policy_operation_s
        return self._start("insert", region, call, target, policy.id, duration_s, finish)

    def _delete_policy(self, call: endpoint.Call) -> Json:
        region = self._check_region(call)
        again = self._again(region, call)
        if again is not None:
            return again
        policy = self.policies.get(call.path["policy"])
        users = [pool.group for pool in self._pools() if pool.policy == policy.name]
        self.policies.check_deletable(policy, users)
        policy.status = "DELETING"

        def finish() -> None:
            self.policies.remove(policy)

        target = f"resourcePolicies/{policy.name}"
        duration_s = self._behaviour.policy_operation_s
        return self._start("delete", region, call, target, policy.id, duration_s, finish)

    # Instances and their groups

    def _add_instances(self) -> None:
        add, pages = self._endpoint.add, listing.QUERY
        add("GET", f"{_ZONE}/instances", self._list_instances, query=pages)
        add("GET", _INSTANCE, self._get_instance)
        add("POST", f"{_INSTANCE}/reset", self._reset, query=("requestId",))
        add(
            "POST",
            f"{_INSTANCE}/reportHostAsFaulty",
            self._report,
            query=("requestId",),
            body=instances.REPORT,
        )
        add("GET", f"{_ZONE}/instanceGroupManagers", self._list_groups, query=pages)
        add("GET", _GROUP, self._get_group)
        add("POST", f"{_GROUP}/listManagedInstances", self._list_managed, query=pages)
        add("GET", f"{_GROUP}/listErrors", self._list_errors, query=pages)

    def _list_instances(self, call: endpoint.Call) -> Json:
        zone = self._zone(call)
        items = (
            self.instances.view(host, host.vm) for host in self.instances.at(zone) if host.vm is not None
        )
        return listing.listing("compute#instanceList", f"{zone.link}/instances", items, call.query)

    def _get_instance(self, call: endpoint.Call) -> Json:
        return self.instances.view(*self.instances.find(self._zone(call), call.path["instance"]))

    def _reset(self, call: endpoint.Call) -> Json:
        zone = self._zone(call)
        again = self._again(zone, call)
        if again is not None:
            return again
        host, vm = self.instances.find(zone, call.path["instance"])
        self.instances.check_running(zone, vm)
        self._machines.reset_vm(host)
        target, duration_s = f"instances/{vm.name}", self._behaviour.reset_operation_s
        return self._start("reset", zone, call, target, vm.id, duration_s, lambda: None)

    def _report(self, call: endpoint.Call) -> Json:
        zone = self._zone(call)
        again = self._again(zone, call)
        if again is not None:
            return again
        schedule = instances.check_report(call.body)
        host, vm = self.instances.find(zone, call.path["instance"])
        self.instances.check_running(zone, vm)

        def finish() -> operations.Failure | None:
            return self.instances.report_faulty(host, vm, schedule)

        target, duration_s = f"instances/{vm.name}", self._behaviour.report_faulty_s
        return self._start("reportHostAsFaulty", zone, call, target, vm.id, duration_s, finish)

    def _list_groups(self, call: endpoint.Call) -> Json:
        zone = self._zone(call)
        items = (self.groups.view(pool) for pool in self._pools() if pool.zone == zone.name)
        link = f"{zone.link}/instanceGroupManagers"
        return listing.listing("compute#instanceGroupManagerList", link, items, call.query)

    def _get_group(self, call: endpoint.Call) -> Json:
        return self.groups.view(self._group(call))

    def _list_managed(self, call: endpoint.Call) -> Json:
        shown, token = listing.page(self.groups.managed(self._group(call)), call.query)
        body: Json = {"managedInstances": shown} if shown else {}
        return body if token is None else {**body, "nextPageToken": token}

    def _list_errors(self, call: endpoint.Call) -> Json:
        if call.query.get("pageToken") or call.query.get("filter"):
            raise errors.unimplemented("paging and filters of listErrors")
        found = self.groups.errors(self._group(call))
        return {"items": found} if found else {}

    def _group(self, call: endpoint.Call) -> model.NodePool:
        zone, name = self._zone(call), call.path["group"]
        for pool in self._pools():
            if pool.group == name and pool.zone == zone.name:
                return pool
        raise errors.ApiError(404, f"The resource '{zone.path}/instanceGroupManagers/{name}' was not found")

    # Operations

    def _add_operations(self) -> None:
        for parent, place in ((_ZONE, self._zone), (_REGION, self._check_region)):
            self._add_operations_of(parent, place)

    def _add_operations_of(self, parent: str, place: Callable[[endpoint.Call], operations.Place]) -> None:
        def show(call: endpoint.Call) -> Json:
            return self.operations.view(self.operations.find(place(call), call.path["operation"]))

        def list_all(call: endpoint.Call) -> Json:
            where = place(call)
            items = (self.operations.view(operation) for operation in self.operations.at(where))
            return listing.listing("compute#operationList", f"{where.link}/operations", items, call.query)

        add = self._endpoint.add
        add("GET", f"{parent}/operations", list_all, query=listing.QUERY)
        add("GET", f"{parent}/operations/{{operation}}", show)
        # The real method may return before the operation is over; this one always answers at once, because
        # simulated time may stand still.
        add("POST", f"{parent}/operations/{{operation}}/wait", show)

    def _again(self, place: operations.Place, call: endpoint.Call) -> Json | None:
        """The operation that this very request began before: a repeated request id changes nothing."""
        operation = self.operations.begun(place, call.query.get("requestId", ""))
        return None if operation is None else self.operations.view(operation)

    def _start(
        self,
        kind: str,
        place: operations.Place,
        call: endpoint.Call,
        target: str,
        target_id: str,
        duration_s: float,
        finish: Callable[[], operations.Failure | None],
    ) -> Json:
        operation = self.operations.start(
            kind,
            place,
            target=target,
            target_id=target_id,
            user=call.user,
            request_id=call.query.get("requestId", ""),
            duration_s=duration_s,
            finish=finish,
        )
        return self.operations.view(operation)


def _view(call: endpoint.Call, words: tuple[str, ...]) -> str:
    view = call.query.get("view", "")
    if view and view not in words:
        raise policies.bad_value("view", view, f"Must be one of {words}.")
    return view
