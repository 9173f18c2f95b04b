"""Schemas of what the simulated server stores.

Custom types bring theirs in the CustomResourceDefinition. Those of the built-in types are put together from
their shapes (fields, types, merge keys) and from `descriptions.yaml`.
"""

from __future__ import annotations

import functools
import importlib.resources
from typing import TYPE_CHECKING, Any

import yaml

from tpuctl.sim.kube import shapes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tpuctl.sim.kube import resources

Json = dict[str, Any]

_GROUPS = {
    "apiextensions.k8s.io": "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions",
    "authentication.k8s.io": "io.k8s.api.authentication",
    "authorization.k8s.io": "io.k8s.api.authorization",
    "apps": "io.k8s.api.apps",
    "batch": "io.k8s.api.batch",
    "coordination.k8s.io": "io.k8s.api.coordination",
    "": "io.k8s.api.core",
    "policy": "io.k8s.api.policy",
    "rbac.authorization.k8s.io": "io.k8s.api.rbac",
}
"""First part of the names that a real server gives to schemas of a built-in group."""

_PART = "io.k8s.part."
"""First part of the names of all other built-in schemas; no client looks those up by name."""

_RETAINING = frozenset({("PodSpec", "volumes")})
"""Lists whose items are unions: a patch that sets one member drops the others."""

_LEAVES: Json = {
    "string": {"type": "string"},
    "integer": {"type": "integer", "format": "int64"},
    "boolean": {"type": "boolean"},
    "number": {"type": "number", "format": "double"},
    "time": {"type": "string", "format": "date-time"},
    # `kubectl explain --recursive` fails on an empty schema.
    "any": {"x-kubernetes-preserve-unknown-fields": True},
}
_COMMON = {
    "apiVersion": "Group and version of the object.",
    "kind": "Kind of the object.",
    "metadata": "Name, labels and the like.",
}
_LIST_META: Json = {
    "type": "object",
    "description": "What every list carries.",
    "properties": {
        "resourceVersion": {"type": "string", "description": "Revision that the list shows."},
        "continue": {"type": "string", "description": "Token for the next page, if there is one."},
        "remainingItemCount": {"type": "integer", "description": "Objects on the pages that follow."},
    },
}


def name_of(resource: resources.ResourceType) -> str:
    """Name of a type's schema; a custom type is named by its group, backwards."""
    group = _GROUPS.get(resource.group) or ".".join(reversed(resource.group.split(".")))
    return f"{group}.{resource.version}.{resource.kind}"


def kind_mark(resource: resources.ResourceType) -> Json:
    """Value of the extension `x-kubernetes-group-version-kind`, by which clients find a kind."""
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def of(types: Iterable[resources.ResourceType]) -> Json:
    """Schemas of these types and of all they are made of, by name."""
    types = tuple(types)
    found: Json = {f"{_PART}ListMeta": _LIST_META}
    parts = {"ObjectMeta"}
    for resource in types:
        found[name_of(resource)] = _marked(resource)
        if "list" in resource.verbs:
            found[f"{name_of(resource)}List"] = _list(resource)
        if not resource.custom:
            parts |= _kinds_in(resource.kind)
    return found | {f"{_PART}{kind}": _built_in(kind) for kind in sorted(_closure(parts))}


def _closure(kinds: set[str]) -> set[str]:
    """`kinds` and all kinds below them."""
    known: set[str] = set()
    while kinds:
        known |= kinds
        kinds = {below for kind in kinds for below in _kinds_in(kind)} - known
    return known


def _kinds_in(kind: str) -> set[str]:
    types = (_element(declared)[1] for declared in shapes.fields_of(kind).values())
    return {name for name in types if shapes.fields_of(name)}


def _element(declared: str) -> tuple[str, str]:
    """Split a declared type into its containers (`[]`, `{}`) and the type of what is inside."""
    inner = declared.lstrip("[]{}")
    return declared.removesuffix(inner), inner


@functools.cache
def _descriptions() -> dict[str, dict[str, str]]:
    text = importlib.resources.files(__package__).joinpath("descriptions.yaml").read_text(encoding="utf-8")
    loaded: dict[str, dict[str, str]] = yaml.safe_load(text)
    return loaded


def _built_in(kind: str) -> Json:
    texts = _descriptions().get(kind, {})
    properties = {
        field: _described(_field(kind, field, declared), texts.get(field))
        for field, declared in shapes.fields_of(kind).items()
    }
    return _described({"type": "object", "properties": properties}, texts.get(""))


def _described(schema: Json, text: str | None) -> Json:
    if text is None:
        return schema
    # Beside a bare reference, OpenAPI ignores a description.
    schema = {"allOf": [schema]} if "$ref" in schema else schema
    return {"description": text, **schema}


def _field(kind: str, field: str, declared: str) -> Json:
    containers, inner = _element(declared)
    schema: Json = _LEAVES.get(inner) or _ref(f"{_PART}{inner}")
    for container in reversed(list(_pairs(containers))):
        if container == "[]":
            schema = {"type": "array", "items": schema}
        else:
            schema = {"type": "object", "additionalProperties": schema}
    return {**schema, **_merging(kind, field)} if containers.startswith("[]") else schema


def _pairs(containers: str) -> Iterator[str]:
    return (containers[start : start + 2] for start in range(0, len(containers), 2))


def _merging(kind: str, field: str) -> Json:
    """How the list at a field is merged by strategic merge patches."""
    place = (kind, field)
    if place in shapes.SETS:
        return {"x-kubernetes-patch-strategy": "merge"}
    key = shapes.STRATEGIC_KEYS.get(place)
    if key is None:
        return {}
    strategy = "merge,retainKeys" if place in _RETAINING else "merge"
    return {"x-kubernetes-patch-merge-key": key, "x-kubernetes-patch-strategy": strategy}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _marked(resource: resources.ResourceType) -> Json:
    """Schema of a type with the fields and the mark that every object of the API has."""
    schema = _built_in(resource.kind) if resource.schema is None else resource.schema
    own = {name: field for name, field in schema.get("properties", {}).items() if name not in _COMMON}
    mark = {"x-kubernetes-group-version-kind": [kind_mark(resource)]}
    return {**schema, "properties": {**_head("ObjectMeta"), **own}, **mark}


def _head(metadata: str) -> Json:
    schemas = {
        "apiVersion": _LEAVES["string"],
        "kind": _LEAVES["string"],
        "metadata": _ref(f"{_PART}{metadata}"),
    }
    return {name: _described(schema, _COMMON[name]) for name, schema in schemas.items()}


def _list(resource: resources.ResourceType) -> Json:
    items = {"type": "array", "items": _ref(name_of(resource))}
    return {
        "type": "object",
        "description": f"A list of {resource.plural}.",
        "required": ["items"],
        "properties": {**_head("ListMeta"), "items": items},
        "x-kubernetes-group-version-kind": [{**kind_mark(resource), "kind": resource.list_kind}],
    }
