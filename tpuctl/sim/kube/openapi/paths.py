"""The operations of a type, as OpenAPI describes them.

kubectl looks here before it writes: whether PATCH knows `fieldValidation`, which patches it takes, and of
which kind the objects at a path are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube.openapi import schemas

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim.kube import resources

Json = dict[str, Any]

JSON = "application/json"
PATCHES = ("application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml")
STRATEGIC = "application/strategic-merge-patch+json"

_BODY_READERS = ("dryRun", "fieldManager", "fieldValidation")
_SELECTION = (
    "labelSelector",
    "fieldSelector",
    "limit",
    "continue",
    "resourceVersion",
    "resourceVersionMatch",
)
_OPTIONS: dict[str, tuple[str, ...]] = {
    "get": (),
    "list": (*_SELECTION, "watch", "timeoutSeconds", "allowWatchBookmarks", "sendInitialEvents"),
    "create": _BODY_READERS,
    "update": _BODY_READERS,
    "patch": (*_BODY_READERS, "force"),
    "delete": ("dryRun", "gracePeriodSeconds", "propagationPolicy"),
    "deletecollection": (*_SELECTION, "dryRun", "gracePeriodSeconds", "propagationPolicy"),
}
"""Query parameters by Kubernetes verb."""

_TYPES = {"limit": "integer", "timeoutSeconds": "integer", "gracePeriodSeconds": "integer"}
_TYPES |= dict.fromkeys(("watch", "allowWatchBookmarks", "sendInitialEvents", "force"), "boolean")

_COLLECTION = {"get": "list", "post": "create", "delete": "deletecollection"}
_ITEM = {"get": "get", "put": "update", "patch": "patch", "delete": "delete"}
_STATUS = {"get": "get", "put": "update", "patch": "patch"}


def of(resource: resources.ResourceType) -> Json:
    """Path items by path."""
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    base = f"{root}/namespaces/{{namespace}}" if resource.namespaced else root
    collection = f"{base}/{resource.plural}"
    found = {collection: _path(resource, _COLLECTION, collection)}
    if resource.stored:
        found[f"{collection}/{{name}}"] = _path(resource, _ITEM, f"{collection}/{{name}}")
    if resource.has_status:
        found[f"{collection}/{{name}}/status"] = _path(resource, _STATUS, f"{collection}/{{name}}")
    if resource.namespaced and resource.stored:
        everywhere = f"{root}/{resource.plural}"
        found[everywhere] = _path(resource, {"get": "list"}, everywhere)
    return found


def _path(resource: resources.ResourceType, verbs: dict[str, str], path: str) -> Json:
    """One path; `verbs` are the Kubernetes verbs by HTTP method."""
    found: Json = {
        method: _operation(resource, verb) for method, verb in verbs.items() if verb in resource.verbs
    }
    variables = [name for name in ("name", "namespace") if f"{{{name}}}" in path]
    if variables:
        found["parameters"] = [_parameter(name, "path") for name in variables]
    return found


def _parameter(name: str, place: str) -> Json:
    required = {"required": True} if place == "path" else {}
    schema = {"type": _TYPES.get(name, "string"), "uniqueItems": True}
    return {"name": name, "in": place, **required, "schema": schema}


def _operation(resource: resources.ResourceType, verb: str) -> Json:
    ref = {"$ref": f"#/components/schemas/{schemas.name_of(resource)}{'List' if verb == 'list' else ''}"}
    operation: Json = {
        "tags": [resource.api_version],
        "x-kubernetes-action": {"create": "post", "update": "put"}.get(verb, verb),
        "x-kubernetes-group-version-kind": schemas.kind_mark(resource),
        "parameters": [_parameter(name, "query") for name in _OPTIONS[verb]],
        "responses": _responses(verb, ref),
    }
    if body := _body(resource, verb, ref):
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _responses(verb: str, ref: Json) -> Json:
    if verb in {"delete", "deletecollection"}:
        return {"200": {"description": "The object, or a Status."}}
    codes = {"create": ("201",), "update": ("200", "201"), "patch": ("200", "201")}.get(verb, ("200",))
    return {code: {"description": "OK", "content": {JSON: {"schema": ref}}} for code in codes}


def _body(resource: resources.ResourceType, verb: str, ref: Json) -> Json:
    if verb in {"create", "update"}:
        return _content([JSON], ref)
    if verb != "patch":
        return {}
    types = [*PATCHES] if resource.custom else [*PATCHES, STRATEGIC]
    return _content(types, {"type": "object"})


def _content(types: Iterable[str], schema: Json) -> Json:
    return {media_type: {"schema": schema} for media_type in types}
