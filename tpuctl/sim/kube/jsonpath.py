"""The part of JSONPath that printer columns of a CustomResourceDefinition use.

Fields (`.spec.type`, `['a.b']`), list positions (`[0]`), all entries (`[*]`) and filters that compare one
field with a text (`[?(@.type=="Ready")]`). Anything else is a `ValueError` when the path is read.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable
from typing import Any

Step = Callable[[Any], Iterable[Any]]
"""From one value to the values one step further down; none, if there is no such thing."""

_TOKEN = re.compile(
    r"""
      \.(?P<field>[A-Za-z_][\w/-]*)
    | \[(?P<quote>['"])(?P<key>.+?)(?P=quote)\]
    | \[(?P<index>\d+)\]
    | (?P<every>\[\*\])
    | \[\?\(@\.(?P<name>[\w.]+)\s*==\s*(?P<mark>['"])(?P<value>.*?)(?P=mark)\)\]
    """,
    re.VERBOSE,
)


def find(path: str, document: Any) -> list[Any]:
    """Return all values at `path`, in order; an empty list if the path leads nowhere."""
    values = [document]
    for step in _steps(path):
        values = [found for value in values for found in step(value)]
    return values


@functools.cache
def _steps(path: str) -> tuple[Step, ...]:
    steps, position = [], 0
    while position < len(path):
        token = _TOKEN.match(path, position)
        if token is None:
            raise ValueError(f"JSONPath {path!r} is not understood from {path[position:]!r} on")
        steps.append(_step(token))
        position = token.end()
    return tuple(steps)


def _step(token: re.Match[str]) -> Step:
    if (field := token["field"] or token["key"]) is not None:
        return functools.partial(_field, field)
    if token["index"] is not None:
        return functools.partial(_index, int(token["index"]))
    if token["every"]:
        return _every
    return functools.partial(_where, f".{token['name']}", token["value"])


def _field(name: str, value: Any) -> Iterable[Any]:
    return [value[name]] if isinstance(value, dict) and name in value else []


def _index(position: int, value: Any) -> Iterable[Any]:
    return value[position : position + 1] if isinstance(value, list) else []


def _every(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else []


def _where(path: str, wanted: str, value: Any) -> Iterable[Any]:
    return [entry for entry in _every(value) if find(path, entry) == [wanted]]
