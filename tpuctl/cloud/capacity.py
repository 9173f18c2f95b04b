"""Reserved hardware and the workload policy: the Capacity port on google-cloud-compute over REST."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, TypeVar

from tpuctl.cloud import documents, googleapis
from tpuctl.cloud import errors as cloud_errors
from tpuctl.model import errors, fleet, topology

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tpuctl.ops import context as context_module
    from tpuctl.ops import ports

T = TypeVar("T")

POLICY_TYPE, POLICY_MODE = "HIGH_THROUGHPUT", "PROVISION_ONLY"
POLICY_TIMEOUT_S = 300.0
POLL_S = 2.0


class ComputeCapacity:
    """The Capacity port."""

    def __init__(
        self, context: context_module.Context, apis: googleapis.GoogleApis, clock: ports.Clock
    ) -> None:
        self._context = context
        self._apis = apis
        self._clock = clock

    def blocks(self) -> Sequence[fleet.ReservedBlock]:
        """All blocks of the context's reservations with their sub-blocks, by name.

        Raises UsageError if the context names no reservation, NotFound for one that does not exist.
        """
        if not self._context.reservations:
            raise errors.UsageError(
                f"context '{self._context.name}' names no reservation",
                hint="list them with: gcloud compute reservations list",
            )
        return tuple(
            block for reservation in self._context.reservations for block in self._blocks_of(reservation)
        )

    def has_policy(self, name: str) -> bool:
        """As in the port; what differs is named."""
        found = self._apis.read(lambda: self._find_policy(name), what=f"read workload policy {name}")
        if found is None:
            return False
        _check_policy(found, name)
        return True

    def create_policy(self, name: str) -> None:
        """Create it and wait for the operation.

        Raises TimedOut, and Conflict for another policy of that name.
        """
        policy = {
            "name": name,
            "description": "Node pools of one TPU7x cube, joined on demand (made by tpuctl)",
            "workload_policy": {
                "type_": POLICY_TYPE,
                "accelerator_topology": str(topology.CUBE),
                "accelerator_topology_mode": POLICY_MODE,
            },
        }

        def insert() -> Any:
            try:
                return self._policies.insert_unary(
                    request={**self._region, "resource_policy_resource": policy},
                    retry=None,
                    timeout=googleapis.TIMEOUT_S,
                )
            except cloud_errors.Refused as refused:
                # Somebody was faster; `has_policy` below says whether it is the right one.
                if refused.status == cloud_errors.CONFLICT:
                    return None
                raise

        # The policy itself is as good as its operation, and None means that there is nothing to wait for.
        operation = self._apis.write(
            lambda: (insert(),),
            look=lambda: (None,) if self._find_policy(name) is not None else None,
            what=f"create workload policy {name}",
        )[0]
        if operation is not None:
            self._finish(operation, name)
        if not self.has_policy(name):
            raise errors.Unavailable(f"workload policy {name} is not there after its creation")

    def _blocks_of(self, reservation: str) -> Sequence[fleet.ReservedBlock]:
        project, name = _owner_and_name(reservation, self._context.project)
        where = {"project": project, "zone": self._context.zone}
        owner = reservation if project != self._context.project else name
        found = self._list(
            self._block_client,
            {**where, "reservation": name},
            f"list blocks of reservation {reservation}",
            functools.partial(_block, owner),
        )
        return tuple(
            dataclasses.replace(
                block,
                sub_blocks=self._list(
                    self._sub_block_client,
                    {**where, "parent_name": f"reservations/{name}/reservationBlocks/{block.name}"},
                    f"list sub-blocks of block {block.name}",
                    _sub_block,
                ),
            )
            for block in found
        )

    def _list(
        self, client: Any, request: dict[str, Any], what: str, convert: Callable[[Any], T]
    ) -> tuple[T, ...]:
        """All pages, by name; a page with a warning that something was left out is an error."""

        def read() -> tuple[T, ...]:
            pager = client.list(request=request, retry=None, timeout=googleapis.TIMEOUT_S)
            items = googleapis.whole(pager, f"cannot {what}: the list is not whole")
            return tuple(convert(item) for item in sorted(items, key=lambda item: item.name))

        return self._apis.listing(" ".join(request.values()), read, what=what)

    def _find_policy(self, name: str) -> Any | None:
        try:
            return self._policies.get(
                request={**self._region, "resource_policy": name}, retry=None, timeout=googleapis.TIMEOUT_S
            )
        except cloud_errors.Refused as refused:
            if refused.status == cloud_errors.NOT_FOUND:
                return None
            raise

    def _finish(self, operation: Any, name: str) -> None:
        deadline_s = self._clock.monotonic_s() + POLICY_TIMEOUT_S
        while googleapis.word(operation, "status") != "DONE":
            if self._clock.monotonic_s() > deadline_s:
                raise errors.TimedOut(
                    f"workload policy {name} is still being created (operation {operation.name})",
                    hint="it goes on; run the command again to wait for it",
                )
            self._clock.sleep(POLL_S)
            request = {**self._region, "operation": operation.name}
            operation = self._apis.read(
                functools.partial(
                    self._region_operations.get, request=request, retry=None, timeout=googleapis.TIMEOUT_S
                ),
                what=f"read operation {operation.name}",
            )
        if operation.error.errors:
            first = operation.error.errors[0]
            raise errors.TpuctlError(
                f"workload policy {name} was not created: {cloud_errors.clean(first.message or first.code)}"
            )

    @property
    def _region(self) -> dict[str, str]:
        return {"project": self._context.project, "region": self._context.region}

    @functools.cached_property
    def _block_client(self) -> Any:
        from google.cloud import compute_v1  # noqa: PLC0415 - slow to import
        from google.cloud.compute_v1.services.reservation_blocks import transports  # noqa: PLC0415

        return self._client(compute_v1.ReservationBlocksClient, transports.ReservationBlocksRestTransport)

    @functools.cached_property
    def _sub_block_client(self) -> Any:
        from google.cloud import compute_v1  # noqa: PLC0415 - slow to import
        from google.cloud.compute_v1.services.reservation_sub_blocks import transports  # noqa: PLC0415

        return self._client(
            compute_v1.ReservationSubBlocksClient, transports.ReservationSubBlocksRestTransport
        )

    @functools.cached_property
    def _policies(self) -> Any:
        from google.cloud import compute_v1  # noqa: PLC0415 - slow to import
        from google.cloud.compute_v1.services.resource_policies import transports  # noqa: PLC0415

        return self._client(compute_v1.ResourcePoliciesClient, transports.ResourcePoliciesRestTransport)

    @functools.cached_property
    def _region_operations(self) -> Any:
        from google.cloud import compute_v1  # noqa: PLC0415 - slow to import
        from google.cloud.compute_v1.services.region_operations import transports  # noqa: PLC0415

        return self._client(compute_v1.RegionOperationsClient, transports.RegionOperationsRestTransport)

    def _client(self, client_class: Any, transport_class: Any) -> Any:
        return self._apis.client(client_class, transport_class, self._context.endpoint_compute)


def _owner_and_name(reservation: str, project: str) -> tuple[str, str]:
    """Project and name of `R` or `projects/P/reservations/R`; raises UsageError for anything else."""
    parts = reservation.split("/")
    if len(parts) == 1 and reservation:
        return project, reservation
    if len(parts) == 4 and parts[0] == "projects" and parts[2] == "reservations" and all(parts):  # noqa: PLR2004
        return parts[1], parts[3]
    raise errors.UsageError(
        f"'{reservation}' is not a reservation", hint="write its name, or projects/PROJECT/reservations/NAME"
    )


def _check_policy(found: Any, name: str) -> None:
    wanted = {
        "type": (found.workload_policy.type_, POLICY_TYPE),
        "accelerator topology": (found.workload_policy.accelerator_topology, str(topology.CUBE)),
        "accelerator topology mode": (found.workload_policy.accelerator_topology_mode, POLICY_MODE),
    }
    differences = tuple(
        f"{what} is {is_ or 'not set'}, needed is {need}"
        for what, (is_, need) in wanted.items()
        if is_ != need
    )
    if differences:
        raise errors.Conflict(
            f"resource policy {name} exists, but is not for dynamic slicing",
            hint="name another policy in the context",
            details=differences,
        )


def _block(reservation: str, item: Any) -> fleet.ReservedBlock:
    """Without its sub-blocks, which are a list of their own."""
    return fleet.ReservedBlock(
        reservation=reservation,
        name=item.name,
        physical_id=item.physical_topology.block,
        sub_blocks=(),
        maintenance=_maintenance(item.reservation_maintenance),
    )


def _sub_block(item: Any) -> fleet.SubBlock:
    health = item.health_info
    plan = _maintenance(item.reservation_sub_block_maintenance)
    return fleet.SubBlock(
        name=item.name,
        physical_id=item.physical_topology.sub_block,
        health=health.health_status,
        healthy_hosts=_told(health, "healthy_host_count"),
        degraded_hosts=_told(health, "degraded_host_count"),
        hosts=item.count,
        hosts_in_use=item.in_use_count,
        maintenance_start=plan and plan.start,
        maintenance_end=plan and plan.end,
        healthy_infra=_told(health, "healthy_infra_count"),
        degraded_infra=_told(health, "degraded_infra_count"),
        topologies=tuple(
            fleet.TopologyCount(entry.accelerator_topology, state.state, state.count)
            for entry in item.accelerator_topologies_info.accelerator_topology_infos
            for state in entry.info_per_topology_states
        ),
        maintenance=plan,
        status=item.status,
    )


def _told(message: Any, field: str) -> int | None:
    """A count; None if the service left it out, which is not 0."""
    return getattr(message, field) if field in message else None


def _maintenance(info: Any) -> fleet.Maintenance | None:
    """A GroupMaintenanceInfo; None if nothing is planned and nothing goes on."""
    window = info.upcoming_group_maintenance
    infra = info.subblock_infra_maintenance_ongoing_count
    # Where instances are not counted apart, what goes on and is no infrastructure goes on in them.
    hosts = info.instance_maintenance_ongoing_count or (0 if infra else info.maintenance_ongoing_count)
    found = fleet.Maintenance(
        start=documents.moment(window.window_start_time),
        end=documents.moment(window.window_end_time),
        status=window.maintenance_status,
        kind=window.type_,
        can_reschedule=window.can_reschedule,
        hosts_ongoing=hosts,
        infra_ongoing=infra,
    )
    return None if found.start is None and not found.is_ongoing else found
