"""The Kubernetes API as HTTP: from a request to an answer.

Order, as in a kube-apiserver: who is calling (401), as whom, may they (403), is there such a path (404) and
verb (405), then the verb itself. Nothing awaits between reading and writing the store.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from starlette import responses, routing

from tpuctl.sim.kube import (
    access,
    admission,
    auth,
    bootstrap,
    documents,
    errors,
    exchange,
    impersonation,
    lifecycle,
    rbac,
    removal,
    representation,
    resources,
    service_accounts,
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

Audit = Callable[[auth.Identity, access.Attributes, rbac.Decision], None]
"""Told of each question that was decided, allowed or not."""

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
        self.audit: list[Audit] = []
        """Sees who asked for what, and whether it was allowed."""
        self.registry = resources.Registry(store)
        self._auth = identities
        self._documents = documents.Documents(self.registry, version=version)
        renderer = representation.Renderer(store, store.clock)
        self.watches = watch.Watches(store, self.registry, renderer)
        writer = verbs.Writer(store, self.admit)
        self._tokens = service_accounts.Tokens(store)
        self._policy = rbac.Rbac(store)
        self._parts = exchange.Parts(
            store=store,
            renderer=renderer,
            watches=self.watches,
            writer=writer,
            remover=removal.Remover(store, writer),
            policy=self._policy,
            tokens=self._tokens,
        )
        self._definitions = lifecycle.Definitions(store)
        self._namespaces = lifecycle.Namespaces(store, self.registry)
        bootstrap.install(store)

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
        caller = self._auth.identify(request.headers.get("authorization"), self._tokens.find)
        identity = impersonation.apply(request.headers, caller, self._policy)
        path = request.url.path
        target = targets.parse_path(path)
        if target is None:
            self._check(identity, access.Attributes.of_path(request.method, path))
            return self._documents.answer(request)
        resource = self.registry.find(target.group, target.version, target.plural)
        verb = targets.verb_of(request.method, target, request.query_params)
        self._check(identity, access.Attributes.of_target(verb, target, request.query_params))
        if resource is None or not _has_subresource(resource, target):
            return documents.missing_page()
        _check_verb(resource, target, verb)
        return exchange.Exchange(self._parts, request, data, identity, resource, target).run(verb)

    def _check(self, identity: auth.Identity, asked: access.Attributes) -> None:
        """Raise `ApiError` (403) unless the caller may do this."""
        for told in tuple(self.audit):
            told(identity, asked, self._policy.decide(identity, asked))
        self._policy.check(identity, asked)


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
