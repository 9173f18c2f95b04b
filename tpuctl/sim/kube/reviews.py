"""Questions that are answered and not stored: who am I, may I, may they."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim import store as stores
from tpuctl.sim.kube import access, auth, errors, rbac

if TYPE_CHECKING:
    import datetime
    from collections.abc import Iterator

    from tpuctl.sim.kube import resources

Json = dict[str, Any]

_ONE_OF = "exactly one of nonResourceAttributes or resourceAttributes must be specified"


def answer(
    resource: resources.ResourceType,
    review: Json,
    identity: auth.Identity,
    policy: rbac.Rbac,
    now: datetime.datetime,
) -> Json:
    """The review with its status filled in. Raises `ApiError` (400, 422)."""
    head = {"kind": resource.kind, "apiVersion": resource.api_version}
    spec = review.get("spec") or {}
    match resource.plural:
        case "selfsubjectreviews":
            metadata = {"creationTimestamp": stores.timestamp(now)}
            return {**head, "metadata": metadata, "status": {"userInfo": identity.to_json()}}
        case "selfsubjectrulesreviews":
            return {**head, "metadata": {}, "spec": {}, "status": _rules(spec, identity, policy)}
        case "subjectaccessreviews":
            causes = [*_question_causes(spec), *_subject_causes(spec)]
            asker = _subject(spec)
        case _:
            causes, asker = [*_question_causes(spec)], identity
    if causes:
        raise errors.invalid(resource, "", causes)
    return {**head, "metadata": {}, "spec": spec, "status": _access(policy.decide(asker, _question(spec)))}


def _access(decision: rbac.Decision) -> Json:
    status: Json = {"allowed": decision.allowed}
    return {**status, "reason": decision.reason} if decision.reason else status


def _question(spec: Json) -> access.Attributes:
    path: Json | None = spec.get("nonResourceAttributes")
    if path is not None:
        return access.Attributes(verb=path.get("verb", ""), path=path.get("path", ""))
    about: Json = spec["resourceAttributes"]
    names = ("verb", "group", "version", "resource", "subresource", "namespace", "name")
    return access.Attributes(**{name: about.get(name, "") for name in names})


def _question_causes(spec: Json) -> Iterator[errors.Cause]:
    about, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if about is None and path is None:
        text = f"Invalid value: null: {_ONE_OF}"
        yield errors.Cause("FieldValueInvalid", text, "spec.resourceAttributes")
    elif about is not None and path is not None:
        text = "Invalid value: cannot be specified in combination with resourceAttributes"
        yield errors.Cause("FieldValueInvalid", text, "spec.nonResourceAttributes")
    elif path is not None and not path.get("path"):
        yield errors.Cause("FieldValueRequired", "Required value", "spec.nonResourceAttributes.path")


def _subject_causes(spec: Json) -> Iterator[errors.Cause]:
    if not spec.get("user") and not spec.get("groups"):
        text = 'Invalid value: "": at least one of user or group must be specified'
        yield errors.Cause("FieldValueInvalid", text, "spec.user")


def _subject(spec: Json) -> auth.Identity:
    """Exactly what was named: no group is added, as in a real server."""
    groups = tuple(spec.get("groups") or ())
    return auth.Identity(user=spec.get("user", ""), uid=spec.get("uid", ""), groups=groups)


def _rules(spec: Json, identity: auth.Identity, policy: rbac.Rbac) -> Json:
    """What `kubectl auth can-i --list` shows."""
    namespace = spec.get("namespace")
    if not namespace:
        raise errors.bad_request("no namespace on request")
    missing: list[str] = []
    rules = [rule for grant in policy.grants(identity, namespace, missing) for rule in grant.rules]
    status: Json = {
        "resourceRules": [rule for rule in rules if rule.get("resources")],
        "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
        "incomplete": False,
    }
    return {**status, "evaluationError": ", ".join(missing)} if missing else status
