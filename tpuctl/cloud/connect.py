"""Build the ports of a context. Nothing is imported or contacted before a member is used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tpuctl.cloud import capacity as capacity_module
from tpuctl.cloud import clock as clock_module
from tpuctl.cloud import events as events_module
from tpuctl.cloud import gke, googleapis, identity, instances, leases, retry, snapshot, watching, workloads
from tpuctl.cloud import kube as kube_module
from tpuctl.cloud import records as records_module
from tpuctl.cloud import slices as slices_module
from tpuctl.ops import ports

if TYPE_CHECKING:
    from collections.abc import Callable

    from tpuctl.ops import context as context_module


def connect(
    context: context_module.Context,
    *,
    clock: clock_module.WallClock | None = None,
    tell: Callable[[str], None] = retry.untold,
) -> ports.Ports:
    """The real services, or a simulator that speaks their protocols: what the context's endpoints say.

    `tell` hears, from any thread, that a service which does not answer is tried again.
    """
    clock = clock or clock_module.SystemClock(context.clock_scale or 1.0)
    kube = kube_module.Kube(context, clock, tell=tell)
    apis = googleapis.GoogleApis(context, clock, tell=tell)
    slices = slices_module.KubeSlices(context, kube)
    records = records_module.KubeRecords(kube)
    pools = gke.GkePools(context, apis)
    capacity = capacity_module.ComputeCapacity(context, apis, clock)
    reader = snapshot.FleetReader(
        context,
        clock,
        kube=kube,
        slices=slices,
        apis=apis,
        pools=pools,
        capacity=capacity,
        records=records,
    )
    return ports.Ports(
        clock=clock,
        fleet=reader,
        slices=slices,
        pools=pools,
        capacity=capacity,
        records=records,
        leases=leases.KubeLeases(kube),
        workloads=workloads.KubeWorkloads(kube),
        identity=identity.KubeIdentity(kube),
        instances=instances.ComputeInstances(context, apis),
        changes=watching.KubeChanges(clock, kube=kube, slices=slices, reader=reader),
        events=events_module.KubeEvents(kube, clock),
    )
