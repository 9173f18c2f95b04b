"""The shape of objects: which fields there are, of what type, and how lists and maps are merged.

Built-in kinds take theirs from `fields.json` (`Kind: {field: type}`; a type is string, integer, boolean,
number, time, any, another kind, `[]type` or `{}type`), custom ones from the schema of their definition.
Pruning, strategic merge and server-side apply all walk an object beside its shape.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
from typing import TYPE_CHECKING, Any, Literal

import orjson

if TYPE_CHECKING:
    from tpuctl.sim.kube import resources

Kind = Literal["struct", "map", "list", "scalar", "any"]
SCALARS = frozenset({"string", "integer", "boolean", "number", "time", "quantity"})
QUANTITIES = frozenset({"allocatable", "capacity", "divisor", "limits", "overhead", "requests", "sizeLimit"})
"""Fields of resource amounts: the published document calls them strings, but numbers are taken as well."""

ASSOCIATIVE: dict[tuple[str, str], tuple[str, ...]] = {
    ("Container", "env"): ("name",),
    ("Container", "ports"): ("containerPort", "protocol"),
    ("Container", "volumeDevices"): ("devicePath",),
    ("Container", "volumeMounts"): ("mountPath",),
    ("CustomResourceDefinitionStatus", "conditions"): ("type",),
    ("DeploymentStatus", "conditions"): ("type",),
    ("NamespaceStatus", "conditions"): ("type",),
    ("NodeStatus", "addresses"): ("type",),
    ("NodeStatus", "conditions"): ("type",),
    ("ObjectMeta", "ownerReferences"): ("uid",),
    ("PodDisruptionBudgetStatus", "conditions"): ("type",),
    ("PodSpec", "containers"): ("name",),
    ("PodSpec", "ephemeralContainers"): ("name",),
    ("PodSpec", "hostAliases"): ("ip",),
    ("PodSpec", "imagePullSecrets"): ("name",),
    ("PodSpec", "initContainers"): ("name",),
    ("PodSpec", "topologySpreadConstraints"): ("topologyKey", "whenUnsatisfiable"),
    ("PodSpec", "volumes"): ("name",),
    ("PodStatus", "conditions"): ("type",),
    ("PodStatus", "podIPs"): ("ip",),
    ("ServiceAccount", "secrets"): ("name",),
    ("ServiceSpec", "ports"): ("port", "protocol"),
    ("ServiceStatus", "conditions"): ("type",),
}
"""Lists that server-side apply merges item by item, and the fields that tell items apart."""

SETS = frozenset({("ObjectMeta", "finalizers"), ("NodeSpec", "podCIDRs")})
"""Lists of scalars that server-side apply merges as sets; strategic merge too."""

ATOMIC_KINDS = frozenset(
    {
        "ConfigMapKeySelector",
        "FieldsV1",
        "LabelSelector",
        "LocalObjectReference",
        "NodeSelector",
        "NodeSelectorTerm",
        "ObjectFieldSelector",
        "ObjectReference",
        "ResourceFieldSelector",
        "RoleRef",
        "SecretKeySelector",
        "SecretReference",
        "Subject",
        "TypedLocalObjectReference",
    }
)
ATOMIC_MAPS = frozenset({("PodSpec", "nodeSelector"), ("ServiceSpec", "selector")})

STRATEGIC_KEYS: dict[tuple[str, str], str] = {
    **{place: keys[0] for place, keys in ASSOCIATIVE.items()},
    ("PodSpec", "topologySpreadConstraints"): "topologyKey",
    ("JobStatus", "conditions"): "type",
    ("ServiceAccount", "imagePullSecrets"): "name",
}
"""Lists of objects that a strategic merge patch merges, by this one field; all others it replaces."""

PORT_DEFAULTS = {"protocol": "TCP"}
"""Key fields that count as this where an item leaves them out."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """What may stand at one place of an object."""

    kind: Kind
    scalar: str = ""
    """JSON type, if `kind` is scalar."""
    name: str = ""
    """Built-in kind, if this is one."""
    schema: dict[str, Any] | None = dataclasses.field(default=None, compare=False)
    """Schema, if this is part of a custom type."""
    element: str = ""
    """Type of the items of a built-in list or map."""
    place: tuple[str, str] = ("", "")
    """(kind, field) where a built-in list or map stands."""
    keys: tuple[str, ...] = ()
    """Fields that identify an item of an associative list."""
    is_set: bool = False
    atomic: bool = False
    """Whether server-side apply treats the whole as one value."""
    closed: bool = True
    """Whether fields that are not declared are dropped."""

    def field(self, name: str) -> Shape | None:
        """Shape of a field of a struct or a value of a map; None if there is no such field."""
        if self.kind == "map":
            return self.item()
        if self.schema is not None:
            return _schema_field(self.schema, name)
        kind = fields_of(self.name).get(name)
        return built_in(kind, (self.name, name)) if kind else None

    def item(self) -> Shape:
        """Shape of the items of a list, or of the values of a map."""
        if self.schema is not None:
            below = self.schema.get("items" if self.kind == "list" else "additionalProperties")
            return from_schema(below) if isinstance(below, dict) else ANY
        return built_in(self.element, ("", ""))

    def known(self, name: str) -> bool:
        """Whether a struct declares the field."""
        if self.schema is not None:
            return name in self.schema.get("properties", {}) or name in self.schema.get(ROOT, ())
        return name in fields_of(self.name)


ANY = Shape("any", closed=False, atomic=True)
ROOT = "x-root"
"""Marks the schema of a whole object, whose apiVersion, kind and metadata are built in."""
ROOT_FIELDS = ("apiVersion", "kind", "metadata")


@functools.cache
def _all_fields() -> dict[str, dict[str, str]]:
    raw = importlib.resources.files(__package__).joinpath("fields.json").read_bytes()
    fields: dict[str, dict[str, str]] = orjson.loads(raw)
    return fields


def fields_of(kind: str) -> dict[str, str]:
    """Fields of a built-in kind and their types; empty if the kind is not known."""
    return _all_fields().get(kind, {})


@functools.cache
def built_in(kind: str, place: tuple[str, str]) -> Shape:
    """Shape of a built-in type standing at `place` (its owner and field)."""
    if place[1] in QUANTITIES and kind in {"string", "{}string"}:
        kind = kind.replace("string", "quantity")
    if kind in SCALARS:
        return Shape("scalar", scalar=kind)
    if kind.startswith("[]"):
        keys = ASSOCIATIVE.get(place, ())
        is_set = place in SETS
        return Shape(
            "list", element=kind[2:], place=place, keys=keys, is_set=is_set, atomic=not keys and not is_set
        )
    if kind.startswith("{}"):
        return Shape("map", element=kind[2:], place=place, atomic=place in ATOMIC_MAPS)
    if kind in _all_fields():
        return Shape("struct", name=kind, atomic=kind in ATOMIC_KINDS)
    return ANY


def of(resource: resources.ResourceType) -> Shape:
    """Shape of the objects of a type."""
    if resource.schema is not None:
        return from_schema({**resource.schema, ROOT: ROOT_FIELDS})
    return built_in(resource.kind, ("", ""))


def from_schema(schema: dict[str, Any]) -> Shape:
    """Shape of a value that an OpenAPI schema describes."""
    if schema.get("x-kubernetes-int-or-string"):
        return ANY
    match schema.get("type"):
        case "object":
            return _object_shape(schema)
        case "array":
            listing = schema.get("x-kubernetes-list-type", "atomic")
            keys = tuple(schema.get("x-kubernetes-list-map-keys", ())) if listing == "map" else ()
            return Shape(
                "list", schema=schema, keys=keys, is_set=listing == "set", atomic=listing == "atomic"
            )
        case None:
            return ANY
        case scalar:
            return Shape("scalar", scalar=scalar, schema=schema)


def _object_shape(schema: dict[str, Any]) -> Shape:
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    if schema.get("additionalProperties"):
        return Shape("map", schema=schema, atomic=atomic)
    closed = not schema.get("x-kubernetes-preserve-unknown-fields")
    return Shape("struct", schema=schema, atomic=atomic, closed=closed)


def _schema_field(schema: dict[str, Any], name: str) -> Shape | None:
    if name == "metadata" and ROOT in schema:
        return built_in("ObjectMeta", ("", ""))
    if name in schema.get(ROOT, ()):
        return built_in("string", ("", ""))
    below = schema.get("properties", {}).get(name)
    if below is not None:
        return from_schema(below)
    return ANY if schema.get("x-kubernetes-preserve-unknown-fields") else None
