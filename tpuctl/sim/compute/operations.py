"""Zone and region operations of Compute Engine: they run first and finish later."""

from __future__ import annotations

import dataclasses
import http
from typing import TYPE_CHECKING, Any

from tpuctl.sim import partitions
from tpuctl.sim.googleapis import errors, times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from tpuctl.sim import clock as clocks

COMPUTE = "https://www.googleapis.com/compute/v1"


@dataclasses.dataclass(frozen=True)
class Failure:
    """Why an operation failed."""

    code: str
    """Upper-case word, for example RESOURCE_NOT_FOUND."""
    message: str
    http_status: int = 400


@dataclasses.dataclass(frozen=True)
class Place:
    """A zone or a region of a project."""

    project: str
    kind: str
    """`zone` or `region`."""
    name: str

    @property
    def path(self) -> str:
        return f"projects/{self.project}/{self.kind}s/{self.name}"

    @property
    def link(self) -> str:
        return f"{COMPUTE}/{self.path}"


@dataclasses.dataclass(eq=False)
class Operation:
    """One operation. `target` is the path of what it works on, relative to its place."""

    name: str
    id: str
    kind: str
    place: Place
    target: str
    target_id: str
    user: str
    started_s: float
    ended_s: float | None = None
    failure: Failure | None = None


class Operations:
    """All operations since the start, and the request ids under which they were begun."""

    def __init__(self, clock: clocks.Clock, *, seed: int) -> None:
        self._clock = clock
        self._seed = seed
        self._all: dict[str, Operation] = {}
        self._by_request: dict[tuple[Place, str], Operation] = {}

    def begun(self, place: Place, request_id: str) -> Operation | None:
        """Return the operation that an earlier call with this request id began; an empty id matches none."""
        return self._by_request.get((place, request_id)) if request_id else None

    def start(
        self,
        kind: str,
        place: Place,
        *,
        target: str,
        target_id: str,
        user: str,
        request_id: str,
        duration_s: float,
        finish: Callable[[], Failure | None],
    ) -> Operation:
        """Begin an operation; after `duration_s`, `finish` does the work and may say why it failed."""
        number = len(self._all) + 1
        digest = partitions.opaque_id(self._seed, "compute-operation", number)
        start_ms = int(self._clock.now().timestamp() * 1000)
        name = f"operation-{start_ms}-{digest[:13]}-{digest[13:21]}-{digest[21:29]}"
        identity = partitions.numeric_id(digest)
        operation = Operation(name, identity, kind, place, target, target_id, user, self._clock.now_s)
        self._all[name] = operation
        if request_id:
            self._by_request[place, request_id] = operation
        self._clock.call_later(duration_s, lambda: self._end(operation, finish))
        return operation

    def _end(self, operation: Operation, finish: Callable[[], Failure | None]) -> None:
        operation.failure = finish()
        operation.ended_s = self._clock.now_s

    def find(self, place: Place, name: str) -> Operation:
        """Return the operation; ApiError (404) if there is none of that name in the place."""
        operation = self._all.get(name)
        if operation is None or operation.place != place:
            raise errors.ApiError(404, f"The resource '{place.path}/operations/{name}' was not found")
        return operation

    def at(self, place: Place) -> Iterable[Operation]:
        """Return all operations of a place."""
        return (operation for operation in self._all.values() if operation.place == place)

    def view(self, shown: Operation) -> dict[str, Any]:
        """Return an operation as JSON."""
        started = times.rfc3339(self._clock, shown.started_s)
        view: dict[str, Any] = {
            "id": shown.id,
            "insertTime": started,
            "kind": "compute#operation",
            "name": shown.name,
            "operationType": shown.kind,
            "progress": 0 if shown.ended_s is None else 100,
            "selfLink": f"{shown.place.link}/operations/{shown.name}",
            "startTime": started,
            "status": "RUNNING" if shown.ended_s is None else "DONE",
            "targetId": shown.target_id,
            "targetLink": f"{shown.place.link}/{shown.target}",
            "user": shown.user,
            shown.place.kind: shown.place.link,
        }
        if shown.ended_s is not None:
            view["endTime"] = times.rfc3339(self._clock, shown.ended_s)
        if shown.failure is not None:
            view["error"] = {"errors": [{"code": shown.failure.code, "message": shown.failure.message}]}
            view["httpErrorStatusCode"] = shown.failure.http_status
            view["httpErrorMessage"] = http.HTTPStatus(shown.failure.http_status).phrase.upper()
        return view
