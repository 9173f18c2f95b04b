"""What a request to one of the three APIs asks for, and which requests a fault is meant for.

For faults only: what is understood here decides nothing about the answer. Verbs are those of Kubernetes; the
custom methods of the Google APIs (`setSize`, `reset`, `reportHostAsFaulty`, ...) are verbs of their own.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING

from tpuctl.sim.kube import errors, targets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from starlette import requests

KUBERNETES, CONTAINER, COMPUTE = "kubernetes", "container", "compute"
APIS = (KUBERNETES, CONTAINER, COMPUTE)

_GOOGLE_ACTIONS = frozenset({"reset", "reportHostAsFaulty", "wait", "listManagedInstances", "listErrors"})
"""Custom methods of Compute Engine, which are written as if they were collections."""
_GOOGLE_PLACES = frozenset({"projects", "locations", "zones", "regions"})

KUBERNETES_VERBS = (
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
)
GOOGLE_VERBS = ("get", "list", "create", "update", "delete", "setSize", *sorted(_GOOGLE_ACTIONS))
VERBS = {KUBERNETES: KUBERNETES_VERBS, CONTAINER: GOOGLE_VERBS, COMPUTE: GOOGLE_VERBS}
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Call:
    """One request, as far as faults care."""

    api: str
    method: str
    path: str
    verb: str = ""
    """Empty if there is no verb for it."""
    resource: str = ""
    """Plural, with its subresource: "slices", "pods/binding", "nodePools". Empty for `/version` and such."""
    target: targets.Target | None = None
    """Kubernetes only: the resource that the path names."""
    token: str = ""
    """Of the page asked for; empty for the first page."""


def understand(api: str, request: requests.Request) -> Call:
    """Take a request apart."""
    path = request.url.path
    token = request.query_params.get("continue") or request.query_params.get("pageToken") or ""
    if api == KUBERNETES:
        target = targets.parse_path(path)
        resource = "/".join(filter(None, (target.plural, target.subresource))) if target else ""
        verb = _kubernetes_verb(request, target)
    else:
        target = None
        verb, resource = _google(request.method, path)
    return Call(
        api=api, method=request.method, path=path, verb=verb, resource=resource, target=target, token=token
    )


def _kubernetes_verb(request: requests.Request, target: targets.Target | None) -> str:
    if target is None:
        return "get"
    try:
        watching = request.method == "GET" and targets.flag(request.query_params, "watch")
    except errors.ApiError:
        watching = False  # The real handler refuses the parameter.
    if watching:
        return "watch"
    return targets.verb_of(request.method, target, {})


def _google(method: str, path: str) -> tuple[str, str]:
    """(verb, resource) of a path below `/v1` or `/compute/v1`."""
    parts = path.removeprefix("/compute").removeprefix("/v1").strip("/").split("/")
    last, _, action = parts[-1].partition(":")
    parts[-1] = last
    while len(parts) >= 2 and parts[0] in _GOOGLE_PLACES:  # noqa: PLR2004 - a collection and a name
        parts = parts[2:]
    if parts and parts[-1] in _GOOGLE_ACTIONS:
        action = parts.pop()
    if not parts:
        return "", ""
    named = len(parts) % 2 == 0
    resource = parts[-2] if named else parts[-1]
    if action:
        return action, resource
    if method in {"GET", "HEAD"}:
        return ("get" if named else "list"), resource
    verbs = {"POST": "create", "PUT": "update", "PATCH": "update", "DELETE": "delete"}
    return verbs.get(method, ""), resource


@dataclasses.dataclass(frozen=True, kw_only=True)
class Selection:
    """Which calls a fault is meant for; what is None does not matter. ValueError for unknown words."""

    api: str | None = None
    """One of `APIS`."""
    verb: str | None = None
    """One of `VERBS` of the API."""
    resource: str | None = None
    """As in `Call.resource`, upper and lower case alike."""
    path: str | None = None
    """Regular expression that is found in the path."""
    method: str | None = None
    """HTTP method."""
    page: int | None = None
    """Page of a list, counted from 1 along the tokens handed out while the fault is in place."""

    def __post_init__(self) -> None:
        _check("API", self.api, APIS)
        known = VERBS[self.api] if self.api else {word for words in VERBS.values() for word in words}
        _check("verb", self.verb, known)
        _check("method", self.method, METHODS)
        if self.page is not None and self.page < 1:
            raise ValueError("pages are counted from 1")
        if self.path is not None:
            try:
                re.compile(self.path)
            except re.error as error:
                raise ValueError(f"path {self.path!r} is no regular expression: {error}") from error

    def matches(self, call: Call) -> bool:
        """Whether the call is one of them; the page is looked at elsewhere."""
        return (
            self.api in {None, call.api}
            and self.verb in {None, call.verb}
            and self.method in {None, call.method}
            and (self.resource is None or self.resource.lower() == call.resource.lower())
            and (self.path is None or re.search(self.path, call.path) is not None)
        )


def _check(what: str, word: str | None, known: Iterable[str]) -> None:
    words = sorted(known)
    if word is not None and word not in words:
        raise ValueError(f"unknown {what} {word!r}; known: {', '.join(words)}")
