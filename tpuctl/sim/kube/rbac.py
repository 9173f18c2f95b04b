"""Role-based access control: what the stored roles and bindings allow.

Follows the published rules of Kubernetes' RBAC authorizer: permissions only add up, a ClusterRoleBinding
gives the rules of a ClusterRole everywhere, a RoleBinding gives those of a Role or ClusterRole in its own
namespace, and a binding to a role that is not there gives nothing and is mentioned in the refusal.

Of the check against privilege escalation only the shortcut is here: whoever writes roles needs the verb
`escalate`, whoever writes bindings the verb `bind`. Comparing the rules themselves is not implemented, so
other writers (but system:masters) get 501 where a real server would compare.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import access, auth, errors, resources, service_accounts

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from tpuctl.sim import store as stores

Json = dict[str, Any]
Attributes = access.Attributes

GROUP = resources.RBAC_GROUP
ROLES, ROLE_BINDINGS = f"roles.{GROUP}", f"rolebindings.{GROUP}"
CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS = f"clusterroles.{GROUP}", f"clusterrolebindings.{GROUP}"
GUARDED = {
    "roles": "escalate",
    "clusterroles": "escalate",
    "rolebindings": "bind",
    "clusterrolebindings": "bind",
}
"""Verb that lets somebody write objects of these types whatever is in them."""
WRITES = frozenset({"create", "update", "patch"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Decision:
    """Whether something is allowed, and by what."""

    allowed: bool
    reason: str = ""
    """The binding that allows it, or which roles could not be found."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Grant:
    """The rules that one binding gives somebody."""

    rules: tuple[Json, ...]
    source: str
    """The binding in words, for people."""


class Rbac:
    """Decides from what is stored at this moment."""

    def __init__(self, store: stores.Store) -> None:
        self._store = store

    def decide(self, identity: auth.Identity, asked: Attributes) -> Decision:
        """Whether somebody may do something."""
        if auth.MASTERS in identity.groups:
            return Decision(allowed=True)
        missing: list[str] = []
        for grant in self.grants(identity, asked.namespace, missing):
            if any(allows(rule, asked) for rule in grant.rules):
                return Decision(allowed=True, reason=f"RBAC: allowed by {grant.source}")
        return Decision(allowed=False, reason=_complaint(missing))

    def check(self, identity: auth.Identity, asked: Attributes) -> Decision:
        """`decide`, and raise `ApiError` (403) if it is not allowed, 501 if only a real server could tell."""
        decision = self.decide(identity, asked)
        if not decision.allowed:
            raise access.refusal(identity, asked, decision.reason)
        if asked.group == GROUP and asked.verb in WRITES and asked.resource in GUARDED:
            self._check_escalation(identity, asked)
        return decision

    def grants(self, identity: auth.Identity, namespace: str, missing: list[str]) -> Iterator[Grant]:
        """What bindings give somebody in a namespace, or for the whole cluster if it is empty.

        Roles that are not there are added to `missing`.
        """
        bound = [(binding, "") for binding in self._store.list(CLUSTER_ROLE_BINDINGS)]
        if namespace:
            bound += [(binding, namespace) for binding in self._store.list(ROLE_BINDINGS, namespace)]
        for binding, inside in bound:
            subject = _matching(binding.get("subjects") or (), identity, inside)
            if subject is None:
                continue
            role = self._role(binding["roleRef"], inside)
            if role is None:
                missing.append(_not_found(binding["roleRef"]))
            else:
                rules = tuple(role.get("rules") or ())
                yield Grant(rules=rules, source=_described(binding, inside, subject))

    def _role(self, ref: Json, namespace: str) -> Json | None:
        if ref["kind"] == "ClusterRole":
            return self._store.get(CLUSTER_ROLES, None, ref["name"])
        return self._store.get(ROLES, namespace, ref["name"])

    def _check_escalation(self, identity: auth.Identity, asked: Attributes) -> None:
        needed = dataclasses.replace(asked, verb=GUARDED[asked.resource])
        if not self.decide(identity, needed).allowed:
            raise errors.not_implemented(
                f"comparing rules with those of their writer, who lacks the verb {needed.verb}"
            )


def allows(rule: Json, asked: Attributes) -> bool:
    """Whether one rule allows it."""
    if not _has(rule.get("verbs"), asked.verb):
        return False
    if asked.path:
        return any(_covers_path(pattern, asked.path) for pattern in rule.get("nonResourceURLs") or ())
    names = rule.get("resourceNames") or ()
    return (
        _has(rule.get("apiGroups"), asked.group)
        and _covers_resource(rule.get("resources") or (), asked)
        and (not names or asked.name in names)
    )


def _has(listed: Collection[str] | None, wanted: str) -> bool:
    return listed is not None and ("*" in listed or wanted in listed)


def _covers_resource(listed: Collection[str], asked: Attributes) -> bool:
    """`pods` does not include `pods/binding`; `*` includes everything, `*/scale` that part of everything."""
    if "*" in listed or asked.full_resource in listed:
        return True
    return bool(asked.subresource) and f"*/{asked.subresource}" in listed


def _covers_path(pattern: str, path: str) -> bool:
    if pattern in ("*", path):
        return True
    return pattern.endswith("*") and path.startswith(pattern.rstrip("*"))


def _matching(subjects: Iterable[Json], identity: auth.Identity, namespace: str) -> Json | None:
    """The first subject that is this caller."""
    return next((subject for subject in subjects if _is(subject, identity, namespace)), None)


def _is(subject: Json, identity: auth.Identity, namespace: str) -> bool:
    match subject["kind"]:
        case "User":
            return bool(subject["name"] == identity.user)
        case "Group":
            return subject["name"] in identity.groups
        case "ServiceAccount":
            inside = subject.get("namespace") or namespace
            return bool(inside) and service_accounts.user_name(inside, subject["name"]) == identity.user
    return False


def _described(binding: Json, namespace: str, subject: Json) -> str:
    name, ref = binding["metadata"]["name"], binding["roleRef"]
    kind, shown = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
    who = subject["name"]
    if subject["kind"] == "ServiceAccount":
        who = f"{who}/{subject.get('namespace') or namespace}"
    return f'{kind} "{shown}" of {ref["kind"]} "{ref["name"]}" to {subject["kind"]} "{who}"'


def _not_found(ref: Json) -> str:
    plural = "clusterrole" if ref["kind"] == "ClusterRole" else "role"
    return f'{plural}.{GROUP} "{ref["name"]}" not found'


def _complaint(missing: list[str]) -> str:
    if not missing:
        return ""
    told = list(dict.fromkeys(missing))
    return f"RBAC: {told[0]}" if len(told) == 1 else f"RBAC: [{', '.join(told)}]"
