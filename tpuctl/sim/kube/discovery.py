"""Discovery: what a client can ask the simulated API server for.

Every function takes the types served at this moment, so that the Slice group appears and disappears with its
definition. A group's versions are in the order of those types, preferred first.

There are two forms. The older one is a document for each step (`/api`, `/apis`, `/apis/GROUP`,
`/apis/GROUP/VERSION`); the aggregated one is everything of `/api` or of `/apis` at once, and kubectl asks
for it through the Accept header.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tpuctl.sim.kube import resources

Json = dict[str, Any]

JSON = "application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
"""Media type of the aggregated form; the only version of it that is served."""

_KIND_OF = {
    "binding": {"group": "", "version": "v1", "kind": "Binding"},
    "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
}
"""Subresources whose body is of another kind than the resource they belong to."""


def media_type(accept: str) -> str | None:
    """The form to answer `/api` or `/apis` in, or None if the client takes neither.

    The first entry of the Accept header that is served wins, as in a real server.
    """
    entries = [_parameters(entry) for entry in (accept or "*/*").split(",")]
    return next(filter(None, map(_served_form, entries)), None)


def _parameters(entry: str) -> tuple[str, dict[str, str]]:
    kind, *rest = (part.strip() for part in entry.split(";"))
    return kind.lower(), dict(part.split("=", 1) for part in rest if "=" in part)


def _served_form(entry: tuple[str, dict[str, str]]) -> str | None:
    kind, parameters = entry
    if kind not in {JSON, "application/*", "*/*"}:
        return None
    if "as" not in parameters:
        return JSON
    asked = (parameters.get("g"), parameters.get("v"), parameters["as"])
    return AGGREGATED if asked == ("apidiscovery.k8s.io", "v2", "APIGroupDiscoveryList") else None


def core_versions() -> Json:
    """`/api`: versions of the core group."""
    return {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    }


def groups(types: Iterable[resources.ResourceType]) -> Json:
    """`/apis`: all groups but the core group."""
    named = _by_group(item for item in types if item.group)
    return {
        "kind": "APIGroupList",
        "apiVersion": "v1",
        "groups": [_group(name, members) for name, members in named.items()],
    }


def group(types: Iterable[resources.ResourceType], name: str) -> Json | None:
    """`/apis/NAME`: versions of one group; None if nothing of it is served."""
    members = [item for item in types if item.group == name]
    if not name or not members:
        return None
    return {"kind": "APIGroup", "apiVersion": "v1", **_group(name, members)}


def resource_list(types: Iterable[resources.ResourceType], group_name: str, version: str) -> Json | None:
    """`/api/v1` or `/apis/GROUP/VERSION`: resources and subresources; None if nothing of it is served."""
    members = [item for item in types if (item.group, item.version) == (group_name, version)]
    if not members:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": members[0].api_version,
        "resources": [entry for item in members for entry in _flat(item)],
    }


def aggregated(types: Iterable[resources.ResourceType], *, core: bool) -> Json:
    """`/api` (`core`) or `/apis` in the aggregated form."""
    chosen = _by_group(item for item in types if bool(item.group) is not core)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [_aggregated_group(name, members) for name, members in chosen.items()],
    }


def _by_group(types: Iterable[resources.ResourceType]) -> dict[str, list[resources.ResourceType]]:
    found: dict[str, list[resources.ResourceType]] = {}
    for item in types:
        found.setdefault(item.group, []).append(item)
    return found


def _versions(members: Iterable[resources.ResourceType]) -> list[str]:
    return list(dict.fromkeys(item.version for item in members))


def _group(name: str, members: Sequence[resources.ResourceType]) -> Json:
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in _versions(members)]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _subresources(resource: resources.ResourceType) -> list[tuple[str, list[str]]]:
    """Names and verbs of a type's subresources."""
    found = [("status", ["get", "patch", "update"])] if resource.has_status else []
    return [*found, *((name, ["create"]) for name in resource.subresources)]


def _flat(resource: resources.ResourceType) -> list[Json]:
    entry: Json = {
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    return [entry, *(_flat_subresource(resource, name, verbs) for name, verbs in _subresources(resource))]


def _flat_subresource(resource: resources.ResourceType, name: str, verbs: list[str]) -> Json:
    kind = _KIND_OF.get(name, {"group": resource.group, "kind": resource.kind})
    elsewhere = kind if kind["group"] != resource.group else {"kind": kind["kind"]}
    return {
        "name": f"{resource.plural}/{name}",
        "singularName": "",
        "namespaced": resource.namespaced,
        **elsewhere,
        "verbs": verbs,
    }


def _aggregated_group(name: str, members: Sequence[resources.ResourceType]) -> Json:
    entries = [
        {
            "version": version,
            "resources": [_aggregated(item) for item in members if item.version == version],
            "freshness": "Current",
        }
        for version in _versions(members)
    ]
    return {"metadata": {"name": name} if name else {}, "versions": entries}


def _aggregated(resource: resources.ResourceType) -> Json:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    entry: Json = {
        "resource": resource.plural,
        "responseKind": kind,
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular,
        "verbs": list(resource.verbs),
    }
    if resource.short_names:
        entry["shortNames"] = list(resource.short_names)
    if resource.categories:
        entry["categories"] = list(resource.categories)
    if below := _subresources(resource):
        entry["subresources"] = [
            {"subresource": name, "responseKind": _KIND_OF.get(name, kind), "verbs": verbs}
            for name, verbs in below
        ]
    return entry
