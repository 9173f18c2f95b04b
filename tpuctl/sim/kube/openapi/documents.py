"""The OpenAPI documents: version 3, one for each group and version, and version 2, all in one."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from tpuctl.sim.kube.openapi import paths, schemas

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tpuctl.sim.kube import resources

Json = dict[str, Any]

_INFO = {"title": "Kubernetes API of a simulated fleet", "version": "v1"}
_DEFINITIONS = "#/definitions/"
_COMPONENTS = "#/components/schemas/"


def media_type(accept: str) -> str | None:
    """The form to answer in: JSON, or None for clients that take protobuf only (406)."""
    kinds = {entry.split(";")[0].strip().lower() for entry in (accept or "*/*").split(",")}
    return paths.JSON if kinds & {paths.JSON, "application/*", "*/*"} else None


def index(types: Iterable[resources.ResourceType]) -> Json:
    """`/openapi/v3`: where the documents are. Their URLs carry a hash, so that caches notice a change."""
    types = tuple(types)
    found = dict.fromkeys(_place(item) for item in types)
    return {"paths": {place: {"serverRelativeURL": _url(types, place)} for place in found}}


def document(types: Iterable[resources.ResourceType], place: str) -> Json | None:
    """`/openapi/v3/PLACE`, PLACE such as `api/v1` or `apis/batch/v1`; None if it is not served."""
    members = [item for item in types if _place(item) == place]
    if not members:
        return None
    return {
        "openapi": "3.0.0",
        "info": _INFO,
        "paths": _merged(paths.of(item) for item in members),
        "components": {"schemas": schemas.of(members)},
    }


def swagger(types: Iterable[resources.ResourceType]) -> Json:
    """`/openapi/v2`: definitions of everything, without paths; no client needs those in version 2."""
    text = json.dumps(schemas.of(types)).replace(_COMPONENTS, _DEFINITIONS)
    return {"swagger": "2.0", "info": _INFO, "paths": {}, "definitions": json.loads(text)}


def _place(resource: resources.ResourceType) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _url(types: tuple[resources.ResourceType, ...], place: str) -> str:
    content = json.dumps(document(types, place), sort_keys=True).encode()
    return f"/openapi/v3/{place}?hash={hashlib.sha256(content).hexdigest().upper()}"


def _merged(parts: Iterable[Json]) -> Json:
    return {name: value for part in parts for name, value in part.items()}
