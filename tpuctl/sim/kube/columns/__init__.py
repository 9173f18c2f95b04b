"""What `kubectl get` shows of each kind: one function a cell.

Names, order and priorities are the real server's; kubectl prints priority 1 only with `-o wide`.
"""

from __future__ import annotations

from tpuctl.sim.kube.columns import column, events, jobs, nodes, pods, records

BUILT_IN: dict[str, tuple[column.Column, ...]] = {
    "nodes": nodes.COLUMNS,
    "pods": pods.COLUMNS,
    "jobs.batch": jobs.COLUMNS,
    "events": events.COLUMNS,
    "namespaces": records.NAMESPACES,
    "configmaps": records.CONFIG_MAPS,
    "leases.coordination.k8s.io": records.LEASES,
    "services": records.SERVICES,
}
"""Columns by resource key (`plural` or `plural.group`)."""

OTHERS = (column.NAME, column.CREATED_AT)
"""What the server shows of kinds without columns of their own, CustomResourceDefinitions among them."""
