"""The resource types the simulated API server serves.

Built-in types are fixed; custom ones exist while their CustomResourceDefinition is stored.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tpuctl.sim import store as stores

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
STATUS_VERBS = ("get", "patch", "update")
CRD_KEY = "customresourcedefinitions.apiextensions.k8s.io"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ResourceType:
    """One served type, in the version it is served in."""

    group: str
    """Empty for the core group."""
    version: str
    plural: str
    singular: str
    kind: str
    namespaced: bool
    short_names: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ALL_VERBS
    has_status: bool = False
    """Whether `/status` exists; if true, the main resource ignores `status` and `/status` all else."""
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    """Further subresources beside `status`; all take `create` only."""
    custom: bool = False
    definition: dict[str, Any] | None = dataclasses.field(default=None, compare=False)
    """The stored CustomResourceDefinition, for a custom type. Shared: do not change it."""

    @property
    def key(self) -> str:
        """Key of the type in the store; also how Kubernetes names it in messages."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def list_kind(self) -> str:
        return f"{self.kind}List"

    @property
    def qualified_kind(self) -> str:
        """Kind with its group, as in validation messages."""
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def stored(self) -> bool:
        """False for the review types, which are answered and forgotten."""
        return "get" in self.verbs

    @property
    def schema(self) -> dict[str, Any] | None:
        """The OpenAPI schema of a custom type in this version; None for a built-in one."""
        if self.definition is None:
            return None
        version = served_version(self.definition, self.version)
        schema: dict[str, Any] | None = (version or {}).get("schema", {}).get("openAPIV3Schema")
        return schema


def served_version(definition: dict[str, Any], name: str) -> dict[str, Any] | None:
    """The entry of `spec.versions` of that name, if it is served."""
    versions = definition.get("spec", {}).get("versions", [])
    return next((item for item in versions if item.get("name") == name and item.get("served")), None)


def _core(plural: str, kind: str, *short: str, **rest: Any) -> ResourceType:
    return _v1("", plural, kind, *short, **rest)


def _v1(group: str, plural: str, kind: str, *short: str, **rest: Any) -> ResourceType:
    rest = {"singular": kind.lower(), "namespaced": True, **rest}
    return ResourceType(group=group, version="v1", plural=plural, kind=kind, short_names=short, **rest)


def _review(group: str, kind: str) -> ResourceType:
    """A question, which is answered and not stored."""
    return _v1(group, f"{kind.lower()}s", kind, namespaced=False, verbs=("create",))


RBAC_GROUP = "rbac.authorization.k8s.io"

BUILT_IN: tuple[ResourceType, ...] = (
    _core("configmaps", "ConfigMap", "cm"),
    _core("events", "Event", "ev"),
    _core("namespaces", "Namespace", "ns", namespaced=False, has_status=True),
    _core("nodes", "Node", "no", namespaced=False, has_status=True),
    _core("pods", "Pod", "po", has_status=True, categories=("all",), subresources=("binding",)),
    _core("serviceaccounts", "ServiceAccount", "sa", subresources=("token",)),
    _core("services", "Service", "svc", has_status=True, categories=("all",)),
    # Stored only: no controller here makes pods or jobs of these two, and their status stays empty.
    _v1("apps", "deployments", "Deployment", "deploy", has_status=True, categories=("all",)),
    _v1("batch", "cronjobs", "CronJob", "cj", has_status=True, categories=("all",)),
    _v1("batch", "jobs", "Job", has_status=True, categories=("all",)),
    _v1("coordination.k8s.io", "leases", "Lease"),
    # Stored only: evictions in the simulator are by taint, which asks no budget in a real cluster either.
    _v1("policy", "poddisruptionbudgets", "PodDisruptionBudget", "pdb", has_status=True),
    _v1(RBAC_GROUP, "clusterrolebindings", "ClusterRoleBinding", namespaced=False),
    _v1(RBAC_GROUP, "clusterroles", "ClusterRole", namespaced=False),
    _v1(RBAC_GROUP, "rolebindings", "RoleBinding"),
    _v1(RBAC_GROUP, "roles", "Role"),
    _v1(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        "crd",
        "crds",
        namespaced=False,
        has_status=True,
        categories=("api-extensions",),
    ),
    _review("authentication.k8s.io", "SelfSubjectReview"),
    _review("authorization.k8s.io", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "SubjectAccessReview"),
)

NAMESPACES, NODES, PODS, SERVICE_ACCOUNTS = (
    next(item for item in BUILT_IN if item.plural == plural)
    for plural in ("namespaces", "nodes", "pods", "serviceaccounts")
)


class Registry:
    """Which types are served now: the built-in ones and those of the stored CustomResourceDefinitions."""

    def __init__(self, store: stores.Store) -> None:
        self._store = store
        self._revision = -1
        self._types: tuple[ResourceType, ...] = BUILT_IN
        store.subscribe(CRD_KEY, lambda *_event: self._forget())

    def types(self) -> tuple[ResourceType, ...]:
        """Every served type, one entry for each served version of a custom one."""
        if self._revision < 0:
            established = filter(is_established, self._store.list(CRD_KEY))
            custom = [item for definition in established for item in from_definition(definition)]
            self._types = (*BUILT_IN, *custom)
            self._revision = self._store.revision
        return self._types

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        """The type served at that path, or None."""
        wanted = (group, version, plural)
        return next(
            (item for item in self.types() if (item.group, item.version, item.plural) == wanted), None
        )

    def versions(self, group: str) -> tuple[str, ...]:
        """Served versions of a group, preferred first; empty if there is no such group."""
        return tuple(dict.fromkeys(item.version for item in self.types() if item.group == group))

    def groups(self) -> tuple[str, ...]:
        """Names of all groups but the core group, in order of registration."""
        return tuple(dict.fromkeys(item.group for item in self.types() if item.group))

    def _forget(self) -> None:
        self._revision = -1


def is_established(definition: dict[str, Any]) -> bool:
    conditions = definition.get("status", {}).get("conditions", [])
    return any(item.get("type") == "Established" and item.get("status") == "True" for item in conditions)


def from_definition(definition: dict[str, Any]) -> Iterator[ResourceType]:
    """The types that a CustomResourceDefinition serves, storage version first."""
    spec = definition["spec"]
    names = spec["names"]
    for version in sorted(spec["versions"], key=lambda item: not item.get("storage")):
        if version.get("served"):
            yield ResourceType(
                group=spec["group"],
                version=version["name"],
                plural=names["plural"],
                singular=names.get("singular") or names["kind"].lower(),
                kind=names["kind"],
                namespaced=spec["scope"] == "Namespaced",
                short_names=tuple(names.get("shortNames", ())),
                has_status="status" in (version.get("subresources") or {}),
                categories=tuple(names.get("categories", ())),
                custom=True,
                definition=definition,
            )
