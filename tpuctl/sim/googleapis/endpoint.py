"""Dispatch of requests to one of the simulated Google REST APIs.

Order, as in the real services: who asks (401), which method is meant (501 for all that is not simulated), are
the query and the body well formed (400), then the method itself.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import orjson
from starlette import responses, routing

from tpuctl.sim.googleapis import errors

if TYPE_CHECKING:
    from starlette import requests

    from tpuctl.sim.googleapis import fields

Authenticate = Callable[[str | None], str | None]
"""Takes the Authorization header, returns who that is, or None for nobody."""

Proceed = Callable[[], Awaitable[responses.Response]]
Interceptor = Callable[["requests.Request", Proceed], Awaitable[responses.Response | None]]
"""Sees each request first. It may answer itself, or do the work (`await proceed()`) and still answer
otherwise, or return None to stand aside."""

SYSTEM_QUERY = frozenset({"alt", "$alt", "prettyPrint", "quotaUser", "userProject", "key"})
"""Query parameters that every Google API takes and that change nothing here (`alt` is checked)."""

METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


@dataclasses.dataclass(frozen=True)
class Call:
    """One request, understood."""

    path: dict[str, str]
    """Values of the path template's variables."""
    query: dict[str, str]
    body: dict[str, Any]
    user: str


Handler = Callable[[Call], dict[str, Any]]


@dataclasses.dataclass(frozen=True)
class _Method:
    verb: str
    pattern: re.Pattern[str]
    handler: Handler
    query: frozenset[str]
    body: fields.Reader | None


class Endpoint:
    """The methods of one API below one path prefix."""

    def __init__(self, prefix: str, *, authenticate: Authenticate, canonical: bool) -> None:
        """`canonical`: whether error bodies carry the canonical status word."""
        self.intercept: list[Interceptor] = []
        """Fault hooks; the first that returns an answer wins."""
        self._prefix = prefix
        self._authenticate = authenticate
        self._canonical = canonical
        self._methods: list[_Method] = []

    def add(
        self,
        verb: str,
        template: str,
        handler: Handler,
        *,
        query: tuple[str, ...] = (),
        body: fields.Reader | None = None,
    ) -> None:
        """Serve `verb` on the path template (`{name}` stands for one segment) with `handler`."""
        pattern = re.compile(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/:]+)", template))
        self._methods.append(_Method(verb, pattern, handler, frozenset(query), body))

    def routes(self) -> list[routing.Route]:
        return [routing.Route(self._prefix + "/{path:path}", self._serve, methods=METHODS)]

    async def _serve(self, request: requests.Request) -> responses.Response:
        raw = await request.body()

        async def proceed() -> responses.Response:
            return self._answer(request, raw)

        for interceptor in tuple(self.intercept):
            answer = await interceptor(request, proceed)
            if answer is not None:
                return answer
        return self._answer(request, raw)

    def _answer(self, request: requests.Request, raw: bytes) -> responses.Response:
        try:
            return _json(200, self._handle(request, raw))
        except errors.ApiError as error:
            return _json(error.code, error.body(canonical=self._canonical))

    def _handle(self, request: requests.Request, raw: bytes) -> dict[str, Any]:
        user = self._authenticate(request.headers.get("authorization"))
        if user is None:
            raise errors.unauthenticated()
        method, path = self._find(request.method, request.url.path)
        query = _query(request, method.query)
        return method.handler(Call(path, query, _body(method, raw), user))

    def _find(self, verb: str, path: str) -> tuple[_Method, dict[str, str]]:
        for method in self._methods:
            match = method.pattern.fullmatch(path) if method.verb == verb else None
            if match is not None:
                return method, match.groupdict()
        raise errors.unimplemented(f"{verb} {path}")


def _query(request: requests.Request, known: frozenset[str]) -> dict[str, str]:
    query: dict[str, str] = {}
    for name, value in request.query_params.multi_items():
        if name in {"alt", "$alt"} and value.partition(";")[0] != "json":
            raise errors.unimplemented(f"the format {value}")
        if name == "fields":
            raise errors.unimplemented("partial responses (fields)")
        if name in known:
            query[name] = value
        elif name not in SYSTEM_QUERY:
            raise errors.invalid(
                f'Invalid JSON payload received. Unknown name "{name}": Cannot bind query parameter. '
                f"Field '{name}' could not be found in request message."
            )
    return query


def _body(method: _Method, raw: bytes) -> dict[str, Any]:
    if method.body is None:
        if raw.strip() not in {b"", b"{}"}:
            raise errors.invalid("Invalid JSON payload received. This method takes no body.")
        return {}
    try:
        parsed = orjson.loads(raw or b"{}")
    except orjson.JSONDecodeError as error:
        raise errors.invalid(f"Invalid JSON payload received. {error}") from error
    read: dict[str, Any] = method.body(parsed, "")
    return read


def _json(code: int, body: dict[str, Any]) -> responses.Response:
    return responses.Response(orjson.dumps(body), code, media_type="application/json; charset=UTF-8")
