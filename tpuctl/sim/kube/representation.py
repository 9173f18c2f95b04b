"""The forms objects are answered in: themselves, their metadata only, or a Table; as JSON or YAML."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any, Literal

import orjson
import yaml

from tpuctl.sim.kube import errors, tables

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.sim import clock as clocks
    from tpuctl.sim import store as stores
    from tpuctl.sim.kube import resources

Json = dict[str, Any]

JSON, YAML = "application/json", "application/yaml"
ACCEPTED = (JSON, YAML)
WILDCARDS = frozenset({"*/*", "application/*"})
SHAPES = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Form:
    """How the client wants objects."""

    shape: Literal["object", "metadata", "table"] = "object"
    media_type: str = JSON
    include: tables.Include = "Metadata"
    """What a Table's rows carry beside their cells."""


def negotiate(accept: str, include: str = "") -> Form:
    """The first form in an Accept header that is served. Raises `ApiError` (406, 400)."""
    for entry in (accept or "*/*").split(","):
        kind, *rest = (part.strip() for part in entry.split(";"))
        parameters = dict(part.split("=", 1) for part in rest if "=" in part)
        media_type = JSON if kind in WILDCARDS else kind
        if media_type not in ACCEPTED:
            continue
        if "as" not in parameters:
            return Form(media_type=media_type)
        asked = (parameters.get("g"), parameters.get("v"))
        if parameters["as"] in SHAPES and asked == ("meta.k8s.io", "v1"):
            return _transformed(SHAPES[parameters["as"]], media_type, include)
    raise errors.not_acceptable(ACCEPTED)


def _transformed(shape: str, media_type: str, include: str) -> Form:
    match include or "Metadata":
        case "Metadata" | "Object" | "None" as known:
            return Form(
                shape="table" if shape == "table" else "metadata", media_type=media_type, include=known
            )
    supported = '"Metadata", "None", "Object"'
    text = f'Unsupported value: "{include}": supported values: {supported}'
    raise errors.invalid_options(
        "TableOptions", [errors.Cause("FieldValueNotSupported", text, "includeObject")]
    )


@functools.cache
def _heads(resource: resources.ResourceType) -> tuple[bytes, ...]:
    """How the bytes of a stored object begin, in either order of its first two fields."""
    version, kind = f'"apiVersion":"{resource.api_version}",', f'"kind":"{resource.kind}",'
    return f"{{{version}{kind}".encode(), f"{{{kind}{version}".encode()


class Renderer:
    """Writes objects of the store as bytes."""

    def __init__(self, store: stores.Store, clock: clocks.Clock) -> None:
        self._store = store
        self._clock = clock

    def one(self, form: Form, resource: resources.ResourceType, obj: Json) -> bytes:
        """A single object."""
        if form.shape == "object":
            return _as(form, self._whole(resource, obj))
        if form.shape == "metadata":
            return _as(form, orjson.dumps(tables.partial(obj)))
        version = obj["metadata"].get("resourceVersion", "")
        return _as(form, self._table(form, resource, [obj], {"resourceVersion": version}))

    def many(
        self, form: Form, resource: resources.ResourceType, objects: Sequence[Json], metadata: Json
    ) -> bytes:
        """A list; `metadata` is its own (resourceVersion, continue, remainingItemCount)."""
        if form.shape == "table":
            return _as(form, self._table(form, resource, objects, metadata))
        if form.shape == "metadata":
            head: Json = {"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1"}
            items = [tables.partial(obj) for obj in objects]
            return _as(form, orjson.dumps({**head, "metadata": metadata, "items": items}))
        head = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}
        body = b",".join(self._items(resource, objects))
        return _as(form, b'%b,"items":[%b]}' % (orjson.dumps(head)[:-1], body))

    def event(
        self, form: Form, resource: resources.ResourceType, kind: str, obj: Json, *, first: bool
    ) -> bytes:
        """One line of a watch; `first` says whether a Table needs its columns."""
        if form.shape == "table":
            version = obj["metadata"].get("resourceVersion", "")
            shown = self._table(form, resource, [obj], {"resourceVersion": version}, headers=first)
        elif form.shape == "metadata":
            shown = orjson.dumps(tables.partial(obj))
        else:
            shown = self._whole(resource, obj)
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), shown)

    def _table(
        self,
        form: Form,
        resource: resources.ResourceType,
        objects: Sequence[Json],
        metadata: Json,
        *,
        headers: bool = True,
    ) -> bytes:
        if form.include == "Object":
            objects = [whole(resource, obj) for obj in objects]
        return orjson.dumps(
            tables.table(
                resource,
                objects,
                now=self._clock.now(),
                list_metadata=metadata,
                include=form.include,
                headers=headers,
            )
        )

    def _whole(self, resource: resources.ResourceType, obj: Json) -> bytes:
        data = self._store.encoded(obj)
        return data if data.startswith(_heads(resource)) else orjson.dumps(whole(resource, obj))

    def _items(self, resource: resources.ResourceType, objects: Iterable[Json]) -> Iterable[bytes]:
        """Items of a list: those of built-in types leave out their kind and version, as Go writes them."""
        if resource.custom:
            return (self._whole(resource, obj) for obj in objects)
        length = len(_heads(resource)[0])
        return (b"{" + self._whole(resource, obj)[length:] for obj in objects)


def whole(resource: resources.ResourceType, obj: Json) -> Json:
    """The object in the version asked for: versions of a type differ in nothing else here."""
    body = {name: value for name, value in obj.items() if name not in {"apiVersion", "kind"}}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def _as(form: Form, data: bytes) -> bytes:
    if form.media_type == JSON:
        return data
    text: str = yaml.safe_dump(orjson.loads(data), sort_keys=False, allow_unicode=True)
    return text.encode()
