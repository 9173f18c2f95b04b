"""What a cluster does to new pods: defaults of the API server, and GKE's toleration for TPU pods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.controllers import scheduling
from tpuctl.sim.kube import defaults, resources

if TYPE_CHECKING:
    from tpuctl.sim.kube import admission

Object = dict[str, Any]


def review(request: admission.AdmissionRequest) -> None:
    """Mutating admission hook: pods that ask for chips tolerate the taint of TPU nodes."""
    if request.operation == "CREATE" and request.resource.key == "pods" and request.new is not None:
        request.new["spec"] = scheduling.with_tpu_toleration(request.new)["spec"]


def admit_created(pod: Object) -> Object:
    """The same, with the API server's defaults, for pods that a controller inside the cluster makes."""
    tolerating = scheduling.with_tpu_toleration(stores.copy(pod))
    filled = defaults.fill(resources.PODS, tolerating)
    defaults.prepare_new(resources.PODS, filled)
    return filled
