"""Request bodies: from bytes to an object of the type the path names."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import orjson
import yaml

from tpuctl.sim.kube import conform, errors, protobuf, shapes

if TYPE_CHECKING:
    from tpuctl.sim.kube import resources

Json = dict[str, Any]

MAX_BYTES = 3 * 1024 * 1024
JSON, YAML = "application/json", "application/yaml"
JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH = (
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
    "application/apply-patch+yaml",
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Body:
    """What came with a request."""

    content_type: str
    """Media type without parameters; empty if the client gave none."""
    data: bytes

    @classmethod
    def of(cls, content_type: str, data: bytes) -> Body:
        """Raises `ApiError` (413) if it is too long."""
        if len(data) > MAX_BYTES:
            raise errors.body_too_large(MAX_BYTES)
        return cls(content_type=content_type.split(";", 1)[0].strip().lower(), data=data)

    def parse(self, *, as_yaml: bool = False) -> Any:
        """The document. Raises ValueError, and for protobuf `ApiError` (400, 415)."""
        if self.content_type == protobuf.MEDIA_TYPE:
            return protobuf.decode(self.data, [JSON, YAML])
        if as_yaml:
            try:
                # JSON is YAML, and far quicker to read; YAML's dates become text again on the way.
                return orjson.loads(self.data)
            except orjson.JSONDecodeError:
                return orjson.loads(orjson.dumps(_load_yaml(self.data), option=orjson.OPT_UTC_Z))
        return orjson.loads(self.data)


def _load_yaml(data: bytes) -> Any:
    try:
        return yaml.load(data, Loader=_Loader)  # noqa: S506 - a SafeLoader with fewer tags
    except yaml.YAMLError as error:
        raise ValueError(f"error converting YAML to JSON: {error}") from error


class _Loader(yaml.SafeLoader):
    """As Kubernetes reads YAML: what looks like a time stays text."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


@dataclasses.dataclass(frozen=True)
class Decoded:
    """An object in the form of its type, and what was dropped to get there."""

    obj: Json
    warnings: tuple[str, ...]


def decode(body: Body, resource: resources.ResourceType, validation: str) -> Decoded:
    """The object in a create or an update. Raises `ApiError` (400, 415)."""
    accepted = [JSON, YAML] if resource.custom else [JSON, YAML, protobuf.MEDIA_TYPE]
    if body.content_type and body.content_type not in accepted:
        raise errors.unsupported_media_type(accepted)
    try:
        document = body.parse(as_yaml=body.content_type == YAML)
    except ValueError as error:
        text = body.data[:200].decode(errors="replace")
        message = (
            f"the object provided is unrecognized (must be of type {resource.kind}): couldn't get "
            f"version/kind; json parse error: {error} ({text})"
        )
        raise errors.bad_request(message) from None
    return conforming(document, resource, validation)


def conforming(document: Any, resource: resources.ResourceType, validation: str) -> Decoded:
    """A document as an object of the type: checked for version, kind, types and unknown fields."""
    obj = _identified(document, resource)
    shape = shapes.of(resource)
    kept, unknown = conform.pruned(obj, shape)
    warnings = tuple(f'unknown field "{path}"' for path in unknown)
    if warnings and validation == "Strict":
        raise _undecodable(resource, f"strict decoding error: {', '.join(warnings)}")
    if resource.custom:
        metadata_shape = shapes.built_in("ObjectMeta", ("", ""))
        problem = conform.type_problem(kept["metadata"], metadata_shape, "metadata")
        kept["metadata"] = conform.without_blanks(kept["metadata"], metadata_shape)
    else:
        problem = conform.type_problem(kept, shape)
        kept = conform.without_blanks(kept, shape)
        kept.setdefault("metadata", {})
    if problem:
        raise _undecodable(resource, problem)
    return Decoded(kept, warnings if validation == "Warn" else ())


def _undecodable(resource: resources.ResourceType, why: str) -> errors.ApiError:
    kind, version = resource.kind, resource.version
    return errors.bad_request(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def _identified(document: Any, resource: resources.ResourceType) -> Json:
    """The document with its version and kind first, after checking them against the path."""
    if not isinstance(document, dict):
        message = f"the object provided is unrecognized (must be of type {resource.kind}): not an object"
        raise errors.bad_request(message)
    if resource.custom and not document.get("kind"):
        raise errors.bad_request(f"Object 'Kind' is missing in '{orjson.dumps(document)[:200].decode()}'")
    version = document.get("apiVersion") or resource.api_version
    kind = document.get("kind") or resource.kind
    if version != resource.api_version:
        message = (
            f"the API version in the data ({version}) does not match the expected API version "
            f"({resource.api_version})"
        )
        raise errors.bad_request(message)
    if kind != resource.kind:
        message = f'{kind} in version "{resource.version}" cannot be handled as a {resource.kind}'
        raise errors.bad_request(message)
    metadata = document.get("metadata")
    if metadata is None:
        metadata = {}
    if not isinstance(metadata, dict):
        raise _undecodable(
            resource, "json: cannot unmarshal into Go struct field .metadata of type ObjectMeta"
        )
    rest = {name: value for name, value in document.items() if name not in {"apiVersion", "kind", "metadata"}}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **rest}


def options(body: Body) -> Json:
    """DeleteOptions in a body; empty if there is none. Raises `ApiError` (400)."""
    if not body.data.strip():
        return {}
    try:
        document = body.parse(as_yaml=body.content_type == YAML)
    except ValueError as error:
        raise errors.bad_request(f"couldn't get version/kind; json parse error: {error}") from None
    if not isinstance(document, dict):
        raise errors.bad_request("expected an object of kind DeleteOptions")
    return document
