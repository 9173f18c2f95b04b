"""Paths that name no resource: discovery, OpenAPI, version and health."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
from starlette import responses

from tpuctl.sim.kube import discovery, errors, openapi, resources

if TYPE_CHECKING:
    from starlette import requests

Json = dict[str, Any]

VERSION = "v1.36.0"
"""Kubernetes version whose behaviour the simulator follows."""

_VERSION_INFO = {
    "major": "1",
    "minor": "36",
    "emulationMajor": "1",
    "emulationMinor": "36",
    "minCompatibilityMajor": "1",
    "minCompatibilityMinor": "35",
    "gitVersion": VERSION,
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
    "goVersion": "",
    "compiler": "",
    "platform": "linux/amd64",
}

HEALTH = frozenset({"healthz", "livez", "readyz"})


def missing_page() -> responses.Response:
    """What a path gets that nobody serves: plain text, no Status."""
    return responses.PlainTextResponse("404 page not found\n", 404)


class Documents:
    """Answers these paths from the types that are served now."""

    def __init__(self, registry: resources.Registry, *, version: str) -> None:
        self._registry = registry
        self._version = {**_VERSION_INFO, "gitVersion": version}

    def answer(self, request: requests.Request) -> responses.Response:
        """Raises `ApiError` (405, 406)."""
        if request.method not in {"GET", "HEAD"}:
            message = "the server does not allow this method on the requested resource"
            raise errors.ApiError(405, "MethodNotAllowed", message, details={})
        parts = request.url.path.strip("/").split("/")
        accept = request.headers.get("accept", "")
        match parts:
            case ["version"]:
                return _json(self._version)
            case [check] if check in HEALTH:
                return responses.PlainTextResponse("ok")
            case ["api"] | ["apis"]:
                return self._root(core=parts == ["api"], accept=accept)
            case ["api", version]:
                return _found(discovery.resource_list(self._registry.types(), "", version))
            case ["apis", group]:
                return _found(discovery.group(self._registry.types(), group))
            case ["apis", group, version]:
                return _found(discovery.resource_list(self._registry.types(), group, version))
            case ["openapi", *rest]:
                return self._openapi(rest, accept)
        return missing_page()

    def _root(self, *, core: bool, accept: str) -> responses.Response:
        form = discovery.media_type(accept)
        if form is None:
            raise errors.not_acceptable([discovery.JSON, discovery.AGGREGATED])
        types = self._registry.types()
        if form == discovery.AGGREGATED:
            return _json(discovery.aggregated(types, core=core), form)
        return _json(discovery.core_versions() if core else discovery.groups(types), form)

    def _openapi(self, rest: list[str], accept: str) -> responses.Response:
        form = openapi.media_type(accept)
        if form is None:
            raise errors.not_acceptable([discovery.JSON])
        types = self._registry.types()
        match rest:
            case ["v2"]:
                return _json(openapi.swagger(types), form)
            case ["v3"]:
                return _json(openapi.index(types), form)
            case ["v3", *place]:
                return _found(openapi.document(types, "/".join(place)))
        return missing_page()


def _json(document: Json, media_type: str = discovery.JSON) -> responses.Response:
    return responses.Response(orjson.dumps(document), media_type=media_type, headers={"Vary": "Accept"})


def _found(document: Json | None) -> responses.Response:
    return missing_page() if document is None else _json(document)
