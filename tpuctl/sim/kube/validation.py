"""Checks that every object passes: its metadata, and what an update may not change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube import builtin, errors, names, schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tpuctl.sim.kube import resources

Json = dict[str, Any]

MAX_ANNOTATION_BYTES = 256 * 1024
NAME_RULES: dict[str, Callable[[str], str | None]] = {
    "namespaces": names.label_problem,
    "services": names.service_problem,
    **dict.fromkeys(
        (f"{kind}.rbac.authorization.k8s.io" for kind in names.RBAC_KINDS), names.path_segment_problem
    ),
}
"""How objects may be called; a DNS subdomain if nothing is said here."""

KEPT = (
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generateName",
    "generation",
    "namespace",
    "selfLink",
    "uid",
)
"""Metadata that an update cannot change: what the client sends is replaced by what is stored."""


def invalid(reason: str, text: str, field: str) -> errors.Cause:
    return errors.Cause(f"FieldValue{reason}", text, field)


def bad_value(value: Any, why: str, field: str) -> errors.Cause:
    shown = f'"{value}"' if isinstance(value, str) else value
    return invalid("Invalid", f"Invalid value: {shown}: {why}", field)


def check_create(resource: resources.ResourceType, obj: Json) -> None:
    """Raise `ApiError` (422) if a new object breaks a rule."""
    causes = [*metadata_causes(resource, obj), *object_causes(resource, obj)]
    if causes:
        raise errors.invalid(resource, obj["metadata"].get("name", ""), causes)


def check_update(resource: resources.ResourceType, old: Json, new: Json) -> None:
    """Raise `ApiError` (422) if the new state, or the change to it, breaks a rule."""
    causes = [
        *metadata_causes(resource, new),
        *finalizer_causes(old, new),
        *object_causes(resource, new),
        *builtin.update_causes(resource.key, old, new),
    ]
    if causes:
        raise errors.invalid(resource, new["metadata"]["name"], causes)


def object_causes(resource: resources.ResourceType, obj: Json) -> Iterator[errors.Cause]:
    """What breaks the rules of the type."""
    if resource.schema is not None:
        body = {name: value for name, value in obj.items() if name != "metadata"}
        yield from schema.causes(body, resource.schema)
    else:
        yield from builtin.causes(resource.key, obj)


def metadata_causes(resource: resources.ResourceType, obj: Json) -> Iterator[errors.Cause]:
    """What breaks the rules for names, labels, annotations, finalizers and owners."""
    metadata = obj["metadata"]
    yield from _name_causes(resource, metadata)
    for key, value in (metadata.get("labels") or {}).items():
        if problem := names.qualified_problem(key):
            yield bad_value(key, problem, "metadata.labels")
        if problem := names.label_value_problem(value):
            yield bad_value(value, problem, "metadata.labels")
    yield from _annotation_causes(metadata.get("annotations") or {})
    for finalizer in metadata.get("finalizers") or []:
        if problem := names.qualified_problem(finalizer):
            yield bad_value(finalizer, problem, "metadata.finalizers")
    yield from _owner_causes(metadata.get("ownerReferences") or [])


def _name_causes(resource: resources.ResourceType, metadata: Json) -> Iterator[errors.Cause]:
    name = metadata.get("name", "")
    if not name:
        text = "Required value: name or generateName is required"
        yield invalid("Required", text, "metadata.name")
    elif problem := NAME_RULES.get(resource.key, names.subdomain_problem)(name):
        yield bad_value(name, problem, "metadata.name")


def _annotation_causes(annotations: Json) -> Iterator[errors.Cause]:
    for key in annotations:
        if problem := names.qualified_problem(key.lower()):
            yield bad_value(key, problem, "metadata.annotations")
    size = sum(len(key.encode()) + len(str(value).encode()) for key, value in annotations.items())
    if size > MAX_ANNOTATION_BYTES:
        text = f"Too long: may not be more than {MAX_ANNOTATION_BYTES} bytes"
        yield invalid("TooLong", text, "metadata.annotations")


def _owner_causes(owners: list[Json]) -> Iterator[errors.Cause]:
    for place, owner in enumerate(owners):
        for field in ("apiVersion", "kind", "name", "uid"):
            if not owner.get(field):
                path = f"metadata.ownerReferences[{place}].{field}"
                yield invalid("Required", "Required value: must not be empty", path)
    if sum(bool(owner.get("controller")) for owner in owners) > 1:
        why = "Only one reference can have Controller set to true"
        yield bad_value("controller", why, "metadata.ownerReferences")


def finalizer_causes(old: Json, new: Json) -> Iterator[errors.Cause]:
    """An object marked for deletion gets no further finalizers."""
    if "deletionTimestamp" not in old["metadata"]:
        return
    before = old["metadata"].get("finalizers") or []
    added = [item for item in new["metadata"].get("finalizers") or [] if item not in before]
    if added:
        shown = ", ".join(f'"{item}"' for item in added)
        text = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{shown}}}"
        )
        yield invalid("Forbidden", text, "metadata.finalizers")


def keep_metadata(old: Json, new: Json) -> None:
    """Set, in place, the metadata that an update cannot change."""
    for name in KEPT:
        new["metadata"].pop(name, None)
        if name in old["metadata"]:
            new["metadata"][name] = old["metadata"][name]
