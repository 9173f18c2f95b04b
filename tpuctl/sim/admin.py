"""The simulator's own API below /sim/v1: time, faults, state, end. Not part of what is simulated.

    GET  /sim/v1/status
    POST /sim/v1/advance   {"seconds": 60}
    POST /sim/v1/inject    {"fault": "host-down", "target": "NODE", "forSeconds": 600}
    POST /sim/v1/inject    {"fault": "api-error", "api": "kubernetes", "verb": "list", "code": 503}
    GET  /sim/v1/faults
    POST /sim/v1/clear     {"ids": ["f1", "a2"]}    without ids: all
    POST /sim/v1/next      {"id": "a2"}             an API fault begins again, one call later
    POST /sim/v1/shutdown

Every call needs the simulator's token. Errors are `{"error": text, "near": [similar names]}`.
"""

from __future__ import annotations

import hmac
import math
from typing import TYPE_CHECKING, Any

import orjson
from starlette import responses, routing

from tpuctl.sim import faults
from tpuctl.sim.faults import requests as fault_requests

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette import requests

    from tpuctl.sim import api_faults
    from tpuctl.sim import clock as clocks

PREFIX = "/sim/v1"
MAX_ADVANCE_S = 366 * 86_400.0
"""A year: longer steps are more likely a slip than a wish."""


class _Refused(Exception):
    def __init__(self, code: int, error: str, near: Sequence[str] = ()) -> None:
        super().__init__(error)
        self.code = code
        self.body = {"error": error, **({"near": list(near)} if near else {})}


class AdminApi:
    """Call it from the server's thread only."""

    def __init__(
        self,
        *,
        clock: clocks.Clock,
        world_faults: faults.Faults,
        engine: api_faults.ApiFaults,
        token: str,
        status: Callable[[], dict[str, Any]],
        shutdown: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._faults = world_faults
        self._engine = engine
        self._token = token
        self._status = status
        self._shutdown = shutdown

    def routes(self) -> list[routing.Route]:
        actions = {
            "advance": self._advance,
            "inject": self._inject,
            "clear": self._clear,
            "next": self._next,
            "shutdown": self._stop,
        }
        shown = {"status": self._show, "faults": self._list}
        return [
            *(
                routing.Route(f"{PREFIX}/{name}", self._guarded(action), methods=["GET"])
                for name, action in shown.items()
            ),
            *(
                routing.Route(f"{PREFIX}/{name}", self._guarded(action), methods=["POST"])
                for name, action in actions.items()
            ),
            routing.Route(f"{PREFIX}/{{rest:path}}", self._guarded(_unknown), methods=["GET", "POST"]),
        ]

    def _guarded(
        self, action: Callable[[Mapping[str, Any]], dict[str, Any]]
    ) -> Callable[[requests.Request], Awaitable[responses.Response]]:
        async def answer(request: requests.Request) -> responses.Response:
            try:
                self._check_token(request)
                return _json(200, action(_parse(await request.body())))
            except _Refused as refused:
                return _json(refused.code, refused.body)

        return answer

    def _check_token(self, request: requests.Request) -> None:
        given = request.headers.get("authorization", "").partition(" ")[2]
        if not hmac.compare_digest(given.encode(), self._token.encode()):
            raise _Refused(401, "this needs the simulator's bearer token")

    def _show(self, _body: Mapping[str, Any]) -> dict[str, Any]:
        return self._status()

    def _advance(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _only(body, "seconds")
        seconds = body.get("seconds")
        if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
            raise _Refused(400, "seconds must be a number")
        if not 0 <= seconds <= MAX_ADVANCE_S:
            raise _Refused(400, f"seconds must be between 0 and {MAX_ADVANCE_S:.0f}")
        self._clock.advance(seconds)
        return self._status()

    # Faults

    def _inject(self, body: Mapping[str, Any]) -> dict[str, Any]:
        name = body.get("fault")
        if not isinstance(name, str):
            raise _Refused(400, "fault must be a string")
        rest = {field: value for field, value in body.items() if field != "fault"}
        try:
            if fault_requests.is_api_fault(name):
                return fault_requests.add_api_fault(self._engine, name, rest).to_json()
            return self._inject_into_world(name, rest)
        except faults.UnknownTarget as error:
            raise _Refused(404, str(error), error.near) from error
        except (faults.UnknownFault, fault_requests.UnknownField) as error:
            raise _Refused(400, str(error), error.near) from error
        except faults.BadFault as error:
            raise _Refused(400, str(error)) from error

    def _inject_into_world(self, name: str, rest: dict[str, Any]) -> dict[str, Any]:
        if name not in faults.FAULTS:
            raise faults.UnknownFault(name, fault_requests.NAMES)
        target = rest.pop("target", None)
        if not isinstance(target, str):
            raise _Refused(400, f"fault {name} needs a target ({faults.FAULTS[name].target})")
        parameters = fault_requests.world_parameters(name, rest)
        return self._faults.inject(name, target, parameters).to_json()

    def _list(self, _body: Mapping[str, Any]) -> dict[str, Any]:
        return {"faults": [one.to_json() for one in (*self._faults, *self._engine)]}

    def _clear(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _only(body, "ids")
        known = [*(one.id for one in self._faults), *(one.id for one in self._engine)]
        ids = body.get("ids", known)
        if not isinstance(ids, list) or not all(isinstance(one, str) for one in ids):
            raise _Refused(400, "ids must be a list of strings")
        for one in ids:
            if one not in known:
                raise _Refused(404, f"no fault has the id {one!r}", known)
        for one in ids:
            self._clear_one(one)
        return {"cleared": ids}

    def _clear_one(self, one: str) -> None:
        entry = self._faults.find(one)
        if entry is not None:
            self._faults.clear(entry)
        self._engine.remove(one)

    def _next(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _only(body, "id")
        injection = self._engine.find(str(body.get("id", "")))
        if injection is None:
            raise _Refused(
                404, f"no API fault has the id {body.get('id')!r}", [one.id for one in self._engine]
            )
        injection.next_call()
        return injection.to_json()

    def _stop(self, body: Mapping[str, Any]) -> dict[str, Any]:
        _only(body)
        self._shutdown()
        return {"stopping": True}


def _unknown(_body: Mapping[str, Any]) -> dict[str, Any]:
    raise _Refused(404, f"no such call below {PREFIX}")


def _only(body: Mapping[str, Any], *known: str) -> None:
    unknown = sorted(set(body) - set(known))
    if unknown:
        raise _Refused(400, f"unknown fields: {', '.join(unknown)}")


def _parse(body: bytes) -> Mapping[str, Any]:
    try:
        parsed = orjson.loads(body) if body else {}
    except orjson.JSONDecodeError as error:
        raise _Refused(400, f"the body is not JSON: {error}") from error
    if not isinstance(parsed, dict):
        raise _Refused(400, "the body must be a JSON object")
    return parsed


def _json(code: int, body: dict[str, Any]) -> responses.Response:
    return responses.Response(orjson.dumps(body), status_code=code, media_type="application/json")
