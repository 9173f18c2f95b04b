"""The Kubernetes API as HTTP: from a request to an answer.

Order, as in a kube-apiserver: who is calling (401), may they (403), is there such a path (404) and verb
(405), then the verb itself. Nothing awaits between reading and writing the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from starlette import responses, routing

from tpuctl.sim.kube import (
    admission,
    auth,
    documents,
    errors,
    exchange,
    lifecycle,
    removal,
    representation,
    resources,
    targets,
    verbs,
    watch,
)

if TYPE_CHECKING:
    from starlette import requests

    from tpuctl.sim import store as stores

AdmissionRequest = admission.AdmissionRequest

Proceed = Callable[[], Awaitable[responses.Response]]
Interceptor = Callable[["requests.Request", Proceed], Awaitable[responses.Response | None]]
"""Sees each request first. It may answer itself, or do the work (`await proceed()`) and still answer
otherwise, or return None to stand aside."""

PREFIXES = ("/api", "/apis", "/version", "/openapi", "/healthz", "/readyz", "/livez")
METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


class KubeApi:
    """Serves the Kubernetes API over a store. Put `routes()` into a Starlette application."""

    def __init__(
        self,
        store: stores.Store,
        identities: auth.Auth,
        *,
        admit: Sequence[admission.Hook] = (),
        version: str = documents.VERSION,
    ) -> None:
        """`version` is what the server says its own is; it changes nothing else."""
        self.admit = list(admit)
        """Admission hooks, asked in order."""
        self.intercept: list[Interceptor] = []
        """Fault hooks; the first that returns an answer wins."""
        self.registry = resources.Registry(store)
        self._auth = identities
        self._documents = documents.Documents(self.registry, version=version)
        renderer = representation.Renderer(store, store.clock)
        self.watches = watch.Watches(store, self.registry, renderer)
        writer = verbs.Writer(store, self.admit)
        self._parts = exchange.Parts(
            store=store,
            renderer=renderer,
            watches=self.watches,
            writer=writer,
            remover=removal.Remover(store, writer),
        )
        self._definitions = lifecycle.Definitions(store)
        self._namespaces = lifecycle.Namespaces(store, self.registry)

    def routes(self) -> list[routing.Route]:
        paths = [path for prefix in PREFIXES for path in (prefix, prefix + "/{rest:path}")]
        return [routing.Route(path, self._serve, methods=METHODS) for path in paths]

    async def _serve(self, request: requests.Request) -> responses.Response:
        data = await request.body()

        async def proceed() -> responses.Response:
            return self._answer(request, data)

        for interceptor in tuple(self.intercept):
            answer = await interceptor(request, proceed)
            if answer is not None:
                return answer
        return self._answer(request, data)

    def _answer(self, request: requests.Request, data: bytes) -> responses.Response:
        try:
            return self._handle(request, data)
        except errors.ApiError as error:
            return exchange.refusal(error)

    def _handle(self, request: requests.Request, data: bytes) -> responses.Response:
        identity = self._auth.identify(request.headers.get("authorization"))
        if any(name.startswith("impersonate-") for name in request.headers):
            raise errors.not_implemented("impersonation")
        path = request.url.path
        target = targets.parse_path(path)
        if target is None:
            auth.check_path(identity, path)
            return self._documents.answer(request)
        resource = self.registry.find(target.group, target.version, target.plural)
        verb = targets.verb_of(request.method, target, request.query_params)
        auth.check(identity, verb, target, resource)
        if resource is None or not _has_subresource(resource, target):
            return documents.missing_page()
        _check_verb(resource, target, verb)
        return exchange.Exchange(self._parts, request, data, identity, resource, target).run(verb)


def _has_subresource(resource: resources.ResourceType, target: targets.Target) -> bool:
    if target.namespace and not resource.namespaced and resource.key != "namespaces":
        return False
    if not target.subresource:
        return True
    return target.subresource in resource.subresources or (
        target.subresource == "status" and resource.has_status
    )


def _check_verb(resource: resources.ResourceType, target: targets.Target, verb: str) -> None:
    """Raise `ApiError` if the path does not take this verb (405, or 400 where the server says so)."""
    if target.subresource:
        allowed: Sequence[str] = resources.STATUS_VERBS if target.subresource == "status" else ("create",)
    elif target.name:
        allowed = [item for item in resource.verbs if item in {"get", "update", "patch", "delete"}]
    else:
        allowed = [item for item in resource.verbs if item not in {"get", "update", "patch", "delete"}]
    if not target.name and verb in {"update", "patch"} and resource.custom:
        raise errors.bad_request("name must be provided")
    inside = target.namespace or not resource.namespaced
    if verb not in allowed or (not inside and verb not in {"list", "watch"}):
        raise errors.method_not_allowed(resource, verb)
