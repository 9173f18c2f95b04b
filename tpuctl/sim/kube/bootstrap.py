"""Roles and bindings that every cluster has: what administrators, everyone and nobody in particular may do.

Of a real cluster's default roles these are the ones that decide what the simulator's users can meet.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.kube import auth, rbac

if TYPE_CHECKING:
    from collections.abc import Iterator

Json = dict[str, Any]

PUBLIC_PATHS = ("/healthz", "/livez", "/readyz", "/version", "/version/")
DISCOVERY_PATHS = (
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/healthz",
    "/livez",
    "/openapi",
    "/openapi/*",
    "/readyz",
    "/version",
    "/version/",
)
_ABOUT_ONESELF = (
    {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    },
    {"verbs": ["create"], "apiGroups": ["authentication.k8s.io"], "resources": ["selfsubjectreviews"]},
)
_EVERYTHING = (
    {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]},
    {"verbs": ["*"], "nonResourceURLs": ["*"]},
)

_ROLES: dict[str, tuple[tuple[Json, ...], tuple[str, ...]]] = {
    "cluster-admin": (_EVERYTHING, (auth.MASTERS,)),
    "system:basic-user": (_ABOUT_ONESELF, (auth.AUTHENTICATED,)),
    "system:discovery": (
        ({"verbs": ["get"], "nonResourceURLs": list(DISCOVERY_PATHS)},),
        (auth.AUTHENTICATED,),
    ),
    "system:public-info-viewer": (
        ({"verbs": ["get"], "nonResourceURLs": list(PUBLIC_PATHS)},),
        (auth.AUTHENTICATED, auth.UNAUTHENTICATED),
    ),
}
"""Rules of each ClusterRole, and the groups it is bound to under the same name."""


def install(store: stores.Store) -> None:
    """Store them where they are missing."""
    for key, obj in _objects():
        if store.get(key, None, obj["metadata"]["name"]) is None:
            # Their uids are not drawn from the store's own, so that a run does not depend on them.
            uid = str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{obj['metadata']['name']}.{key}"))
            created = stores.timestamp(store.clock.now())
            obj["metadata"] |= {"uid": uid, "creationTimestamp": created}
            store.create(key, obj, initialised=True)


def _objects() -> Iterator[tuple[str, Json]]:
    for name, (rules, groups) in _ROLES.items():
        yield rbac.CLUSTER_ROLES, {**_head("ClusterRole", name), "rules": stores.copy(list(rules))}
        subjects = [{"kind": "Group", "apiGroup": rbac.GROUP, "name": group} for group in groups]
        ref = {"apiGroup": rbac.GROUP, "kind": "ClusterRole", "name": name}
        binding = {**_head("ClusterRoleBinding", name), "subjects": subjects, "roleRef": ref}
        yield rbac.CLUSTER_ROLE_BINDINGS, binding


def _head(kind: str, name: str) -> Json:
    metadata = {
        "name": name,
        "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    }
    return {"apiVersion": f"{rbac.GROUP}/v1", "kind": kind, "metadata": metadata}
