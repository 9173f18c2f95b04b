"""Rules of the types that say who may do what: roles and bindings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import resources
from tpuctl.sim.kube.causes import bad, forbidden, required, unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpuctl.sim.kube import errors

Json = dict[str, Any]

GROUP = resources.RBAC_GROUP
SUBJECTS = ("ServiceAccount", "User", "Group")


def role(obj: Json) -> Iterator[errors.Cause]:
    """A Role: its rules are about things in its namespace."""
    for place, rule in enumerate(obj.get("rules") or []):
        path = f"rules[{place}]"
        if rule.get("nonResourceURLs"):
            why = "namespaced rules cannot apply to non-resource URLs"
            yield bad(rule["nonResourceURLs"], why, f"{path}.nonResourceURLs")
        else:
            yield from _rule(rule, path)


def cluster_role(obj: Json) -> Iterator[errors.Cause]:
    """A ClusterRole."""
    if obj.get("aggregationRule"):
        yield forbidden("the simulator does not aggregate cluster roles", "aggregationRule")
    for place, rule in enumerate(obj.get("rules") or []):
        yield from _rule(rule, f"rules[{place}]")


def _rule(rule: Json, path: str) -> Iterator[errors.Cause]:
    if not rule.get("verbs"):
        yield required(f"{path}.verbs", "verbs must contain at least one value")
    if rule.get("nonResourceURLs"):
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            why = "rules cannot apply to both regular resources and non-resource URLs"
            yield bad(rule["nonResourceURLs"], why, f"{path}.nonResourceURLs")
        return
    if not rule.get("apiGroups"):
        yield required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        yield required(f"{path}.resources", "resource rules must supply at least one resource")


def role_binding(obj: Json) -> Iterator[errors.Cause]:
    """A RoleBinding."""
    return _binding(obj, ("Role", "ClusterRole"))


def cluster_role_binding(obj: Json) -> Iterator[errors.Cause]:
    """A ClusterRoleBinding: to a ClusterRole only."""
    return _binding(obj, ("ClusterRole",))


def _binding(obj: Json, kinds: tuple[str, ...]) -> Iterator[errors.Cause]:
    ref = obj.get("roleRef") or {}
    if ref.get("apiGroup", GROUP) != GROUP:
        yield unsupported(ref["apiGroup"], (GROUP,), "roleRef.apiGroup")
    if ref.get("kind", "") not in kinds:
        yield unsupported(ref.get("kind", ""), kinds, "roleRef.kind")
    if not ref.get("name"):
        yield required("roleRef.name")
    for place, subject in enumerate(obj.get("subjects") or []):
        yield from _subject(subject, f"subjects[{place}]")


def _subject(subject: Json, path: str) -> Iterator[errors.Cause]:
    if not subject.get("name"):
        yield required(f"{path}.name")
    kind = subject.get("kind", "")
    if kind not in SUBJECTS:
        yield unsupported(kind, SUBJECTS, f"{path}.kind")
        return
    wanted = "" if kind == "ServiceAccount" else GROUP
    if subject.get("apiGroup", wanted) != wanted:
        yield unsupported(subject["apiGroup"], (wanted,), f"{path}.apiGroup")
    if kind == "ServiceAccount" and not subject.get("namespace"):
        yield required(f"{path}.namespace")


def binding_update(old: Json, new: Json) -> Iterator[errors.Cause]:
    """A binding stays with its role: another role would change what its subjects were granted."""
    if old["roleRef"] != new["roleRef"]:
        yield bad(new["roleRef"], "cannot change roleRef", "roleRef")


RULES: dict[str, Callable[[Json], Iterator[errors.Cause]]] = {
    f"clusterrolebindings.{GROUP}": cluster_role_binding,
    f"clusterroles.{GROUP}": cluster_role,
    f"rolebindings.{GROUP}": role_binding,
    f"roles.{GROUP}": role,
}
UPDATE_RULES: dict[str, Callable[[Json, Json], Iterator[errors.Cause]]] = {
    f"clusterrolebindings.{GROUP}": binding_update,
    f"rolebindings.{GROUP}": binding_update,
}
