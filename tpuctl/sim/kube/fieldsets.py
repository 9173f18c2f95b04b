"""Sets of fields, as server-side apply keeps them for each manager (`FieldsV1`).

A path is a tuple of steps in the notation of FieldsV1: `f:NAME` for a field, `k:{...}` for an item of an
associative list, `v:VALUE` for an item of a set.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import orjson

from tpuctl.sim.kube import shapes

Json = dict[str, Any]
Path = tuple[str, ...]
Paths = set[Path]

UNTRACKED = frozenset(
    {
        ("f:apiVersion",),
        ("f:kind",),
        *(
            ("f:metadata", f"f:{name}")
            for name in (
                "creationTimestamp",
                "deletionGracePeriodSeconds",
                "deletionTimestamp",
                "generation",
                "managedFields",
                "name",
                "namespace",
                "resourceVersion",
                "selfLink",
                "uid",
            )
        ),
    }
)
"""Fields that nobody manages."""

METADATA: Path = ("f:metadata",)
ALWAYS_THERE = frozenset({("f:spec",), ("f:status",)})
"""Parts of built-in objects that exist even when empty, so that nobody is said to have added them."""


def to_json(paths: Paths) -> Json:
    """FieldsV1 of a set: a tree of steps, in which "." marks an inner node that is itself in the set."""
    root: Json = {}
    for path in sorted(paths):
        node = root
        for step in path:
            node = node.setdefault(step, {})
    for path in paths:
        node = root
        for step in path:
            node = node[step]
        if node:
            node["."] = {}
    return root


def from_json(tree: Json, prefix: Path = ()) -> Paths:
    """The set behind a FieldsV1."""
    found: Paths = set()
    for step, below in tree.items():
        if step == ".":
            found.add(prefix)
            continue
        path = (*prefix, step)
        found |= from_json(below, path) if below else {path}
    return found


def shown(path: Path) -> str:
    """The path as conflict causes name it: `.spec.containers[name="c"].image`."""
    text = ""
    for step in path:
        kind, _, rest = step.partition(":")
        if kind == "f":
            text += f".{rest}"
        elif kind == "k":
            keys = orjson.loads(rest).items()
            text += "[" + ",".join(f"{name}={orjson.dumps(value).decode()}" for name, value in keys) + "]"
        else:
            text += f"[={rest}]"
    return text


def key_step(item: Json, keys: tuple[str, ...]) -> str:
    """Step to an item of an associative list."""
    values = {key: item.get(key, shapes.PORT_DEFAULTS.get(key)) for key in keys}
    present = {key: value for key, value in values.items() if value is not None}
    return "k:" + orjson.dumps(present, option=orjson.OPT_SORT_KEYS).decode()


def value_step(item: Any) -> str:
    return "v:" + orjson.dumps(item).decode()


def is_granular(value: Any, shape: shapes.Shape) -> bool:
    """Whether parts of the value can have different managers."""
    if shape.atomic:
        return False
    if isinstance(value, list):
        return shape.is_set or all(isinstance(item, dict) for item in value)
    return isinstance(value, dict) and shape.kind in {"struct", "map"}


def children(value: Any, shape: shapes.Shape) -> dict[str, tuple[Any, shapes.Shape]]:
    """Parts of a granular value by step, each with its shape."""
    if isinstance(value, dict):
        return {f"f:{name}": (item, shape.field(name) or shapes.ANY) for name, item in value.items()}
    if shape.is_set:
        return {value_step(item): (item, shape.item()) for item in value}
    return {key_step(item, shape.keys): (item, shape.item()) for item in value}


def owned(config: Json, shape: shapes.Shape) -> Paths:
    """Fields that an applied configuration claims."""
    found: Paths = set()
    _collect(config, shape, (), found, inner=False)
    return _tracked(found)


def _collect(value: Any, shape: shapes.Shape, path: Path, found: Paths, *, inner: bool) -> None:
    """Add the leaves below `path`, and list items; with `inner` also the maps and lists on the way."""
    if not is_granular(value, shape) or not value:
        found.add(path)
        return
    if path and (inner or path[-1].startswith("k:")):
        found.add(path)
    for step, (item, below) in children(value, shape).items():
        _collect(item, below, (*path, step), found, inner=inner)


@dataclasses.dataclass(frozen=True)
class Difference:
    """What differs between two states of an object."""

    changed: Paths
    """Fields that were added or have another value."""
    removed: Paths


def compare(old: Json, new: Json, shape: shapes.Shape) -> Difference:
    """Which fields a write has changed and removed."""
    changed: Paths = set()
    removed: Paths = set()
    _compare(old, new, shape, (), changed, removed)
    if shape.name:
        changed -= ALWAYS_THERE
    return Difference(_tracked(changed), _tracked(removed))


def _compare(old: Any, new: Any, shape: shapes.Shape, path: Path, changed: Paths, removed: Paths) -> None:
    if old is new or old == new:
        return
    if not (
        is_granular(old, shape) and is_granular(new, shape) and isinstance(old, dict) == isinstance(new, dict)
    ):
        changed.add(path)
        return
    before, after = children(old, shape), children(new, shape)
    for step, (item, below) in after.items():
        if step in before:
            _compare(before[step][0], item, below, (*path, step), changed, removed)
        else:
            _collect(item, below, (*path, step), changed, inner=True)
    for step in before.keys() - after.keys():
        item, below = before[step]
        _collect(item, below, (*path, step), removed, inner=True)


def _tracked(paths: Paths) -> Paths:
    return {path for path in paths if path not in {(), METADATA} and not UNTRACKED & {path[:1], path[:2]}}
