"""Kubernetes Events about Slices and Nodes: the Events port.

An Event is named after what it says about which object, so whoever says the same again counts the old one up,
even after a restart. In between, repetitions are counted here and written with the next one that is due.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

from tpuctl.cloud import errors as cloud_errors
from tpuctl.cloud import objects, slices
from tpuctl.model import errors

if TYPE_CHECKING:
    from tpuctl.cloud import clock as clock_module
    from tpuctl.cloud import kube as kube_module
    from tpuctl.ops import ports

NAMESPACE = "default"
"""Where events about objects without a namespace belong."""
COMPONENT = "tpuctl"
QUIET_S = 300.0
"""The same event is written at most so often; seconds of the context."""
MAX_MESSAGE = 1024
"""Of an Event's message; the API server refuses longer ones."""
_PATH = f"/api/v1/namespaces/{NAMESPACE}/events"
_MERGE = "application/merge-patch+json"
_RACES = 3
"""How often an Event that somebody else changes is read and written again."""
_DIGEST = 16
_MAX_NAME = 253 - _DIGEST - 1
_API_VERSIONS = {"Slice": f"{slices.GROUP}/{slices.VERSION}", "Node": "v1"}


class _Series(NamedTuple):
    about: ports.About
    reason: str
    message: str
    type: str

    @property
    def name(self) -> str:
        digest = hashlib.sha256("\n".join((*self.about, *self[1:])).encode()).hexdigest()
        return f"{self.about.name[:_MAX_NAME].rstrip('-.')}.{digest[:_DIGEST]}"


@dataclasses.dataclass
class _Told:
    """A series that was written lately."""

    at_s: float
    untold: int = 0
    """Repetitions since."""


class KubeEvents:
    """The Events port."""

    def __init__(self, kube: kube_module.Kube, clock: clock_module.WallClock) -> None:
        self._kube = kube
        self._clock = clock
        self._told: dict[_Series, _Told] = {}

    def emit(self, about: ports.About, reason: str, message: str, *, warning: bool = False) -> None:
        """As in the port."""
        text = message if len(message) <= MAX_MESSAGE else f"{message[: MAX_MESSAGE - 3]}..."
        series = _Series(about, reason, text, "Warning" if warning else "Normal")
        now_s = self._clock.monotonic_s()
        lately = self._told.get(series)
        if lately is not None and now_s - lately.at_s < QUIET_S:
            lately.untold += 1
            return
        self._write(series, 1 + (lately.untold if lately else 0))
        # What was silent for twice the time has ended; kept for ever, the table would grow for ever.
        self._told = {key: told for key, told in self._told.items() if now_s - told.at_s < 2 * QUIET_S}
        self._told[series] = _Told(now_s)

    def _write(self, series: _Series, times: int) -> None:
        for _ in range(_RACES):
            found = self._kube.find(
                f"{_PATH}/{series.name}", series.name, what=f"read the event about {series.about.name}"
            )
            try:
                if found is None:
                    self._create(series, times)
                else:
                    self._count(series, found.document, times)
            except errors.Conflict:
                continue  # somebody else wrote it meanwhile
            return
        raise errors.Conflict(f"the event about {series.about.name} is changed again and again")

    def _create(self, series: _Series, times: int) -> None:
        body = self._document(series, times)

        def attempt() -> bool:
            self._kube.request("POST", _PATH, body=body)
            return True

        self._kube.write(
            attempt,
            look=functools.partial(self._is_there, series.name),
            what=f"write an event about {series.about.name}",
        )

    def _is_there(self, name: str) -> bool | None:
        return True if objects.look(self._kube, _PATH, name) is not None else None

    def _count(self, series: _Series, event: dict[str, Any], times: int) -> None:
        body = {
            "metadata": {"resourceVersion": event["metadata"]["resourceVersion"]},
            "count": (event.get("count") or 1) + times,
            "lastTimestamp": self._now(),
        }

        def attempt() -> bool:
            try:
                self._kube.request("PATCH", f"{_PATH}/{series.name}", body=body, content_type=_MERGE)
            except cloud_errors.Refused as refused:
                # After an open outcome the revision is another one: it was counted, by us or by another.
                if refused.status != cloud_errors.CONFLICT:
                    raise
            return True

        self._kube.write(attempt, look=lambda: None, what=f"count an event about {series.about.name}")

    def _document(self, series: _Series, times: int) -> dict[str, Any]:
        about, now = series.about, self._now()
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": series.name, "namespace": NAMESPACE},
            "involvedObject": {
                "apiVersion": _API_VERSIONS[about.kind],
                "kind": about.kind,
                "name": about.name,
                "uid": about.uid,
            },
            "reason": series.reason,
            "message": series.message,
            "type": series.type,
            "source": {"component": COMPONENT},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": times,
            "reportingComponent": COMPONENT,
            "reportingInstance": "",
        }

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
