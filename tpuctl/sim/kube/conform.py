"""Bring a document into the form of its type: drop what the type does not have, refuse wrong types."""

from __future__ import annotations

import re
from typing import Any

from tpuctl.sim.kube import shapes

Json = dict[str, Any]

GO_NAMES = {str: "string", bool: "bool", int: "number", float: "number", list: "array", dict: "object"}
WANTED: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "boolean": (bool,),
    "number": (int, float),
    "time": (str,),
    "quantity": (str, int, float),
}
TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})")


def pruned(obj: Json, shape: shapes.Shape) -> tuple[Json, list[str]]:
    """`obj` without the fields its type does not have, and the paths of those."""
    unknown: list[str] = []
    return _prune(obj, shape, "", unknown), unknown


def _prune(value: Any, shape: shapes.Shape, path: str, unknown: list[str]) -> Any:
    if isinstance(value, list) and shape.kind == "list":
        item = shape.item()
        return [_prune(each, item, f"{path}[{place}]", unknown) for place, each in enumerate(value)]
    if not isinstance(value, dict) or shape.kind not in {"struct", "map"}:
        return value
    kept = {}
    for name, each in value.items():
        below, below_path = shape.field(name), f"{path}.{name}" if path else name
        if below is None:
            unknown.append(below_path)
            continue
        kept[name] = _prune(each, below, below_path, unknown)
    return kept


def without_blanks(value: Any, shape: shapes.Shape) -> Any:
    """A built-in kind as Go writes it: without nulls and empty lists and maps, quantities as text."""
    if shape.scalar == "quantity" and not isinstance(value, bool) and isinstance(value, int | float):
        return str(value)
    if isinstance(value, list) and shape.kind == "list":
        item = shape.item()
        zero: Any = {} if item.kind == "struct" else ""
        return [without_blanks(zero if each is None else each, item) for each in value]
    if not isinstance(value, dict) or shape.kind not in {"struct", "map"}:
        return value
    kept = {}
    for name, each in value.items():
        below = shape.field(name) or shapes.ANY
        if each is None or (not each and below.kind in {"list", "map"}):
            continue
        kept[name] = without_blanks(each, below)
    return kept


def type_problem(value: Any, shape: shapes.Shape, path: str = "") -> str | None:
    """The first value of a wrong JSON type in a built-in kind, in the words of Go's decoder."""
    if value is None or shape.kind == "any":
        return None
    if not isinstance(value, _wanted(shape)) or (isinstance(value, bool) and shape.scalar != "boolean"):
        wanted = shape.scalar or shape.name or shape.kind
        return f"json: cannot unmarshal {GO_NAMES[type(value)]} into Go struct field {path} of type {wanted}"
    if shape.scalar == "time" and isinstance(value, str) and not TIME.fullmatch(value):
        return f'parsing time "{value}" as "2006-01-02T15:04:05Z07:00": cannot parse'
    if isinstance(value, list):
        return _first(type_problem(each, shape.item(), path) for each in value)
    if isinstance(value, dict):
        return _first(
            type_problem(each, shape.field(name) or shapes.ANY, f"{path}.{name}" if path else name)
            for name, each in value.items()
        )
    return None


def _wanted(shape: shapes.Shape) -> tuple[type, ...]:
    if shape.kind == "list":
        return (list,)
    if shape.kind == "scalar":
        return WANTED[shape.scalar]
    return (dict,)


def _first(problems: Any) -> str | None:
    return next(filter(None, problems), None)
