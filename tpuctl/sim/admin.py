"""The simulator's own API below /sim/v1: time, faults, state, end. Not part of what is simulated.

    GET  /sim/v1/status
    POST /sim/v1/advance   {"seconds": 60}
    POST /sim/v1/inject    {"fault": "host-down", "target": "NODE", "hosts": 3}
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

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from starlette import requests

    from tpuctl.sim import clock as clocks
    from tpuctl.sim import hardware as hardwares

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
        hardware: hardwares.Hardware,
        token: str,
        status: Callable[[], dict[str, Any]],
        shutdown: Callable[[], None],
    ) -> None:
        self._clock = clock
        self._hardware = hardware
        self._token = token
        self._status = status
        self._shutdown = shutdown

    def routes(self) -> list[routing.Route]:
        actions = {"advance": self._advance, "inject": self._inject, "shutdown": self._stop}
        return [
            routing.Route(f"{PREFIX}/status", self._guarded(self._show), methods=["GET"]),
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

    def _inject(self, body: Mapping[str, Any]) -> dict[str, Any]:
        fault, target = body.get("fault"), body.get("target")
        if not isinstance(fault, str) or not isinstance(target, str):
            raise _Refused(400, "fault and target must be strings")
        numbers = {name: value for name, value in body.items() if name not in {"fault", "target"}}
        if not all(isinstance(value, int) and not isinstance(value, bool) for value in numbers.values()):
            raise _Refused(400, "parameters of a fault must be whole numbers")
        try:
            text = faults.inject(self._hardware, fault, target, numbers)
        except faults.UnknownFault as error:
            raise _Refused(400, str(error), error.near) from error
        except faults.UnknownTarget as error:
            raise _Refused(404, str(error), error.near) from error
        except faults.BadFault as error:
            raise _Refused(400, str(error)) from error
        return {"fault": fault, "target": target, "message": text}

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
