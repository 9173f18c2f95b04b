"""Count the HTTP requests of this process by verb and resource, whichever client library sends them."""

from __future__ import annotations

import collections
import contextlib
import urllib.parse
from typing import TYPE_CHECKING, Any

import urllib3

if TYPE_CHECKING:
    from collections.abc import Iterator

RENEWAL = "update leases"
"""The loop holds one lock while nothing happens: its own."""
_VERBS = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_QUESTIONS = frozenset({"create selfsubjectreviews"})
"""Sent as a creation, and nothing is written by it."""


class Calls:
    """What was sent so far. All clients of tpuctl use urllib3 in the end."""

    def __init__(self) -> None:
        self._counts: collections.Counter[str] = collections.Counter()

    def taken(self) -> collections.Counter[str]:
        """The counts of this moment."""
        return self._counts.copy()

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Count while this lasts."""
        pool = urllib3.HTTPConnectionPool
        real = pool.urlopen

        def urlopen(it: urllib3.HTTPConnectionPool, method: str, url: str, *rest: Any, **named: Any) -> Any:
            self._counts[name_of(method, url)] += 1
            return real(it, method, url, *rest, **named)

        pool.urlopen = urlopen  # type: ignore[method-assign] # that is the point
        try:
            yield
        finally:
            pool.urlopen = real  # type: ignore[method-assign]


def name_of(method: str, url: str) -> str:
    """`list nodes`, `watch slices`, `update leases`; of Google's APIs `get nodePools` and the like."""
    parts = urllib.parse.urlsplit(url)
    if method != "GET":
        return f"{_VERBS.get(method, method)} {_resource(parts.path)[0]}"
    if urllib.parse.parse_qs(parts.query).get("watch") == ["true"]:
        return f"watch {_resource(parts.path)[0]}"
    resource, is_one = _resource(parts.path)
    return f"{'get' if is_one else 'list'} {resource}"


def _resource(path: str) -> tuple[str, bool]:
    """The resource, and whether one object of it is named."""
    words = path.strip("/").split("/")
    if words[0] not in ("api", "apis"):
        return (words[-1], False) if words[-1][-1:] == "s" else (words[-2], True)
    words = words[2:] if words[0] == "api" else words[3:]
    if not words:
        return "versions", False
    if words[0] == "namespaces" and len(words) > 2:  # namespaces/NAME/RESOURCE
        words = words[2:]
    return words[0], len(words) > 1


def writes(calls: collections.Counter[str]) -> int:
    """All but the renewals of the loop's own lock."""
    return sum(
        count
        for call, count in calls.items()
        if call.split()[0] not in ("get", "list", "watch") and call != RENEWAL and call not in _QUESTIONS
    )
