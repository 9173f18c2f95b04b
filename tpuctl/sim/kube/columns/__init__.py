"""What `kubectl get` shows of each kind: one function a cell.

Names, order and priorities are the real server's; kubectl prints priority 1 only with `-o wide`.
"""

from __future__ import annotations

from tpuctl.sim.kube.columns import access, column, events, jobs, nodes, pods, records, workloads

BUILT_IN: dict[str, tuple[column.Column, ...]] = {
    "nodes": nodes.COLUMNS,
    "pods": pods.COLUMNS,
    "jobs.batch": jobs.COLUMNS,
    "events": events.COLUMNS,
    "namespaces": records.NAMESPACES,
    "configmaps": records.CONFIG_MAPS,
    "leases.coordination.k8s.io": records.LEASES,
    "serviceaccounts": access.SERVICE_ACCOUNTS,
    "services": records.SERVICES,
    "clusterrolebindings.rbac.authorization.k8s.io": access.BINDINGS,
    "rolebindings.rbac.authorization.k8s.io": access.BINDINGS,
    "cronjobs.batch": workloads.CRON_JOBS,
    "deployments.apps": workloads.DEPLOYMENTS,
    "poddisruptionbudgets.policy": workloads.DISRUPTION_BUDGETS,
}
"""Columns by resource key (`plural` or `plural.group`)."""

OTHERS = (column.NAME, column.CREATED_AT)
"""What the server shows of kinds without columns of their own, such as CustomResourceDefinitions."""
