"""VMs, their resets and reports of faulty hosts: the Instances port on google-cloud-compute over REST."""

from __future__ import annotations

import functools
import uuid
from typing import TYPE_CHECKING, Any

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import googleapis
from tpuctl.model import errors
from tpuctl.ops import ports

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tpuctl.ops import context as context_module

REPORT = "reportHostAsFaulty"
RESET = "reset"
_SCHEME = "gce://"


class ComputeInstances:
    """The Instances port."""

    def __init__(self, context: context_module.Context, apis: googleapis.GoogleApis) -> None:
        self._context = context
        self._apis = apis

    def get(self, provider_id: str) -> ports.Instance | None:
        project, zone, name = parse_provider_id(provider_id)
        request = {"project": project, "zone": zone, "instance": name}

        def read() -> Any | None:
            try:
                return self._instances.get(request=request, retry=None, timeout=googleapis.TIMEOUT_S)
            except cloud_errors.Refused as refused:
                if refused.status == cloud_errors.NOT_FOUND:
                    return None
                raise

        found = self._apis.read(read, what=f"read VM {name}")
        if found is None:
            return None
        return ports.Instance(
            project=project,
            zone=zone,
            name=found.name,
            status=found.status,
            provisioning_model=found.scheduling.provisioning_model,
        )

    def report_faulty(self, instance: ports.Instance, report: ports.FaultReport) -> ports.Operation:
        """Start it under a request id, so that the service itself knows a repeated request."""
        request = {
            **_place(instance),
            "instance": instance.name,
            "request_id": str(uuid.uuid4()),
            "instances_report_host_as_faulty_request_resource": {
                "disruption_schedule": report.disruption,
                "fault_reasons": [{"behavior": report.behavior, "description": report.description}],
            },
        }

        def attempt() -> ports.Operation:
            return _operation(
                self._instances.report_host_as_faulty_unary(
                    request=request, retry=None, timeout=googleapis.TIMEOUT_S
                )
            )

        def look() -> ports.Operation | None:
            running = [item for item in self._of_kind(instance, REPORT) if item.status is _RUNNING]
            return running[-1] if running else None

        return self._apis.write(attempt, look=look, what=f"report the host of VM {instance.name}")

    def reports(self, instance: ports.Instance) -> Sequence[ports.Operation]:
        what = f"list the reports of VM {instance.name}"
        return self._apis.read(lambda: self._of_kind(instance, REPORT), what=what)

    def reset(self, instance: ports.Instance, request_id: str) -> ports.Operation:
        request = {**_place(instance), "instance": instance.name, "request_id": request_id}

        def attempt() -> ports.Operation:
            return _operation(
                self._instances.reset_unary(request=request, retry=None, timeout=googleapis.TIMEOUT_S)
            )

        # The service itself knows the request again by its id: sending it once more is how to look.
        return self._apis.write(attempt, look=lambda: None, what=f"reset VM {instance.name}")

    def resets(self, instance: ports.Instance) -> Sequence[ports.Operation]:
        what = f"list the resets of VM {instance.name}"
        return self._apis.read(lambda: self._of_kind(instance, RESET), what=what)

    def operation(self, instance: ports.Instance, name: str) -> ports.Operation:
        request = {**_place(instance), "operation": name}
        found = self._apis.read(
            lambda: self._operations.get(request=request, retry=None, timeout=googleapis.TIMEOUT_S),
            what=f"read operation {name}",
        )
        return _operation(found)

    def _of_kind(self, instance: ports.Instance, kind: str) -> Sequence[ports.Operation]:
        target = f"/zones/{instance.zone}/instances/{instance.name}"
        # A large zone's history is long. One condition only: those on several fields do not combine.
        request = {**_place(instance), "filter": f'targetLink eq ".*{target}"'}
        pager = self._operations.list(request=request, retry=None, timeout=googleapis.TIMEOUT_S)
        # Whole, since a report or reset that is not seen would be made twice.
        found = [
            item
            for item in googleapis.whole(pager, "the list of operations is not whole")
            if item.operation_type == kind and item.target_link.endswith(target)
        ]
        return tuple(map(_operation, sorted(found, key=lambda item: (item.insert_time, item.name))))

    @functools.cached_property
    def _instances(self) -> Any:
        from google.cloud import compute_v1  # noqa: PLC0415 - slow to import
        from google.cloud.compute_v1.services.instances import transports  # noqa: PLC0415

        return self._client(compute_v1.InstancesClient, transports.InstancesRestTransport)

    @functools.cached_property
    def _operations(self) -> Any:
        from google.cloud import compute_v1  # noqa: PLC0415 - slow to import
        from google.cloud.compute_v1.services.zone_operations import transports  # noqa: PLC0415

        return self._client(compute_v1.ZoneOperationsClient, transports.ZoneOperationsRestTransport)

    def _client(self, client_class: Any, transport_class: Any) -> Any:
        return self._apis.client(client_class, transport_class, self._context.endpoint_compute)


_RUNNING = ports.OperationStatus.RUNNING


def parse_provider_id(text: str) -> tuple[str, str, str]:
    """Project, zone and name in `gce://PROJECT/ZONE/NAME`; raises UsageError for anything else."""
    parts = text.removeprefix(_SCHEME).split("/")
    if text.startswith(_SCHEME) and len(parts) == 3 and all(parts):  # noqa: PLR2004 - the three above
        return parts[0], parts[1], parts[2]
    raise errors.UsageError(
        f"the node does not tell its VM: its provider id is '{text}', not {_SCHEME}PROJECT/ZONE/NAME"
    )


def _place(instance: ports.Instance) -> dict[str, Any]:
    return {"project": instance.project, "zone": instance.zone}


def _operation(item: Any) -> ports.Operation:
    # The unary methods wrap the operation in another type of the same fields.
    failures = [error.message or error.code for error in item.error.errors]
    done = googleapis.word(item, "status") == "DONE"
    failed = ports.OperationStatus.FAILED if failures else ports.OperationStatus.DONE
    return ports.Operation(
        name=item.name,
        kind=item.operation_type,
        target=item.target_link.rsplit("/", 1)[-1],
        status=failed if done else _RUNNING,
        error=cloud_errors.clean("; ".join(failures)),
    )
