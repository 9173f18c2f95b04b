"""One request to a resource: its options, its verb, its answer."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import orjson
from starlette import responses

from tpuctl.sim.kube import (
    bodies,
    errors,
    paging,
    rbac,
    removal,
    representation,
    resources,
    reviews,
    service_accounts,
    targets,
    verbs,
    watch,
)

if TYPE_CHECKING:
    from starlette import requests

    from tpuctl.sim import store as stores
    from tpuctl.sim.kube import auth

Json = dict[str, Any]

CUSTOM_PATCHES = (bodies.JSON_PATCH, bodies.MERGE_PATCH, bodies.APPLY_PATCH)
BUILT_IN_PATCHES = (bodies.JSON_PATCH, bodies.MERGE_PATCH, bodies.STRATEGIC_PATCH, bodies.APPLY_PATCH)
OPTIONS_KINDS = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}
NO_CACHE = {"Cache-Control": "no-cache, private"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class Parts:
    """What does the work."""

    store: stores.Store
    renderer: representation.Renderer
    watches: watch.Watches
    writer: verbs.Writer
    remover: removal.Remover
    policy: rbac.Rbac
    tokens: service_accounts.Tokens


def refusal(error: errors.ApiError) -> responses.Response:
    """The answer that an error becomes."""
    headers = {**NO_CACHE, **error.headers}
    return responses.Response(
        orjson.dumps(error.status()), error.code, headers, media_type=representation.JSON
    )


class Exchange:
    """One request to a resource, which is served and open to the caller."""

    def __init__(
        self,
        parts: Parts,
        request: requests.Request,
        data: bytes,
        identity: auth.Identity,
        resource: resources.ResourceType,
        target: targets.Target,
    ) -> None:
        """Raises `ApiError` (406, 413)."""
        self._parts = parts
        self._query = dict(request.query_params)
        self._agent = request.headers.get("user-agent", "")
        self._identity = identity
        self._resource = resource
        self._target = target
        self._body = bodies.Body.of(request.headers.get("content-type", ""), data)
        include = self._query.get("includeObject", "")
        self._form = representation.negotiate(request.headers.get("accept", ""), include)

    def run(self, verb: str) -> responses.Response:
        """Answer. Raises `ApiError`."""
        match verb:
            case "get" if not targets.flag(self._query, "watch"):
                return self._get()
            case "get" | "watch":
                return self._watch()
            case "list":
                return self._list(self._page())
            case "delete":
                return self._delete()
            case "deletecollection":
                return self._delete_collection()
            case "create" if not self._resource.stored:
                return self._review()
            case "create" if self._target.subresource == "binding":
                return self._bind()
            case "create" if self._target.subresource == "token":
                return self._token()
        return self._write(verb)

    # Reading

    def _get(self) -> responses.Response:
        obj = self._parts.store.get(self._resource.key, self._target.namespace, self._target.name)
        if obj is None:
            raise errors.not_found(self._resource, self._target.name)
        return self._one(verbs.Answer(200, obj))

    def _page(self) -> paging.Page:
        options = paging.ListOptions.parse(self._query, self._resource)
        return paging.page(self._parts.store, self._resource, self._target.namespace, options)

    def _list(self, page: paging.Page) -> responses.Response:
        data = self._parts.renderer.many(self._form, self._resource, page.objects, page.metadata)
        return self._send(200, data)

    def _watch(self) -> responses.Response:
        if self._form.media_type != representation.JSON:
            raise errors.not_acceptable([representation.JSON])
        asked = watch.parse(
            self._query, self._resource, self._target.namespace, self._target.name, self._form
        )
        stream = self._parts.watches.stream(asked)
        return responses.StreamingResponse(stream, 200, NO_CACHE, media_type=representation.JSON)

    # Writing

    def _call(self, verb: str, *, apply: bool = False) -> verbs.Call:
        options = targets.write_options(self._query, OPTIONS_KINDS[verb], self._agent, apply=apply)
        return self._call_with(options)

    def _call_with(self, options: targets.WriteOptions) -> verbs.Call:
        return verbs.Call(resource=self._resource, target=self._target, options=options, user=self._identity)

    def _write(self, verb: str) -> responses.Response:
        writer = self._parts.writer
        if verb == "create":
            return self._one(writer.create(self._call(verb), self._body))
        if verb == "update":
            return self._one(writer.update(self._call(verb), self._body))
        accepted = CUSTOM_PATCHES if self._resource.custom else BUILT_IN_PATCHES
        if self._body.content_type not in accepted:
            raise errors.unsupported_media_type(accepted)
        if self._body.content_type == bodies.APPLY_PATCH:
            return self._one(writer.apply(self._call(verb, apply=True), self._body))
        return self._one(writer.patch(self._call(verb), self._body))

    def _delete_options(self) -> targets.DeleteOptions:
        return targets.delete_options(self._query, bodies.options(self._body))

    def _delete_call(self, options: targets.DeleteOptions) -> verbs.Call:
        return self._call_with(
            targets.WriteOptions(dry_run=options.dry_run, manager="", field_validation="Ignore", force=False)
        )

    def _delete(self) -> responses.Response:
        options = self._delete_options()
        return self._one(self._parts.remover.delete(self._delete_call(options), options))

    def _delete_collection(self) -> responses.Response:
        options = self._delete_options()
        page = self._page()
        chosen = self._parts.remover.delete_collection(self._delete_call(options), page.objects, options)
        revision = str(self._parts.store.revision)
        return self._list(paging.Page(chosen, {"continue": "", "resourceVersion": revision}))

    # What is neither

    def _review(self) -> responses.Response:
        decoded = bodies.decode(self._body, self._resource, self._call("create").options.field_validation)
        now = self._parts.store.clock.now()
        shown = reviews.answer(self._resource, decoded.obj, self._identity, self._parts.policy, now)
        return self._one(verbs.Answer(201, shown, decoded.warnings))

    def _bind(self) -> responses.Response:
        call = self._call("create")
        decoded = bodies.decode(self._body, removal.BINDING, call.options.field_validation)
        return self._one(self._parts.remover.bind(call, decoded.obj))

    def _token(self) -> responses.Response:
        call = self._call("create")
        kind = service_accounts.TOKEN_REQUEST
        decoded = bodies.decode(self._body, kind, call.options.field_validation)
        namespace, name = self._target.namespace, self._target.name
        issued = self._parts.tokens.issue(namespace, name, decoded.obj, dry_run=call.options.dry_run)
        data = self._parts.renderer.one(self._form, kind, issued)
        return self._send(201, data, decoded.warnings)

    # Answers

    def _one(self, answer: verbs.Answer) -> responses.Response:
        if answer.obj.get("kind") == "Status":
            data = orjson.dumps(answer.obj)
        else:
            data = self._parts.renderer.one(self._form, self._resource, answer.obj)
        return self._send(answer.code, data, answer.warnings)

    def _send(self, code: int, data: bytes, warnings: tuple[str, ...] = ()) -> responses.Response:
        response = responses.Response(data, code, NO_CACHE, media_type=self._form.media_type)
        for warning in warnings:
            quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
            response.headers.append("Warning", f'299 - "{quoted}"')
        return response
