"""Who is calling and what they may do.

The simulator issues bearer tokens. A request without credentials is `system:anonymous`, which reaches
authorization and fails there (403); a token nobody issued fails authentication (401).
"""

from __future__ import annotations

import dataclasses
import hmac
from typing import TYPE_CHECKING

from tpuctl.sim.kube import errors

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tpuctl.sim.kube import resources, targets

READ = frozenset({"get", "list", "watch"})
ANY = frozenset({"*"})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rule:
    """Verbs on resources of groups; "*" stands for all. A subresource is written `pods/binding`."""

    verbs: frozenset[str]
    groups: frozenset[str] = ANY
    resources: frozenset[str] = ANY

    def allows(self, verb: str, group: str, resource: str) -> bool:
        return all(
            "*" in allowed or asked in allowed
            for allowed, asked in ((self.verbs, verb), (self.groups, group), (self.resources, resource))
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Identity:
    """A caller."""

    user: str
    uid: str = ""
    groups: tuple[str, ...] = ("system:authenticated",)
    rules: tuple[Rule, ...] = ()
    paths: bool = True
    """Whether discovery and the other non-resource paths are open, as they are to everyone who signed in."""

    def may(self, verb: str, group: str, resource: str) -> bool:
        """Whether a rule allows it; `resource` includes the subresource."""
        return any(rule.allows(verb, group, resource) for rule in (*self.rules, *self._basic()))

    def may_get(self, path: str) -> bool:
        """Whether a non-resource path may be read."""
        return self.paths or path.strip("/").split("/")[0] in PUBLIC

    def _basic(self) -> tuple[Rule, ...]:
        return (BASIC,) if "system:authenticated" in self.groups else ()

    def to_json(self) -> dict[str, object]:
        """`userInfo` of a SelfSubjectReview."""
        shown = {"username": self.user, "uid": self.uid, "groups": list(self.groups)}
        return {name: value for name, value in shown.items() if value}


PUBLIC = frozenset({"version", "healthz", "livez", "readyz"})
"""Paths that need no credentials."""

BASIC = Rule(
    verbs=frozenset({"create"}),
    groups=frozenset({"authentication.k8s.io", "authorization.k8s.io"}),
    resources=frozenset({"selfsubjectreviews", "selfsubjectaccessreviews"}),
)
"""Everyone who signed in may ask about themselves."""

ANONYMOUS = Identity(user="system:anonymous", groups=("system:unauthenticated",), paths=False)


def admin(user: str = "admin") -> Identity:
    """May do everything."""
    return Identity(
        user=user, uid=user, groups=("system:masters", "system:authenticated"), rules=(Rule(verbs=ANY),)
    )


def viewer(user: str = "viewer") -> Identity:
    """May read everything and change nothing."""
    return Identity(user=user, uid=user, rules=(Rule(verbs=READ),))


def nobody(user: str = "nobody") -> Identity:
    """Is known, and may do nothing."""
    return Identity(user=user, uid=user)


class Auth:
    """The tokens issued, and whose they are. Tokens may be added and taken back while serving."""

    def __init__(self, tokens: Mapping[str, Identity]) -> None:
        self.tokens = dict(tokens)

    def identify(self, authorization: str | None) -> Identity:
        """The caller behind an Authorization header. Raises `ApiError` (401) for an unknown token."""
        if not authorization:
            return ANONYMOUS
        scheme, _, token = authorization.partition(" ")
        if scheme.lower() != "bearer":
            return ANONYMOUS
        for known, identity in self.tokens.items():
            if hmac.compare_digest(known.encode(), token.strip().encode()):
                return identity
        raise errors.unauthorized()


def check(
    identity: Identity, verb: str, target: targets.Target, resource: resources.ResourceType | None
) -> None:
    """Raise `ApiError` (403) unless the caller may do this."""
    asked = "/".join(filter(None, (target.plural, target.subresource)))
    if identity.may(verb, target.group, asked):
        return
    where = f'in the namespace "{target.namespace}"' if target.namespace else "at the cluster scope"
    why = f'User "{identity.user}" cannot {verb} resource "{asked}" in API group "{target.group}" {where}'
    shown = f"{target.plural}.{target.group}" if target.group else target.plural
    if resource is not None:
        raise errors.forbidden(resource, target.name, why)
    raise errors.ApiError(403, "Forbidden", f"{shown} is forbidden: {why}", details={})


def check_path(identity: Identity, path: str) -> None:
    """Raise `ApiError` (403) unless the caller may read this non-resource path."""
    if not identity.may_get(path):
        message = f'forbidden: User "{identity.user}" cannot get path "{path}"'
        raise errors.ApiError(403, "Forbidden", message, details={})
